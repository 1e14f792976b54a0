"""Compacts conversations: for `POST /v1/responses/compact`, for a trigger in the input, when one is long.

Each asks a model for a summary and seals it into a compaction item.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from msgspec import Struct, UnsetType
from msgspec.structs import replace

from antiphon.caller import Caller
from antiphon.errors import InvalidRequest
from antiphon.protocol.compact import CompactedResponse, CompactRequest, parse_compact
from antiphon.protocol.content import InputText
from antiphon.protocol.ids import Clock, IdSource
from antiphon.protocol.items import Compaction, CompactionTrigger, Item, Message
from antiphon.protocol.requests import CreateResponse
from antiphon.service.responses.context import Context, Contexts
from antiphon.service.responses.file_room import HeldContent, SentContent
from antiphon.service.responses.summarise import Beat, Summariser, Summary, no_beat
from antiphon.service.routing.router import Router
from antiphon.turn.chunks import Compacted
from antiphon.turn.compaction import (
    compaction_due,
    is_callers_message,
    split_fresh,
)
from antiphon.turn.sealing import SealKey
from antiphon.turn.token_estimate import estimate_tokens
from antiphon.turn.transcript import transcript


class CompactionPlan(Struct, frozen=True):
    """The beginning of a turn: the items that the model sees, and a compaction to emit before its answer."""

    items: Sequence[Item]
    compacted: Compacted | None = None

    @property
    def is_all(self) -> bool:
        """Whether the compaction is all that was asked for: the response ends with it, no model is asked."""
        return self.compacted is not None and self.compacted.asked


def _estimated_tokens(items: Sequence[Item], request: CreateResponse) -> int:
    return estimate_tokens(items, request.params.instructions, request.tools)


@dataclass(frozen=True, slots=True)
class Compactor:
    """Compacts conversations. `model` is the operator's choice; None: the model of the request."""

    router: Router
    contexts: Contexts
    ids: IdSource
    clock: Clock
    seal_key: SealKey
    sent: SentContent
    model: str | None = None
    count_tokens: Callable[[Sequence[Item], CreateResponse], int] = _estimated_tokens

    async def compact(self, body: bytes, caller: Caller) -> CompactedResponse:
        """Answer ``POST /v1/responses/compact``. Nothing is stored."""
        with self.sent.hold(caller.tenant) as held:
            return await self._compacted_response(parse_compact(body), caller, held)

    async def _compacted_response(
        self, request: CompactRequest, caller: Caller, held: HeldContent
    ) -> CompactedResponse:
        snapshot = await self.contexts.read(
            caller.tenant,
            request.items,
            held,
            limits=self.contexts.limits.to_compact(),
            previous_response_id=request.previous_response_id,
            unchecked=request.unchecked,
        )
        view = self.contexts.compacted(
            caller.tenant, snapshot.items, snapshot.history_length, "previous_response_id"
        )
        summary = await self.summarise(
            view, caller.tenant, model=request.model, instructions=request.instructions
        )
        compaction = Compaction(
            id=self.ids.new("cmp"),
            encrypted_content=self.seal_key.sealer(caller.tenant).seal_summary(summary.text),
            status="completed",
        )
        messages = [self._as_output(item) for item in snapshot.items if is_callers_message(item)]
        return CompactedResponse(
            id=self.ids.new("resp"),
            created_at=int(self.clock()),
            output=[*messages, compaction],
            usage=summary.usage,
        )

    async def plan(
        self, items: Sequence[Item], context: Context, tenant: str, *, beat: Beat = no_beat
    ) -> CompactionPlan:
        """The beginning of the turn after these items; they are compacted now if that is requested or due.

        Feed `compacted` to the machine before the model's first chunk. If the plan `is_all`, complete the
        machine instead of calling the model.
        """
        request = context.request
        params = request.params
        view = self.view(items, context, tenant)
        if items and isinstance(items[-1], CompactionTrigger):
            summary = await self.summarise(view, tenant, model=params.model, beat=beat)
            return CompactionPlan(view, self._sealed(summary, tenant, asked=True))
        thresholds = [entry.compact_threshold for entry in params.context_management or ()]
        if not thresholds or not compaction_due(
            view, min(thresholds), lambda items: self.count_tokens(items, request)
        ):
            return CompactionPlan(view)
        replaced, _ = split_fresh(view)
        summary = await self.summarise(replaced, tenant, model=params.model, beat=beat)
        compacted = self._sealed(summary, tenant, asked=False)
        replaced, fresh = split_fresh(items)
        shorter = [*replaced, Compaction(encrypted_content=compacted.envelope), *fresh]
        return CompactionPlan(self._compacted(shorter, len(items), context, tenant), compacted)

    def view(self, items: Sequence[Item], context: Context, tenant: str) -> Sequence[Item]:
        """The items with the last compaction in place of those that it summarises."""
        return self._compacted(items, len(items), context, tenant)

    def _compacted(self, items: Sequence[Item], length: int, context: Context, tenant: str) -> Sequence[Item]:
        history_length = max(0, length - len(context.request.items))
        brought_by = "conversation" if context.request.params.conversation else "previous_response_id"
        return self.contexts.compacted(tenant, items, history_length, brought_by)

    async def summarise(
        self,
        items: Sequence[Item],
        tenant: str,
        *,
        model: str,
        instructions: str | None = None,
        beat: Beat = no_beat,
    ) -> Summary:
        """The summary of these items, by the operator's model or else by this one."""
        passages = transcript(items)
        if not passages:
            message = "There is nothing to compact: send messages, calls or outputs before the compaction."
            raise InvalidRequest(message, param="input", code="invalid_value")
        summariser = Summariser(
            router=self.router,
            ids=self.ids,
            clock=self.clock,
            tenant=tenant,
            model=self.model or model,
            instructions=instructions,
            beat=beat,
        )
        return await summariser.summarise(passages)

    def _as_output(self, message: Message) -> Message:
        """A message as the official SDK reads output: with an id, a status and a list of parts."""
        content = message.content
        parts = [InputText(text=content)] if isinstance(content, str) else content
        item_id = self.ids.new("msg") if isinstance(message.id, UnsetType) else message.id
        return replace(message, id=item_id, status="completed", content=parts)

    def _sealed(self, summary: Summary, tenant: str, *, asked: bool) -> Compacted:
        return Compacted(self.seal_key.sealer(tenant).seal_summary(summary.text), summary.usage, asked)
