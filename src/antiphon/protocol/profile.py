"""Profiles: named variants of the wire format. All code reads the fields of a profile, never its name.

`OPENAI` is the OpenAI API. `MAESTRO` and `PROXY` are the exact wire formats of two other gateways
(docs/reference/profiles.md). All profiles parse requests liberally; their differences are the fields below.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from msgspec import Struct

from antiphon.errors import InvalidRequest

HEADER = "x-antiphon-profile"
DONE = b"data: [DONE]\n\n"
"""The last line of a stream."""

Check = Literal["n", "state", "model", "input"]


class Profile(Struct, frozen=True, kw_only=True):
    """One variant of the wire format. The defaults are those of the OpenAI API."""

    name: str

    checks: tuple[Check, ...] = ()
    """The checks that run first, in this order, before the types of the other parameters."""
    ignored: frozenset[str] = frozenset()
    """Parameters that are accepted with any value and have no effect."""
    state: bool = True
    """Whether responses are stored and can be continued. If not, a client sends the complete history."""
    background: bool = True
    """Whether responses can run in the background."""
    instructions_suffice: bool = False
    """Whether a request may have `instructions` and no `input`."""
    roles: Literal["kept", "user"] = "kept"
    """`user`: the model sees instructions, and system and developer messages, as user messages."""
    parts: Literal["kept", "as_text"] = "kept"
    """`as_text`: the model sees files, and images given by URL, as the JSON of their parts."""
    arguments: Literal["kept", "readable"] = "kept"
    """`readable`: the model sees the arguments of an earlier call as `{}` if they are not JSON."""
    tools: Literal["served", "functions"] = "served"
    """`functions`: tools of all other types are omitted, with a warning in the log."""
    named_choice: Literal["named", "required"] = "named"
    """`required`: a choice that names a function is treated as `required`."""
    similar_models: bool = False
    """Whether the model with the most similar name serves an unknown name."""

    ids: Literal["timed", "marked"] = "timed"
    """`marked`: ``resp_AM-{milliseconds}-{random}``, ``msg_AM-{random}``, ``fc_AM-{random}``."""
    layout: Literal["natural", "message_first"] = "natural"
    """`message_first`: one message, always `output[0]`, open until the end; calls at 1 + their ordinal."""
    reasoning: bool = True
    """Whether responses contain reasoning."""
    annotations: bool = True
    """Whether responses contain citations."""
    created: bool = False
    """Whether responses contain `created` in addition to `created_at`."""
    usage: Literal["null", "absent", "zeros"] = "null"
    """The value of `usage` if the upstream reported none. `absent`: the member is omitted, and it is always
    omitted from a stream without ``stream_options.include_usage``."""
    finish_reason: Literal["hidden", "header", "body"] = "hidden"
    """Where the finish reason is reported, for debugging."""
    server_errors: Literal["distinct", "internal"] = "distinct"
    """`internal`: errors of backends are a 500 of the type `internal_error`."""

    truncated: Literal["incomplete", "completed"] = "incomplete"
    """The last event of a truncated answer; its status is `incomplete` in both cases."""
    error_event: bool = True
    """Whether the event `error` precedes `response.failed`."""
    end: bytes = DONE
    """The bytes after the last event of a stream."""


OPENAI = Profile(name="openai")

MAESTRO = Profile(
    name="maestro",
    checks=("state", "model", "input"),
    ignored=frozenset(
        {
            "background",
            "include",
            "prompt",
            "prompt_cache_key",
            "safety_identifier",
            "service_tier",
            "store",
            "user",
        }
    ),
    state=False,
    instructions_suffice=True,
    roles="user",
    parts="as_text",
    arguments="readable",
    tools="functions",
    named_choice="required",
    ids="marked",
    reasoning=False,
    annotations=False,
    server_errors="internal",
    error_event=False,
    end=b"",
)

PROXY = Profile(
    name="proxy",
    checks=("n", "model", "state"),
    state=False,
    background=False,
    layout="message_first",
    reasoning=False,
    created=True,
    usage="absent",
    truncated="completed",
    end=b"event: done\n" + DONE,
)

PROFILES: Mapping[str, Profile] = {profile.name: profile for profile in (OPENAI, MAESTRO, PROXY)}


@dataclass(frozen=True, slots=True)
class Profiles:
    """The profiles of a server, and its default."""

    known: Mapping[str, Profile] = field(default_factory=lambda: PROFILES)
    default: Profile = OPENAI

    def named(self, header: bytes) -> Profile:
        """The profile that a request's header names; the default if it is empty."""
        if not header:
            return self.default
        name = header.decode("latin-1").strip().lower()
        try:
            return self.known[name]
        except KeyError:
            names = ", ".join(f"'{known}'" for known in self.known)
            raise InvalidRequest(
                f"There is no profile '{name[:100]}'. Send '{HEADER}' with one of {names}, or leave it out.",
                param=HEADER,
            ) from None


DEFAULT_PROFILES = Profiles()
