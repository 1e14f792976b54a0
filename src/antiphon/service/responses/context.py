"""The context of a request: its history, the items that it refers to, the tools that it inherits.

`Contexts` resolves it for create, background work, compact and input_tokens alike. A conversation is locked
while a response is made in it.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from antiphon.caller import Caller
from antiphon.errors import AntiphonError, StoreFull, StoreUnavailable
from antiphon.protocol.definitions import Definition
from antiphon.protocol.ids import Clock
from antiphon.protocol.items import Item, ItemReference
from antiphon.protocol.requests import CreateResponse
from antiphon.protocol.response import Response
from antiphon.protocol.stored_items import item_id
from antiphon.protocol.tool_items import (
    AdditionalTools,
    McpApprovalRequest,
    McpApprovalResponse,
    ToolSearchOutput,
)
from antiphon.protocol.tools import Tool
from antiphon.service.checks import Checks
from antiphon.service.hosted_tools.base import (
    NONE_OPENED,
    NONE_SERVED,
    OpenedTools,
    ServedTools,
    ToolScope,
)
from antiphon.service.hosted_tools.mcp.approvals import approved_calls, check_approvals
from antiphon.service.hosted_tools.policy import check_policy
from antiphon.service.long_work import LongWork, let_others_run
from antiphon.service.responses.file_room import SMALL_BYTES, HeldContent
from antiphon.service.responses.history import ModelView, check_outputs, identified, model_view
from antiphon.service.responses.history_room import (
    DEFAULT_HISTORY_LIMITS,
    HistoryHold,
    HistoryLimits,
    HistoryReading,
)
from antiphon.service.routing.turn_slot import Batches
from antiphon.store.base import ANY_LENGTH, NONE_PRIVATE, Continuation, HistoryRoom, PrivateSides
from antiphon.store.ports import ConversationStore, Stores
from antiphon.turn.compaction import compact_view
from antiphon.turn.hosted_calls import HostedCall
from antiphon.turn.private_sides import model_sides, open_tools, public_side, seal_tools
from antiphon.turn.sealing import SealKey
from antiphon.turn.toolbox import declares_tools

CONVERSATION_LEASE_SECONDS = 60.0
"""How long a response holds its conversation without renewing the lock."""
_NO_HISTORY = Continuation(())
_WITH_SIDES = frozenset({ItemReference, AdditionalTools, ToolSearchOutput})
"""Items of a request that may have a private side."""
_APPROVALS = frozenset({McpApprovalRequest, McpApprovalResponse})


class Session(Protocol):
    """The responses that one connection remembers and the store does not."""

    def recall(self, response_id: str) -> Continuation | None:
        """How to continue such a response; None if it is not known here."""
        ...

    def remember(self, response: Response, history: Continuation) -> None:
        """Remember a response with its history and its output."""
        ...


class Context(Struct, frozen=True):
    """A request and its history. The request's items hold no references, and have ids if they are stored."""

    request: CreateResponse
    history: Sequence[Item] = ()
    history_is_stored: bool = True
    """If not, the history is stored with the response."""
    private: PrivateSides = NONE_PRIVATE
    """The private sides of items of the history and of the request."""
    sealed_tools: str | None = None
    """The secrets of the request's tools, as they are stored."""
    hosted: OpenedTools = NONE_OPENED
    """The tools that this server runs for the response."""
    approved: tuple[HostedCall, ...] = ()
    """The calls that the request approves. They run before the model is asked."""


class Snapshot(Struct, frozen=True):
    """What a request refers to, read without a lock: `items` are the history and then its own."""

    items: Sequence[Item]
    history_length: int
    tools: tuple[Tool, ...] = ()
    private: PrivateSides = NONE_PRIVATE


class _OwnItems(Struct, frozen=True):
    """The items of a request, and private sides by index."""

    items: tuple[Item, ...]
    private: Mapping[int, str] = {}


def _may_have_sides(items: Sequence[Item]) -> bool:
    """Whether references are to be replaced, or secrets to be sealed."""
    return not _WITH_SIDES.isdisjoint(map(type, items))


class ConversationLock:
    """Holds a conversation for one response. It must be renewed, or another response may take it."""

    def __init__(
        self, store: ConversationStore, clock: Clock, *, tenant: str, conversation_id: str, response_id: str
    ) -> None:
        self._store = store
        self._clock = clock
        self._key = tenant, conversation_id, response_id
        self._renewed_at = clock()

    async def acquire(self, room: HistoryRoom = ANY_LENGTH) -> Continuation:
        """Lock the conversation; its items. Raises `conversation_locked` if another response holds it."""
        self._renewed_at = self._clock()
        return await self._store.enter(*self._key, CONVERSATION_LEASE_SECONDS, room)

    @property
    def due(self) -> bool:
        """Whether the lock should be renewed."""
        return self._clock() - self._renewed_at > CONVERSATION_LEASE_SECONDS / 3

    async def renew(self) -> None:
        """Renew the lock if that is due."""
        if self.due:
            with suppress(StoreUnavailable, StoreFull):  # the next call tries again
                self._renewed_at = self._clock()
                await self._store.renew(*self._key, CONVERSATION_LEASE_SECONDS)

    async def renewing(self, batches: Batches) -> Batches:
        """These batches; the lock is renewed meanwhile."""
        async with aclosing(batches):
            async for batch in batches:
                yield batch
                await self.renew()

    async def release(self) -> None:
        """Unlock it. If that fails, the lock ends with its lease."""
        with suppress(AntiphonError):
            await self._store.leave(*self._key)


@dataclass(frozen=True, slots=True)
class Contexts:
    """Resolves what requests refer to."""

    stores: Stores
    seal_key: SealKey
    clock: Clock
    checks: Checks
    inherit_tools: bool = True
    served: ServedTools = NONE_SERVED
    limits: HistoryLimits = DEFAULT_HISTORY_LIMITS
    work: LongWork = field(default_factory=LongWork)

    def lock(self, request: CreateResponse, tenant: str, response_id: str) -> ConversationLock | None:
        """The lock that a response needs before its context is resolved; None if it adds nothing to a
        conversation."""
        conversation_id = request.conversation_id
        if conversation_id is None or not request.stored:
            return None
        return ConversationLock(
            self.stores.conversations,
            self.clock,
            tenant=tenant,
            conversation_id=conversation_id,
            response_id=response_id,
        )

    def own(self, request: CreateResponse) -> Context | None:
        """The context of a request that refers to nothing and is not stored; None: it has to be resolved."""
        params = request.params
        if (
            params.store is not False
            or params.previous_response_id is not None
            or params.conversation is not None
            or request.tools
            or request.unchecked
            or _may_have_sides(request.items)
            or not _APPROVALS.isdisjoint(map(type, request.items))
        ):
            return None
        check_outputs((), request.items)
        return Context(request, hosted=self.served.none)

    async def resolve(
        self,
        request: CreateResponse,
        caller: Caller,
        *,
        response_id: str,
        lock: ConversationLock | None,
        reading: HistoryReading,
        new_id: Callable[[str], str],
        session: Session | None = None,
        native: frozenset[str] = frozenset(),
    ) -> Context:
        """The context of a new response. Acquires the lock; whoever calls this releases it if it raises.
        `native`: the types of tools that the servers of the model run."""
        tenant = caller.tenant
        if request.unchecked:
            await self.checks.definitions(tenant, request.unchecked)
        if request.stored:
            await self.stores.responses.check()
        sealer = self.seal_key.sealer(tenant)
        base, is_stored = await self._history(request, tenant, lock, reading.held, session)
        if base.size > SMALL_BYTES:
            request = replace(request, input_bytes=request.input_bytes + base.size)
        if base.tools and self.inherit_tools and not request.tools:
            brought_by = "previous_response_id" if lock is None else "conversation"
            tools = open_tools(base.tools, base.sealed_tools, sealer, brought_by)
            request = replace(request, tools=tools)
        own = _OwnItems(request.items)
        if _may_have_sides(request.items):
            own = await self._own_items(tenant, request.items)
        if base.items and is_stored:
            reading.on_read()
        items, private = own.items, base.private
        check_outputs(base.items, items)
        check_approvals(base.items, items, self.served.types)
        await let_others_run(len(base.items))
        if request.stored or session is not None or own.private:
            items = identified(items, new_id, base.items)
        if own.private:
            private = {**private, **{item_id(items[index]): side for index, side in own.private.items()}}
        if items is not request.items:
            request = replace(request, items=items)
        sealed_tools = seal_tools(request.tools, sealer)
        hosted = await self._opened(request, base.items, caller, response_id, native)
        approved = approved_calls(base.items, request.items, hosted)
        return Context(request, base.items, is_stored, private, sealed_tools, hosted, approved)

    async def resolve_again(
        self,
        request: CreateResponse,
        caller: Caller,
        response_id: str,
        *,
        lock: ConversationLock | None,
        reading: HistoryReading,
        private: PrivateSides,
        sealed_tools: str | None,
        native: frozenset[str] = frozenset(),
    ) -> Context:
        """The context of a response that was submitted before, whatever was deleted since. `private` are the
        private sides of its input."""
        if request.stored:
            await self.stores.responses.check()
        room = HistoryHold(
            self.limits, reading.held, "previous_response_id" if lock is None else "conversation"
        )
        if lock is None:
            base = await self.stores.background.base(caller.tenant, response_id, room)
        else:
            base = await lock.acquire(room)
        request = replace(request, input_bytes=request.input_bytes + base.size)
        if base.items:
            reading.on_read()
        hosted = await self._opened(request, base.items, caller, response_id, native)
        approved = approved_calls(base.items, request.items, hosted)
        private = {**base.private, **private}
        return Context(request, base.items, True, private, sealed_tools, hosted, approved)

    async def read(
        self,
        tenant: str,
        items: Sequence[Item],
        held: HeldContent,
        *,
        limits: HistoryLimits | None = None,
        previous_response_id: str | None = None,
        conversation_id: str | None = None,
        tools: tuple[Tool, ...] = (),
        unchecked: Sequence[Definition] = (),
    ) -> Snapshot:
        """What a request refers to, for those who make no response of it. A long history is added to what is
        `held`; it has these `limits`, or those of all requests."""
        await self.checks.definitions(tenant, unchecked)
        base = _NO_HISTORY
        if conversation_id is not None:
            room = HistoryHold(limits or self.limits, held, "conversation")
            base = await self.stores.conversations.history(tenant, conversation_id, room)
        elif previous_response_id is not None:
            room = HistoryHold(limits or self.limits, held, "previous_response_id")
            base = await self.stores.responses.continuation(tenant, previous_response_id, room)
        own = await self._own_items(tenant, items)
        inherited = base.tools if self.inherit_tools and not tools else tools
        return Snapshot([*base.items, *own.items], len(base.items), inherited, base.private)

    def view(self, tenant: str, items: Sequence[Item], private: PrivateSides = NONE_PRIVATE) -> ModelView:
        """The items as the model sees them, compactions aside."""
        sealer = self.seal_key.sealer(tenant)
        return model_view(model_sides(items, private, sealer), sealer)

    async def view_many(
        self, tenant: str, items: Sequence[Item], private: PrivateSides = NONE_PRIVATE
    ) -> ModelView:
        """The same of items that may be very many."""
        return await self.work.run(tenant, len(items), lambda: self.view(tenant, items, private))

    def compacted(
        self, tenant: str, items: Sequence[Item], history_length: int, brought_by: str
    ) -> Sequence[Item]:
        """The items with the last compaction in place of what it summarises. `brought_by` is the parameter
        that errors about the history name."""

        def param(index: int) -> str:
            return f"input[{index - history_length}]" if index >= history_length else brought_by

        return compact_view(items, self.seal_key.sealer(tenant).open_summary, param)

    async def _opened(
        self,
        request: CreateResponse,
        history: Sequence[Item],
        caller: Caller,
        response_id: str,
        native: frozenset[str],
    ) -> OpenedTools:
        """The hosted tools of the request that this server runs. Raises what they refuse."""
        served, items = self.served, request.items
        if history and declares_tools(history):
            items = (*history, *items)
        check_policy(caller, request.tools, items)
        if not served.types or request.profile.tools == "functions":
            return served.none
        if not request.tools and not declares_tools(items):
            return served.none
        include = frozenset(request.params.include or ())
        scope = ToolScope(
            caller.tenant,
            include,
            caller.key_id,
            response_id,
            native,
            history=history,
            items=request.items,
            streamed=request.streamed,
        )
        return await served.open(request.tools, items, scope)

    async def _history(
        self,
        request: CreateResponse,
        tenant: str,
        lock: ConversationLock | None,
        held: HeldContent,
        session: Session | None,
    ) -> tuple[Continuation, bool]:
        """The history of a request, and whether it is stored."""
        parent = request.params.previous_response_id
        if parent is not None:
            room = HistoryHold(self.limits, held, "previous_response_id")
            recalled = session.recall(parent) if session is not None else None
            if recalled is None:
                return await self.stores.responses.continuation(tenant, parent, room), True
            room.check_items(len(recalled.items))
            room.take(recalled.size)
            return recalled, False
        if request.conversation_id is None:
            return _NO_HISTORY, True
        room = HistoryHold(self.limits, held, "conversation")
        if lock is not None:
            return await lock.acquire(room), True
        return await self.stores.conversations.history(tenant, request.conversation_id, room), True

    async def _own_items(self, tenant: str, items: Sequence[Item]) -> _OwnItems:
        """The items of a request with its references replaced; the secrets of tools that they declare are
        sealed."""
        sealer = self.seal_key.sealer(tenant)
        found: list[Item] = []
        private: dict[int, str] = {}
        for index, given in enumerate(items):
            item, side = given, None
            if isinstance(given, ItemReference):
                stored = await self.stores.responses.item(tenant, given.id)
                item, side = stored.item, stored.private
            if side is None:
                item, side = public_side(item, sealer)
            found.append(item)
            if side is not None:
                private[index] = side
        return _OwnItems(tuple(found), private)
