"""The store on a SQL database: every call is one script, run as one transaction."""

from collections.abc import Mapping, Sequence
from contextlib import suppress

from antiphon.protocol.ids import Clock
from antiphon.protocol.items import Item
from antiphon.protocol.response import Response
from antiphon.store import conversations, keys, responses, runs, upkeep
from antiphon.store.base import (
    NONE_PRIVATE,
    ApiKey,
    Claim,
    Continuation,
    Conversation,
    Events,
    ItemPage,
    Page,
    PrivateSides,
    StoredItem,
    StoredResponse,
    Unowned,
)
from antiphon.store.chains import AlreadyStored
from antiphon.store.database import Database
from antiphon.store.signals import Signals

LOG_TTL = 3600.0
"""Seconds for which the events of an ended response can be read again."""


class SqlStore:
    """Keeps everything in a database. `clock` decides what has expired; leases run by the database's own.

    With a `limit`, only about so many finished responses are kept: the oldest are forgotten.
    """

    def __init__(
        self,
        database: Database,
        signals: Signals,
        clock: Clock,
        *,
        limit: int | None = None,
        log_ttl: float = LOG_TTL,
    ) -> None:
        self._db = database
        self._signals = signals
        self._clock = clock
        self._limit = limit
        self._log_ttl = log_ttl
        self._since_trim = 0

    @property
    def signals(self) -> Signals:
        """What wakes those who wait for this store."""
        return self._signals

    async def check(self) -> None:
        """Raise at once if a response could not be saved right now."""
        await self._db.check()

    async def aclose(self) -> None:
        """Let go of the database."""
        await self._db.aclose()

    def _now(self) -> int:
        return int(self._clock())

    # Responses

    async def save(self, tenant: str, stored: StoredResponse) -> None:
        """Keep a finished response. Saving it again changes nothing."""
        with suppress(AlreadyStored):
            await self._db.write(responses.save(tenant, stored))
        await self._trim()

    async def _trim(self) -> None:
        """Now and then, since looking costs something too: a twentieth more may be there meanwhile."""
        if self._limit is None:
            return
        self._since_trim += 1
        if self._since_trim > self._limit // 20:
            self._since_trim = 0
            await self._db.write(upkeep.trim(self._limit), durable=False)

    async def response(self, tenant: str, response_id: str) -> Response:
        """One response."""
        return await self._db.read(responses.find(tenant, response_id, self._now()))

    async def continuation(self, tenant: str, response_id: str) -> Continuation:
        """Everything up to and including a response's output."""
        return await self._db.read(responses.continuation(tenant, response_id, self._now()))

    async def item(self, tenant: str, item_id: str) -> StoredItem:
        """One stored item."""
        return await self._db.read(responses.item(tenant, item_id, self._now()))

    async def input_items(self, tenant: str, response_id: str, page: Page) -> ItemPage:
        """What went into a response."""
        return await self._db.read(responses.input_items(tenant, response_id, page, self._now()))

    async def delete(self, tenant: str, response_id: str) -> None:
        """Forget a response."""
        await self._db.write(responses.delete(tenant, response_id, self._now()))

    async def list_responses(
        self, tenant: str, *, limit: int, after: str | None = None, conversation: str | None = None
    ) -> Sequence[StoredResponse]:
        """Responses, newest first."""
        return await self._db.read(responses.newest(tenant, limit, after, conversation, self._now()))

    # Conversations

    async def add_conversation(
        self,
        tenant: str,
        conversation: Conversation,
        items: Sequence[Item],
        private: PrivateSides = NONE_PRIVATE,
    ) -> None:
        """A new conversation."""
        await self._db.write(conversations.add(tenant, conversation, items, private))

    async def conversation(self, tenant: str, conversation_id: str) -> Conversation:
        """One conversation."""
        return await self._db.read(conversations.find(tenant, conversation_id))

    async def set_metadata(
        self, tenant: str, conversation_id: str, metadata: Mapping[str, str]
    ) -> Conversation:
        """Replace the metadata of a conversation."""
        return await self._db.write(conversations.set_metadata(tenant, conversation_id, metadata))

    async def delete_conversation(self, tenant: str, conversation_id: str) -> None:
        """Forget a conversation."""
        await self._db.write(conversations.delete(tenant, conversation_id))

    async def add_items(
        self,
        tenant: str,
        conversation_id: str,
        items: Sequence[Item],
        private: PrivateSides = NONE_PRIVATE,
    ) -> None:
        """Append items to a conversation."""
        await self._db.write(conversations.add_items(tenant, conversation_id, items, private))

    async def conversation_items(self, tenant: str, conversation_id: str, page: Page) -> ItemPage:
        """The items of a conversation."""
        return await self._db.read(conversations.list_items(tenant, conversation_id, page))

    async def conversation_item(self, tenant: str, conversation_id: str, item_id: str) -> Item:
        """One item of a conversation."""
        return await self._db.read(conversations.item(tenant, conversation_id, item_id))

    async def delete_item(self, tenant: str, conversation_id: str, item_id: str) -> None:
        """Take one item out of a conversation."""
        await self._db.write(conversations.delete_item(tenant, conversation_id, item_id))

    async def enter(self, tenant: str, conversation_id: str, response_id: str, lease: float) -> Continuation:
        """Lock a conversation for a response. A lock need not survive a power failure."""
        script = conversations.enter(tenant, conversation_id, response_id, lease, self._now())
        return await self._db.write(script, durable=False)

    async def leave(self, tenant: str, conversation_id: str, response_id: str) -> None:
        """Release the lock of a response that comes to nothing."""
        await self._db.write(conversations.leave(tenant, conversation_id, response_id), durable=False)

    # Runs

    async def submit(
        self, tenant: str, stored: StoredResponse, request: bytes, events: Events, owner: str
    ) -> None:
        """Keep a queued response. Submitting it again changes nothing."""
        with suppress(AlreadyStored):
            await self._db.write(runs.submit(tenant, stored, request, events, owner))

    async def claim(
        self, tenant: str, response_id: str, owner: str, lease: float | None = None
    ) -> Claim | None:
        """Take an unfinished response."""
        return await self._db.write(runs.claim(tenant, response_id, owner, lease, self._now()))

    async def base(self, tenant: str, response_id: str) -> Continuation:
        """What an unfinished response goes on from."""
        return await self._db.read(runs.base(tenant, response_id))

    async def append(self, tenant: str, response_id: str, token: int, events: Events) -> None:
        """Add to the event log, durably: those who follow have heard what is in it."""
        await self._db.write(runs.append(tenant, response_id, token, events))

    async def finish(self, tenant: str, token: int, stored: StoredResponse, events: Events) -> None:
        """The last events and the final response, at once."""
        await self._db.write(runs.finish(tenant, token, stored, events))
        await self._trim()

    async def events(self, tenant: str, response_id: str, after: int) -> tuple[Sequence[Events], bool]:
        """What the log holds beyond an event, and whether the response has ended."""
        return await self._db.read(runs.events(tenant, response_id, after, self._now()))

    async def beat(self, owner: str) -> None:
        """Say that this owner lives."""
        await self._db.write(runs.beat(owner), durable=False)

    async def release(self, owner: str) -> None:
        """This owner ends."""
        await self._db.write(runs.release(owner), durable=False)

    async def unowned(self, lease: float, owner: str = "") -> Sequence[Unowned]:
        """Unfinished responses that nobody else works on."""
        return await self._db.read(runs.unowned(lease, owner, self._now()))

    # Keys

    async def add_key(self, key: ApiKey) -> None:
        """Keep a key."""
        await self._db.write(keys.add(key))

    async def keys(self) -> Sequence[ApiKey]:
        """All keys."""
        return await self._db.read(keys.everything())

    async def revoke_key(self, key_id: str, now: int) -> None:
        """From now on the key is refused."""
        await self._db.write(keys.revoke(key_id, now))

    # Upkeep

    async def sweep(self) -> int:
        """Erase some of what has expired."""
        return await self._db.write(upkeep.sweep(self._log_ttl, self._now()), durable=False)
