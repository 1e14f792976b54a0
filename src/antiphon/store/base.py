"""The values that go in and out of the stores, and their errors. The ports are in `ports.py`."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, Protocol

from msgspec import Struct

from antiphon import errors
from antiphon.errors import InvalidRequest, NotFound, PreviousResponseNotFound
from antiphon.protocol.content import Metadata
from antiphon.protocol.items import Item
from antiphon.protocol.response import Response, Usage
from antiphon.protocol.tools import Tool
from antiphon.store.stats import NO_STATS, ResponseStats

EVENT_PAGE_ROWS = 16
"""The most rows of an event log that are read at once: a follower holds no more of it."""
EVENT_PAGE_BYTES = 1024 * 1024
"""The same in bytes: the row that reaches it is the last one of a page."""
LOG_GAP = "event_log_gap"
"""The error code for an append that does not continue the log: the database has lost events, as a standby
that took over may have."""
UNFINISHED = frozenset({"queued", "in_progress"})
RESPONSE_JOB = "response"
"""The kind of the job of an unfinished response."""
AGENT_RUN_JOB = "agent_run"
"""The kind of the job of an unfinished agent run."""

PrivateSides = Mapping[str, str]
"""The private sides of items by item id: content for the model that the client does not see. Each is a JSON
object of the members that replace the public ones, or a sealed envelope of one (`turn/private_sides.py`)."""
NONE_PRIVATE: PrivateSides = {}


class StoredResponse(Struct, frozen=True, kw_only=True):
    """A response and its place: after `parent`, in `conversation`, or at the start of a chain."""

    response: Response
    parent: str | None = None
    conversation: str | None = None
    input: tuple[Item, ...] = ()
    expires_at: int | None = None
    private: PrivateSides = NONE_PRIVATE
    """The private sides of its input and output items."""
    sealed_tools: str | None = None
    """The complete declarations of the tools whose public form omits secrets."""
    stats: ResponseStats = NO_STATS
    trace: bytes | None = None
    """The sealed record of what was sent upstream for it, and what came back."""


class StoredItem(Struct, frozen=True):
    """An item with its private side."""

    item: Item
    private: str | None = None


class Continuation(Struct, frozen=True):
    """The history for the next turn: all items, oldest first, with their private sides, and the tools that
    were declared last."""

    items: Sequence[Item]
    tools: tuple[Tool, ...] = ()
    private: PrivateSides = NONE_PRIVATE
    sealed_tools: str | None = None
    size: int = 0
    """Characters of its items as JSON; 0 if that is not known."""


class HistoryRoom(Protocol):
    """The room that the reader of a history has. Whatever a call raises ends the reading."""

    def check_items(self, count: int) -> None:
        """The history has at most so many items, of which the first page was read."""
        ...

    def take(self, size: int) -> None:
        """So many characters more were read."""
        ...


class _AnyLength:
    def check_items(self, count: int) -> None:
        pass

    def take(self, size: int) -> None:
        pass


ANY_LENGTH: HistoryRoom = _AnyLength()
"""Room for every history."""


class Page(Struct, frozen=True, kw_only=True):
    """The requested part of a list; `after` and `before` are ids of items, in the order of the list.

    `before` alone asks for the page that ends right before that item.
    """

    after: str | None = None
    before: str | None = None
    limit: int = 20
    order: Literal["asc", "desc"] = "desc"


class ItemPage(Struct, frozen=True):
    """A part of a list of items, and whether more items follow in the requested order."""

    items: Sequence[Item]
    has_more: bool


class Conversation(Struct, frozen=True, kw_only=True):
    """A named list of items."""

    id: str
    created_at: int
    metadata: Metadata = {}


class Progress(Struct, frozen=True):
    """What the attempts at a background response have used of its limits so far."""

    begun_at: float
    """When the first attempt began, in seconds since 1970."""
    rounds: int = 0
    """Rounds that have ended with calls of hosted tools."""
    usage: Usage | None = None
    """Of the rounds that another one follows."""


class Events(Struct, frozen=True):
    """Consecutive events as the log stores them: rendered, each one terminated by a blank line.

    `first` is the number of the first event; `count` is the number of events.
    """

    first: int
    count: int
    data: bytes
    private: PrivateSides = NONE_PRIVATE
    """The private sides of items that end here. Only the next attempt reads them, not those who follow."""
    progress: Progress | None = None
    """What has been used until here, for the next attempt; None: no more than before."""

    @property
    def large(self) -> bool:
        """Never: larger events are made when they are stored."""
        return False

    def rows(self) -> Iterable["Events"]:
        """One row of the log."""
        return (self,)


class EventRows(Protocol):
    """Consecutive events that become several rows of the log, each made when it is stored: those of a large
    answer are not all in memory at the same time."""

    @property
    def first(self) -> int:
        """The number of the first event."""
        ...

    @property
    def count(self) -> int:
        """The number of events."""
        ...

    @property
    def large(self) -> bool:
        """Whether to store them takes so long that others should not wait for it."""
        ...

    def rows(self) -> Iterable[Events]:
        """The rows, from the first event to the last. They can be made again."""
        ...


def is_full_page(rows: Sequence[Events]) -> bool:
    """Whether there may be more rows behind a page of the log."""
    return len(rows) >= EVENT_PAGE_ROWS or sum(len(row.data) for row in rows) >= EVENT_PAGE_BYTES


class Claim(Struct, frozen=True, kw_only=True):
    """The right to work on an unfinished response: the store rejects writes with an older `token`.

    `request` is the body of the request that created it; `events` are the stored events; `private` are the
    private sides of its input, and of items that earlier attempts have finished.
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
    traced: bool = False
    """Whether its trace is recorded."""
    key_id: str | None = None
    """The key that it was created with; None: none, or one of the settings."""
    progress: Progress | None = None
    """What earlier attempts have used; None: there were none."""
    key_tools: frozenset[str] | None = None
    """The hosted tools that this key may use; None: all."""


class NewJob(Struct, frozen=True, kw_only=True):
    """A job to add. It is due after `delay` seconds; with a `period` it is due again that many seconds after
    each completion."""

    kind: str
    tenant: str
    id: str
    delay: float = 0.0
    period: float | None = None


class Job(Struct, frozen=True, kw_only=True):
    """A claimed job: `owner` may work on it until another owner claims it with a higher token.

    `failures` counts attempts that raised an error; `broken_off` counts attempts whose process died.
    """

    kind: str
    tenant: str
    id: str
    owner: str
    token: int = 1
    failures: int = 0
    broken_off: int = 0


class JobLimit(Struct, frozen=True):
    """How many jobs of a kind this owner can take now, and how many of one tenant may run on all owners."""

    kind: str
    free: int
    per_tenant: int | None = None


class Settled(Struct, frozen=True):
    """The outcome of a claimed job. A failed job is due again after `delay` seconds."""

    job: Job
    outcome: Literal["finished", "failed", "released"]
    delay: float = 0.0


class ApiKey(Struct, frozen=True, kw_only=True):
    """An API key. The store holds an HMAC of the secret, never the secret."""

    id: str
    tenant: str
    name: str
    digest: str
    scopes: tuple[str, ...]
    created_at: int
    expires_at: int | None = None
    revoked_at: int | None = None
    tools: tuple[str, ...] | None = None
    """The hosted tools that it may use; None: all."""


Fenced = errors.Fenced
"""Raised by writes with an outdated token."""


def response_not_found(response_id: str, param: str | None = None) -> NotFound:
    """The same error for unknown, foreign, deleted and expired responses: a 404, or a 400 where a request
    continues it."""
    if param == "previous_response_id":
        return PreviousResponseNotFound(f"Previous response with id '{response_id}' not found.")
    return NotFound(f"Response with id '{response_id}' not found.", param=param, code="not_found")


def item_not_found(item_id: str, param: str | None = "input") -> NotFound:
    """The 404 for items."""
    return NotFound(f"Item with id '{item_id}' not found.", param=param, code="not_found")


def conversation_not_found(conversation_id: str, param: str | None = None) -> NotFound:
    """The 404 for conversations."""
    return NotFound(f"Conversation with id '{conversation_id}' not found.", param=param, code="not_found")


def conversation_locked(conversation_id: str) -> InvalidRequest:
    """The error for a second response in a conversation at the same time."""
    return InvalidRequest(
        f"Another response is being made in conversation '{conversation_id}'. Wait until it has ended.",
        param="conversation",
        code="conversation_locked",
    )


def not_finished(response_id: str, status: str) -> InvalidRequest:
    """The error for continuing an unfinished response."""
    return InvalidRequest(
        f"Response '{response_id}' is {status.replace('_', ' ')}. Wait until it has ended, then continue it.",
        param="previous_response_id",
        code="response_not_finished",
    )
