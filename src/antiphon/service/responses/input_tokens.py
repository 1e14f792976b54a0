"""How many tokens a request is for its model, with everything that it refers to."""

from dataclasses import dataclass
from typing import Literal

from antiphon.backends.base import TokenCounter
from antiphon.caller import Caller
from antiphon.protocol.requests import CreateResponse
from antiphon.service.responses.context import Contexts
from antiphon.service.responses.file_room import HeldContent, SentContent
from antiphon.service.routing.router import Router
from antiphon.turn.token_estimate import Reading, estimate, read


@dataclass(frozen=True, slots=True)
class Count:
    """A number of tokens, and whether the model's own tokenizer counted the text."""

    tokens: int
    by: Literal["exact", "estimate"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenCount:
    """Counts requests without running them. Nothing is stored, no conversation is locked."""

    router: Router
    contexts: Contexts
    sent: SentContent

    async def count(self, request: CreateResponse, caller: Caller) -> Count:
        """The tokens of the input: history, new items, instructions and tools."""
        with self.sent.hold(caller.tenant) as held:
            return await self._counted(request, caller, held)

    async def _counted(self, request: CreateResponse, caller: Caller, held: HeldContent) -> Count:
        conversation_id = request.conversation_id
        snapshot = await self.contexts.read(
            caller.tenant,
            request.items,
            held,
            previous_response_id=request.params.previous_response_id,
            conversation_id=conversation_id,
            tools=request.tools,
            unchecked=request.unchecked,
        )
        brought_by = "previous_response_id" if conversation_id is None else "conversation"

        def read_all() -> Reading:
            shown = self.contexts.compacted(
                caller.tenant, snapshot.items, snapshot.history_length, brought_by
            )
            view = self.contexts.view(caller.tenant, shown, snapshot.private)
            return read(view.items, request.params.instructions, snapshot.tools)

        reading = await self.contexts.work.run(caller.tenant, len(snapshot.items), read_all)
        return await self._count(request.params.model, reading)

    async def _count(self, model: str, reading: Reading) -> Count:
        backend = self.router.routes(model)[0].backend if model else None
        if reading.attached or not isinstance(backend, TokenCounter):
            return Count(estimate(reading), "estimate")
        counted = await backend.count_tokens("\n".join(reading.texts))
        return Count(counted + reading.template_tokens, "exact")
