"""The ports of the stores: one per aggregate, all on one database.

Stores take complete values; their callers generate ids and times. The tenant is the first argument of every
call; a tenant cannot see the rows of another. Unknown, foreign, deleted and expired rows raise the same
`NotFound`.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from antiphon.protocol.items import Item
from antiphon.protocol.response import Response
from antiphon.store.agent_runs import AgentRunStore
from antiphon.store.approvals import OpenApproval
from antiphon.store.base import (
    ANY_LENGTH,
    NONE_PRIVATE,
    ApiKey,
    Claim,
    Continuation,
    Conversation,
    EventRows,
    Events,
    HistoryRoom,
    ItemPage,
    Job,
    JobLimit,
    NewJob,
    Page,
    PrivateSides,
    Settled,
    StoredItem,
    StoredResponse,
)
from antiphon.store.blobs.port import BlobStore
from antiphon.store.files import FileStore
from antiphon.store.signals import Signals
from antiphon.store.summaries import SummaryStore
from antiphon.store.vector_stores import VectorStores


class ResponseStore(Protocol):
    """Responses and their items."""

    async def check(self) -> None:
        """Raise `StoreUnavailable` or `StoreFull` at once if a response could not be saved right now."""
        ...

    async def save(self, tenant: str, stored: StoredResponse) -> None:
        """Save a finished response; when this returns, a crash does not lose it.

        In a conversation its items are appended (if it completed or is incomplete) and the lock that it
        holds is released; `conversation_locked` if another response has it. Saving again changes nothing.
        """
        ...

    async def response(self, tenant: str, response_id: str) -> Response:
        """One response, as its creator received it. An unfinished one has its current status."""
        ...

    async def continuation(
        self, tenant: str, response_id: str, room: HistoryRoom = ANY_LENGTH
    ) -> Continuation:
        """Everything up to and including a response's output. An unfinished one cannot be continued. `room`
        is taken while it is read."""
        ...

    async def item(self, tenant: str, item_id: str) -> StoredItem:
        """One stored item, input or output, of an existing response or conversation."""
        ...

    async def open_approvals(self, tenant: str, limit: int) -> Sequence[OpenApproval]:
        """Approval requests of responses that nobody has answered and nothing continues, newest first."""
        ...

    async def take_approvals(self, tenant: str, request_ids: Sequence[str]) -> None:
        """Record that these requests are answered, before their calls run. Raises `InvalidRequest` if one of
        them was answered before, also on another branch, or in a response that is not stored."""
        ...

    async def input_items(self, tenant: str, response_id: str, page: Page) -> ItemPage:
        """The input of a response: the history before it and its own input."""
        ...

    async def delete(self, tenant: str, response_id: str) -> None:
        """Delete a response. Responses that continue it stay; items that no history needs are erased."""
        ...

    async def list_responses(
        self, tenant: str, *, limit: int, after: str | None = None, conversation: str | None = None
    ) -> Sequence[StoredResponse]:
        """Finished and unfinished responses, newest first; `after` is an id. Without their input."""
        ...


class ConversationStore(Protocol):
    """Conversations: named lists of items with a lock."""

    async def add_conversation(
        self,
        tenant: str,
        conversation: Conversation,
        items: Sequence[Item],
        private: PrivateSides = NONE_PRIVATE,
    ) -> None:
        """Save a new conversation with its first items."""
        ...

    async def conversation(self, tenant: str, conversation_id: str) -> Conversation:
        """Return one conversation."""
        ...

    async def set_metadata(
        self, tenant: str, conversation_id: str, metadata: Mapping[str, str]
    ) -> Conversation:
        """Replace the metadata of a conversation."""
        ...

    async def delete_conversation(self, tenant: str, conversation_id: str) -> None:
        """Delete a conversation. Responses that were made in it stay."""
        ...

    async def add_items(
        self,
        tenant: str,
        conversation_id: str,
        items: Sequence[Item],
        private: PrivateSides = NONE_PRIVATE,
    ) -> None:
        """Append items to a conversation; rejected while a response in it is unfinished."""
        ...

    async def conversation_items(self, tenant: str, conversation_id: str, page: Page) -> ItemPage:
        """The items of a conversation."""
        ...

    async def conversation_item(self, tenant: str, conversation_id: str, item_id: str) -> Item:
        """One item of a conversation."""
        ...

    async def delete_item(self, tenant: str, conversation_id: str, item_id: str) -> None:
        """Remove one item from a conversation; rejected while a response in it is unfinished.

        Responses that were created with it still contain it.
        """
        ...

    async def history(
        self, tenant: str, conversation_id: str, room: HistoryRoom = ANY_LENGTH
    ) -> Continuation:
        """What a conversation holds, without a lock and without the tools that were declared last."""
        ...

    async def enter(
        self,
        tenant: str,
        conversation_id: str,
        response_id: str,
        lease: float,
        room: HistoryRoom = ANY_LENGTH,
    ) -> Continuation:
        """Lock a conversation for a response, for `lease` seconds, and return its items.

        `conversation_locked` if another response has it. If the history cannot be read, the lock stays.
        """
        ...

    async def renew(self, tenant: str, conversation_id: str, response_id: str, lease: float) -> None:
        """Hold the lock for `lease` seconds from now. `conversation_locked` if another response has it."""
        ...

    async def leave(self, tenant: str, conversation_id: str, response_id: str) -> None:
        """Release the lock of a response that was abandoned."""
        ...


class BackgroundStore(Protocol):
    """Unfinished responses of the background, and their event logs."""

    async def submit(
        self, tenant: str, stored: StoredResponse, request: bytes, events: Events, owner: str | None = None
    ) -> None:
        """Save a queued response with its first events and its job, which `owner` has claimed already."""
        ...

    async def claim(self, tenant: str, response_id: str, job: Job | None = None) -> Claim | None:
        """Claim an unfinished response; None if it has ended or is gone. Raises `Fenced` if `job` was
        claimed by another owner since; without a job it is taken from any owner."""
        ...

    async def base(self, tenant: str, response_id: str, room: HistoryRoom = ANY_LENGTH) -> Continuation:
        """The history that an unfinished response continues; later deletions do not affect it."""
        ...

    async def append(self, tenant: str, response_id: str, token: int, events: Events) -> None:
        """Append to the event log; the response is in progress. Raises `Fenced`. Repeating it is harmless.

        `event_log_gap` if the log does not end right before these events: claim the response again.
        """
        ...

    async def finish(self, tenant: str, token: int, stored: StoredResponse, events: EventRows) -> None:
        """Save the last events and the final response together, like `save`. Raises `Fenced`."""
        ...

    async def events(self, tenant: str, response_id: str, after: int) -> tuple[Sequence[Events], bool]:
        """The first rows of the log that hold events with numbers above `after`, up to `EVENT_PAGE_ROWS`, and
        whether the response has ended and these are its last.

        A row may begin with older events. A response without a log gives no rows.
        """
        ...


class JobStore(Protocol):
    """Jobs: claims, leases and due times."""

    async def add(self, job: NewJob) -> None:
        """Add a job unless it exists."""
        ...

    async def claim(self, owner: str, limits: Sequence[JobLimit]) -> Sequence[Job]:
        """Claim due jobs of these kinds, in this order, the longest due first."""
        ...

    async def claim_one(self, owner: str, kind: str, tenant: str, job_id: str, lease: float) -> Job | None:
        """Claim one job, due or not; None if it is gone or another owner holds it."""
        ...

    async def look(self, kinds: Sequence[str]) -> tuple[bool, float | None]:
        """Whether a job is due, and the seconds until the next one will be; None if there is no job."""
        ...

    async def free_lapsed(self, owner: str, lease: float) -> int:
        """Take the jobs of other owners without a sign of life for `lease` seconds; return how many."""
        ...

    async def held(self, owner: str) -> Sequence[Job]:
        """The jobs of an owner."""
        ...

    async def settle(self, settled: Sequence[Settled]) -> None:
        """Record the outcomes of claimed jobs. Jobs that another owner has claimed since are unchanged."""
        ...

    async def beat(self, owner: str) -> None:
        """Record a sign of life of this owner."""
        ...

    async def release(self, owner: str) -> None:
        """Release all jobs of this owner."""
        ...


class KeyStore(Protocol):
    """API keys."""

    async def add_key(self, key: ApiKey) -> None:
        """Save a key."""
        ...

    async def list_keys(self) -> Sequence[ApiKey]:
        """All keys, revoked and expired ones too, oldest first."""
        ...

    async def revoke_key(self, key_id: str, now: int) -> None:
        """Reject the key from now on. Raises `NotFound` if there is no such key."""
        ...

    async def delete_keys(self, key_ids: Sequence[str]) -> None:
        """Remove the keys. Raises `NotFound` if one does not exist; then none is removed."""
        ...

    async def record_seal_key(self, fingerprint: str) -> str:
        """The fingerprint of the sealing key of this database; the first call records this one."""
        ...

    async def replace_seal_key(self, fingerprint: str) -> None:
        """Record the fingerprint of another sealing key."""
        ...


class UpkeepStore(Protocol):
    """Upkeep, across all tenants."""

    async def sweep(self) -> int:
        """Erase a batch of expired rows and return their number. Call it again while it is not 0."""
        ...

    async def shrink(self) -> bool:
        """Return a part of the space of erased rows; whether there is more."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Stores:
    """The ports on one database, and its signals. Each user is given only the ports that it uses."""

    responses: ResponseStore
    conversations: ConversationStore
    background: BackgroundStore
    agent_runs: AgentRunStore
    files: FileStore
    blobs: BlobStore
    """The blob store in this database."""
    vector_stores: VectorStores
    jobs: JobStore
    keys: KeyStore
    summaries: SummaryStore
    upkeep: UpkeepStore
    signals: Signals
    aclose: Callable[[], Awaitable[None]]
    """Closes the database, and with it all ports."""
    stateless: bool = False
    """True for the store `none`, which saves nothing."""
