"""The values that go in and out of the stores, and their errors. The ports are in `ports.py`."""

from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec import Struct

from antiphon import errors
from antiphon.errors import InvalidRequest, NotFound
from antiphon.protocol.items import Item
from antiphon.protocol.requests import Metadata
from antiphon.protocol.response import Response
from antiphon.protocol.tools import Tool

LOG_GAP = "event_log_gap"
"""The code of the error when events to be logged do not follow on those that are there: the database has
forgotten some, as one may that took over from another."""
UNFINISHED = frozenset({"queued", "in_progress"})
RESPONSE_JOB = "response"
"""The kind of the job of an unfinished response."""
AGENT_RUN_JOB = "agent_run"
"""The kind of the job of an unfinished agent run."""

PrivateSides = Mapping[str, str]
"""The private sides of items by item id: what the model sees and the client does not. Each is a JSON object
of the members that replace the public ones, or a sealed envelope of one (`turn/private_sides.py`)."""
NONE_PRIVATE: PrivateSides = {}


class StoredResponse(Struct, frozen=True, kw_only=True):
    """A response with where it belongs: after `parent`, in `conversation`, or at the start of a chain."""

    response: Response
    parent: str | None = None
    conversation: str | None = None
    input: tuple[Item, ...] = ()
    expires_at: int | None = None
    private: PrivateSides = NONE_PRIVATE
    """Of items of its input and output."""
    sealed_tools: str | None = None
    """The complete declarations of those tools whose public form leaves out secrets."""


class StoredItem(Struct, frozen=True):
    """An item with its private side."""

    item: Item
    private: str | None = None


class Continuation(Struct, frozen=True):
    """What a next turn needs: all items so far, oldest first, with their private sides, and the tools that
    were declared last."""

    items: Sequence[Item]
    tools: tuple[Tool, ...] = ()
    private: PrivateSides = NONE_PRIVATE
    sealed_tools: str | None = None


class Page(Struct, frozen=True, kw_only=True):
    """Which part of a list is wanted; `after` and `before` are ids of items, in the order of the list.

    `before` alone asks for the page that ends right before that item.
    """

    after: str | None = None
    before: str | None = None
    limit: int = 20
    order: Literal["asc", "desc"] = "desc"


class ItemPage(Struct, frozen=True):
    """A part of a list of items, and whether there are more in the direction in which it was read."""

    items: Sequence[Item]
    has_more: bool


class Conversation(Struct, frozen=True, kw_only=True):
    """A named list of items."""

    id: str
    created_at: int
    metadata: Metadata = {}


class Events(Struct, frozen=True):
    """Events in a row as the log keeps them: rendered, each one ended by a blank line.

    `first` is the number of the first one; `count` says how many there are.
    """

    first: int
    count: int
    data: bytes


class Claim(Struct, frozen=True, kw_only=True):
    """The right to work on an unfinished response: writes with an older `token` are refused from now on.

    `request` is the body that it was created with; `events` are those stored so far.
    """

    token: int
    attempt: int
    response: Response
    request: bytes
    input: tuple[Item, ...]
    private: PrivateSides
    tools: tuple[Tool, ...]
    sealed_tools: str | None
    expires_at: int | None
    events: Sequence[Events]


class NewJob(Struct, frozen=True, kw_only=True):
    """A job to add. It is due after `delay` seconds; with a `period` it is due again so many seconds after
    each time that it was done."""

    kind: str
    tenant: str
    id: str
    delay: float = 0.0
    period: float | None = None


class Job(Struct, frozen=True, kw_only=True):
    """A claimed job: `owner` may work on it until another owner claims it with a higher token.

    `failures` counts attempts that raised an error; `broken_off` those whose process was gone before the end.
    """

    kind: str
    tenant: str
    id: str
    owner: str
    token: int = 1
    failures: int = 0
    broken_off: int = 0


class JobLimit(Struct, frozen=True):
    """How many jobs of a kind can be taken now, and how many of one tenant may be worked on everywhere."""

    kind: str
    free: int
    per_tenant: int | None = None


class Settled(Struct, frozen=True):
    """What became of a claimed job. One that failed is due again after `delay` seconds."""

    job: Job
    outcome: Literal["finished", "failed", "released"]
    delay: float = 0.0


class ApiKey(Struct, frozen=True, kw_only=True):
    """A key as it is stored: never the secret, only its HMAC."""

    id: str
    tenant: str
    name: str
    digest: str
    scopes: tuple[str, ...]
    created_at: int
    expires_at: int | None = None
    revoked_at: int | None = None


Fenced = errors.Fenced
"""Raised by writes with an outdated token."""


def response_not_found(response_id: str, param: str | None = None) -> NotFound:
    """The one 404 for unknown, foreign, deleted and expired responses."""
    return NotFound(
        f"Response with id '{response_id}' not found.",
        param=param,
        code="previous_response_not_found" if param == "previous_response_id" else "not_found",
    )


def item_not_found(item_id: str, param: str | None = "input") -> NotFound:
    """The one 404 for items."""
    return NotFound(f"Item with id '{item_id}' not found.", param=param, code="not_found")


def conversation_not_found(conversation_id: str, param: str | None = None) -> NotFound:
    """The one 404 for conversations."""
    return NotFound(f"Conversation with id '{conversation_id}' not found.", param=param, code="not_found")


def conversation_locked(conversation_id: str) -> InvalidRequest:
    """Two responses cannot be made in one conversation at the same time."""
    return InvalidRequest(
        f"Another response is being made in conversation '{conversation_id}'. Wait until it has ended.",
        param="conversation",
        code="conversation_locked",
    )


def not_finished(response_id: str, status: str) -> InvalidRequest:
    """An unfinished response has no history to go on from."""
    return InvalidRequest(
        f"Response '{response_id}' is {status.replace('_', ' ')}. Wait until it has ended, then continue it.",
        param="previous_response_id",
        code="response_not_finished",
    )
