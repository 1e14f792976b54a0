"""The port that every store implements, and the values that go in and out.

Stores take finished values and invent nothing: ids and times are made above. The tenant comes first, always;
what belongs to another tenant does not exist.
"""

from collections.abc import Mapping, Sequence
from typing import Literal, Protocol

from msgspec import Struct

from antiphon.errors import InvalidRequest, NotFound
from antiphon.protocol.items import Item
from antiphon.protocol.requests import Metadata
from antiphon.protocol.response import Response
from antiphon.protocol.tools import Tool
from antiphon.store.signals import Signals

LOG_GAP = "event_log_gap"
"""The code of the error when events to be logged do not follow on those that are there: the database has
forgotten some, as one may that took over from another."""
UNFINISHED = frozenset({"queued", "in_progress"})

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

    `request` is the body that it was created with; `events` is everything that was said so far.
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


class Unowned(Struct, frozen=True):
    """Something unfinished that nobody works on: a response, or the run of an agent (its id begins with
    `run_`)."""

    tenant: str
    id: str


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


class Fenced(Exception):
    """Somebody else has claimed the response since, or it has ended: what was to be written was not."""


class Store(Protocol):
    """Keeps responses, conversations, runs, keys. Unknown, foreign, deleted, expired: the same `NotFound`."""

    @property
    def signals(self) -> Signals:
        """What wakes those who wait for this store."""
        ...

    async def check(self) -> None:
        """Raise `StoreUnavailable` or `StoreFull` at once if a response could not be saved right now."""
        ...

    # Responses

    async def save(self, tenant: str, stored: StoredResponse) -> None:
        """Keep a finished response; when this returns, a crash does not lose it.

        In a conversation its items are appended (if it completed or is incomplete) and the lock that it
        holds is released; `conversation_locked` if another response has it. Saving again changes nothing.
        """
        ...

    async def response(self, tenant: str, response_id: str) -> Response:
        """One response, equal to what its creator was told. An unfinished one has its current status."""
        ...

    async def continuation(self, tenant: str, response_id: str) -> Continuation:
        """Everything up to and including a response's output. An unfinished one cannot be continued."""
        ...

    async def item(self, tenant: str, item_id: str) -> StoredItem:
        """One stored item, input or output, of a response or a conversation that is still there."""
        ...

    async def input_items(self, tenant: str, response_id: str, page: Page) -> ItemPage:
        """What went into a response: the history before it and its own input."""
        ...

    async def delete(self, tenant: str, response_id: str) -> None:
        """Forget a response. Those that continue it go on; what nobody needs any more is erased."""
        ...

    async def list_responses(
        self, tenant: str, *, limit: int, after: str | None = None, conversation: str | None = None
    ) -> Sequence[StoredResponse]:
        """Finished and unfinished responses, newest first; `after` is an id. Without their input."""
        ...

    # Conversations

    async def add_conversation(
        self,
        tenant: str,
        conversation: Conversation,
        items: Sequence[Item],
        private: PrivateSides = NONE_PRIVATE,
    ) -> None:
        """A new conversation with its first items."""
        ...

    async def conversation(self, tenant: str, conversation_id: str) -> Conversation:
        """One conversation."""
        ...

    async def set_metadata(
        self, tenant: str, conversation_id: str, metadata: Mapping[str, str]
    ) -> Conversation:
        """Replace the metadata of a conversation."""
        ...

    async def delete_conversation(self, tenant: str, conversation_id: str) -> None:
        """Forget a conversation. Responses that were made in it stay."""
        ...

    async def add_items(
        self,
        tenant: str,
        conversation_id: str,
        items: Sequence[Item],
        private: PrivateSides = NONE_PRIVATE,
    ) -> None:
        """Append items to a conversation; refused while a response is being made in it."""
        ...

    async def conversation_items(self, tenant: str, conversation_id: str, page: Page) -> ItemPage:
        """The items of a conversation."""
        ...

    async def conversation_item(self, tenant: str, conversation_id: str, item_id: str) -> Item:
        """One item of a conversation."""
        ...

    async def delete_item(self, tenant: str, conversation_id: str, item_id: str) -> None:
        """Take one item out of a conversation; refused while a response is being made in it.

        Responses that were made with it keep it.
        """
        ...

    async def enter(self, tenant: str, conversation_id: str, response_id: str, lease: float) -> Continuation:
        """Lock a conversation for a response, for `lease` seconds, and give what it holds.

        Calling it again for the same response renews the lock. `conversation_locked` if another has it.
        """
        ...

    async def leave(self, tenant: str, conversation_id: str, response_id: str) -> None:
        """Release the lock of a response that comes to nothing."""
        ...

    # Runs: responses that are made in the background

    async def submit(
        self, tenant: str, stored: StoredResponse, request: bytes, events: Events, owner: str
    ) -> None:
        """Keep a queued response with its first events. It is the submitter's, who will see to it."""
        ...

    async def claim(
        self, tenant: str, response_id: str, owner: str, lease: float | None = None
    ) -> Claim | None:
        """Take an unfinished response. None if it has ended or is gone, or, with a `lease`, if another owner
        has it and has said within so many seconds that it lives; without, it is taken from anybody."""
        ...

    async def base(self, tenant: str, response_id: str) -> Continuation:
        """The items that an unfinished response goes on from, whatever was deleted since it was submitted."""
        ...

    async def append(self, tenant: str, response_id: str, token: int, events: Events) -> None:
        """Add to the event log; the response is in progress. Raises `Fenced`. Doing it again changes nothing.

        `event_log_gap` if the log does not end right before these events: claim the response again.
        """
        ...

    async def finish(self, tenant: str, token: int, stored: StoredResponse, events: Events) -> None:
        """The last events and the final response, at once, like `save`. Raises `Fenced`."""
        ...

    async def events(self, tenant: str, response_id: str, after: int) -> tuple[Sequence[Events], bool]:
        """Rows of the log that hold events with numbers above `after`, and whether the response has ended.

        A row may begin with older events. A response without a log gives no rows.
        """
        ...

    async def beat(self, owner: str) -> None:
        """Say that this owner lives."""
        ...

    async def release(self, owner: str) -> None:
        """This owner ends: its unfinished responses and runs of agents are nobody's now."""
        ...

    async def unowned(self, lease: float, owner: str = "") -> Sequence[Unowned]:
        """Unfinished responses and runs of agents without an owner, of one that has been silent for `lease`
        seconds, or of `owner` itself."""
        ...

    # Keys

    async def add_key(self, key: ApiKey) -> None:
        """Keep a key."""
        ...

    async def keys(self) -> Sequence[ApiKey]:
        """All keys, revoked and expired ones too, oldest first."""
        ...

    async def revoke_key(self, key_id: str, now: int) -> None:
        """From now on the key is refused. `NotFound` if there is none."""
        ...

    # Upkeep

    async def sweep(self) -> int:
        """Erase some of what has expired; how much it was. Call it again while it is not 0."""
        ...

    async def aclose(self) -> None:
        """Let go of files and connections."""
        ...


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
