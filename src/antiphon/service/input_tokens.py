"""How many tokens a request would be for its model: everything that it stands on counts."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from antiphon.backends.base import TokenCounter
from antiphon.errors import NotFound
from antiphon.protocol.items import Item, ItemReference
from antiphon.protocol.requests import CreateResponse
from antiphon.service.resolve import model_view
from antiphon.service.routing.router import Router
from antiphon.store.base import Continuation, Page, conversation_not_found
from antiphon.store.ports import Stores
from antiphon.turn.compaction import compact_view
from antiphon.turn.sealing import Sealer
from antiphon.turn.token_estimate import Reading, estimate, read

_WHOLE = Page(limit=1_000_000, order="asc")


@dataclass(frozen=True, slots=True)
class Count:
    """A number of tokens, and whether the model's own tokenizer counted the text."""

    tokens: int
    by: Literal["exact", "estimate"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenCount:
    """Counts requests without running them. Nothing is stored, no conversation is locked."""

    router: Router
    store: Stores
    sealer: Sealer
    inherit_tools: bool = True

    async def count(self, tenant: str, request: CreateResponse) -> Count:
        """The tokens of the input: history, new items, instructions and tools."""
        base = await self._base(tenant, request)
        items = [*base.items, *[await self._dereference(tenant, item) for item in request.items]]
        known = len(base.items)
        brought_by = "previous_response_id" if request.conversation_id is None else "conversation"
        shown = compact_view(
            items,
            self.sealer.open_summary,
            lambda index: f"input[{index - known}]" if index >= known else brought_by,
        )
        tools = base.tools if self.inherit_tools and not request.tools else request.tools
        reading = read(model_view(shown, self.sealer), request.params.instructions, tools)
        return await self._count(request.params.model, reading)

    async def _base(self, tenant: str, request: CreateResponse) -> Continuation:
        conversation, parent = request.conversation_id, request.params.previous_response_id
        if conversation is not None:
            return Continuation(await self._held(tenant, conversation))
        if parent is not None:
            return await self.store.responses.continuation(tenant, parent)
        return Continuation(())

    async def _held(self, tenant: str, conversation_id: str) -> Sequence[Item]:
        try:
            return (await self.store.conversations.conversation_items(tenant, conversation_id, _WHOLE)).items
        except NotFound:
            raise conversation_not_found(conversation_id, "conversation") from None

    async def _dereference(self, tenant: str, item: Item) -> Item:
        return (
            (await self.store.responses.item(tenant, item.id)).item
            if isinstance(item, ItemReference)
            else item
        )

    async def _count(self, model: str, reading: Reading) -> Count:
        backend = self.router.routes(model)[0].backend if model else None
        if reading.attached or not isinstance(backend, TokenCounter):
            return Count(estimate(reading), "estimate")
        counted = await backend.count_tokens("\n".join(reading.texts))
        return Count(counted + reading.marks, "exact")
