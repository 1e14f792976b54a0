"""Compact a conversation: when a client posts it, when a trigger in the input asks for it, when it is long.

All three ask a model for a summary and seal it into a compaction item.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from msgspec import Struct, UnsetType
from msgspec.structs import replace

from antiphon.errors import InvalidRequest
from antiphon.protocol.compact import CompactedResponse, CompactRequest, parse_compact
from antiphon.protocol.content import InputText
from antiphon.protocol.ids import Clock, IdSource
from antiphon.protocol.items import Compaction, CompactionTrigger, Item, ItemReference, Message
from antiphon.protocol.requests import CreateBody
from antiphon.service.routing.router import Router
from antiphon.service.summarise import Beat, Summariser, Summary, no_beat
from antiphon.store.ports import ResponseStore
from antiphon.turn.chunks import Compacted
from antiphon.turn.compaction import (
    CountTokens,
    compact_view,
    compaction_due,
    is_callers_message,
    split_fresh,
)
from antiphon.turn.sealing import Sealer
from antiphon.turn.transcript import transcript


class Plan(Struct, frozen=True):
    """What a turn begins with: the items that the model sees, and what to say before its first word."""

    items: Sequence[Item]
    compacted: Compacted | None = None

    @property
    def is_all(self) -> bool:
        """Whether the compaction is all that was asked for: the response ends with it, no model is asked."""
        return self.compacted is not None and self.compacted.asked


@dataclass(frozen=True, slots=True)
class Compactor:
    """Makes conversations short. `model` is the operator's choice; None: the model of the request."""

    router: Router
    store: ResponseStore
    ids: IdSource
    clock: Clock
    sealer: Sealer
    model: str | None = None

    async def compact(self, body: bytes, tenant: str) -> CompactedResponse:
        """Answer ``POST /v1/responses/compact``. Nothing is stored."""
        request = parse_compact(body)
        history, own = await self._resolve(request, tenant)
        items = [*history, *own]
        view = compact_view(items, self.sealer.open_summary, _places(len(history), "previous_response_id"))
        summary = await self.summarise(view, model=request.model, instructions=request.instructions)
        compaction = Compaction(
            id=self.ids.new("cmp"),
            encrypted_content=self.sealer.seal_summary(summary.text),
            status="completed",
        )
        return CompactedResponse(
            id=self.ids.new("resp"),
            created_at=int(self.clock()),
            output=[*(self._as_output(item) for item in items if is_callers_message(item)), compaction],
            usage=summary.usage,
        )

    async def plan(
        self,
        items: Sequence[Item],
        params: CreateBody,
        *,
        history: int,
        count: CountTokens,
        beat: Beat = no_beat,
    ) -> Plan:
        """What the turn after these items begins with; they are compacted now if that is asked for or due.

        `history` of the items were there before the request. Feed `compacted` to the machine before the
        model's first chunk. If the plan `is_all`, conclude the machine instead of asking the model.
        """
        view = self.view(items, params, history=history)
        if items and isinstance(items[-1], CompactionTrigger):
            summary = await self.summarise(view, model=params.model, beat=beat)
            return Plan(view, self._sealed(summary, asked=True))
        thresholds = [entry.compact_threshold for entry in params.context_management or ()]
        if not thresholds or not compaction_due(view, min(thresholds), count):
            return Plan(view)
        replaced, _ = split_fresh(view)
        compacted = self._sealed(await self.summarise(replaced, model=params.model, beat=beat), asked=False)
        replaced, fresh = split_fresh(items)
        shorter = [*replaced, Compaction(encrypted_content=compacted.envelope), *fresh]
        return Plan(self.view(shorter, params, history=history), compacted)

    def view(self, items: Sequence[Item], params: CreateBody, *, history: int) -> Sequence[Item]:
        """What the model would see of these items as they are; `history` of them came before the request."""
        brought_by = "previous_response_id" if params.conversation is None else "conversation"
        return compact_view(items, self.sealer.open_summary, _places(history, brought_by))

    async def summarise(
        self, items: Sequence[Item], *, model: str, instructions: str | None = None, beat: Beat = no_beat
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
            model=self.model or model,
            instructions=instructions,
            beat=beat,
        )
        return await summariser.summarise(passages)

    async def _resolve(self, request: CompactRequest, tenant: str) -> tuple[Sequence[Item], list[Item]]:
        """The items of the previous response, and the request's own with their references replaced."""
        parent = request.previous_response_id
        history = () if parent is None else (await self.store.continuation(tenant, parent)).items
        own = [
            (await self.store.item(tenant, item.id)).item if isinstance(item, ItemReference) else item
            for item in request.items
        ]
        return history, own

    def _as_output(self, message: Message) -> Message:
        """A message as the official SDK reads output: with an id, a status and a list of parts."""
        content = message.content
        parts = [InputText(text=content)] if isinstance(content, str) else content
        item_id = self.ids.new("msg") if isinstance(message.id, UnsetType) else message.id
        return replace(message, id=item_id, status="completed", content=parts)

    def _sealed(self, summary: Summary, *, asked: bool) -> Compacted:
        return Compacted(self.sealer.seal_summary(summary.text), summary.usage, asked)


def _places(history: int, before: str) -> Callable[[int], str]:
    """What the caller knows an item by: its index in the input, or the parameter that brought the history."""
    return lambda index: f"input[{index - history}]" if index >= history else before
