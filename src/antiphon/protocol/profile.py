"""Profiles: named sets of wire choices. One engine serves them all; code reads fields, never names.

`OPENAI` is the real API. `MAESTRO` and `PROXY` are the wires of two gateways whose clients rely on them to
the letter (docs/profiles.md). All of them take a request liberally; what they differ in is below.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from msgspec import Struct

from antiphon.errors import InvalidRequest

HEADER = "x-antiphon-profile"
DONE = b"data: [DONE]\n\n"
"""The mark at the end of a stream."""

Check = Literal["n", "state", "model", "input"]


class Profile(Struct, frozen=True, kw_only=True):
    """One set of choices. The defaults are those of the real API."""

    name: str

    checks: tuple[Check, ...] = ()
    """What is looked at first, in this order, before the types of all other parameters."""
    ignored: frozenset[str] = frozenset()
    """Parameters that are taken with any value, and have no effect."""
    state: bool = True
    """Whether responses are kept and can be continued. If not, a client sends the whole history."""
    background: bool = True
    """Whether responses are made in the background."""
    instructions_suffice: bool = False
    """Whether `instructions` without `input` are a request."""
    roles: Literal["kept", "user"] = "kept"
    """`user`: instructions, and messages of the system and the developer, reach the model as the user's."""
    parts: Literal["kept", "as_text"] = "kept"
    """`as_text`: images behind a URL, and files, reach the model as the JSON that described them."""
    tools: Literal["served", "functions"] = "served"
    """`functions`: tools of all other types are left out, with a warning in the log."""
    named_choice: Literal["named", "required"] = "named"
    """`required`: a choice that names a function only says that some function must be called."""
    similar_models: bool = False
    """Whether a model that does not exist is served by the one with the most similar name."""

    ids: Literal["timed", "marked"] = "timed"
    """`marked`: ``resp_AM-{milliseconds}-{random}``, ``msg_AM-{random}``, ``fc_AM-{random}``."""
    layout: Literal["natural", "message_first"] = "natural"
    """`message_first`: one message, always `output[0]`, open until the end; calls at 1 + their ordinal."""
    reasoning: bool = True
    """Whether reasoning is shown."""
    annotations: bool = True
    """Whether citations are shown."""
    created: bool = False
    """Whether `created` stands beside `created_at`."""
    usage: Literal["null", "absent", "zeros"] = "null"
    """What stands for usage that the upstream did not report. `absent`: nothing, and no usage at all in a
    stream that did not ask for it with ``stream_options.include_usage``."""
    finish_reason: Literal["hidden", "header", "body"] = "hidden"
    """Where the finish reason is reported, for debugging."""
    server_errors: Literal["distinct", "internal"] = "distinct"
    """`internal`: what goes wrong behind us is a plain 500 of the type `internal_error`."""

    truncated: Literal["incomplete", "completed"] = "incomplete"
    """The last event of an answer that was cut off; its status is `incomplete` either way."""
    error_event: bool = True
    """Whether `error` comes before `response.failed`."""
    end: bytes = DONE
    """What a stream ends with, after its last event."""


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
    """The profiles as a server has them, and the one that it speaks unless a request asks for another."""

    known: Mapping[str, Profile] = field(default_factory=lambda: PROFILES)
    default: Profile = OPENAI

    def named(self, header: bytes) -> Profile:
        """The profile that a request's header asks for; empty: the default."""
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
