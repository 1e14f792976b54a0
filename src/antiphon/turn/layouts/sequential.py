"""The natural layout: items one after another, as the OpenAI API emits them.

Rule 1: one item is *live* at a time. Only the live item emits; its events are not interleaved with another's.
Rule 2: a chunk of another item closes the live one and begins its own. Exceptions: a call whose arguments are
        incomplete, and a hosted tool at work, stay live, because upstreams interleave parallel calls. Chunks
        of other items are then *pending*, in order of arrival, and are replayed after the live item.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, assert_never

from antiphon.errors import BackendBroken
from antiphon.protocol.events import Event, OutputItemDone
from antiphon.protocol.items import Compaction, OutputItem, Reasoning, call_id_of, is_call
from antiphon.protocol.tool_items import (
    CodeInterpreterCall,
    FileSearchCall,
    ServerItem,
    ToolSearchCall,
    ToolSearchOutput,
    WebSearchCall,
)
from antiphon.turn.chunks import (
    AnnotationAdded,
    CallDelta,
    CallFinished,
    CallStarted,
    Compacted,
    FinishReason,
    HostedItemBegun,
    HostedItemDone,
    HostedItemStep,
    ItemBegun,
    ProviderStateAdded,
    ReasoningDelta,
    ReasoningSummaryDelta,
    RefusalDelta,
    TextDelta,
    ToolsFound,
)
from antiphon.turn.hosted import OpenHosted, emit_hosted
from antiphon.turn.items import (
    OpenCall,
    OpenItem,
    OpenMessage,
    OpenReasoning,
    Status,
    emit_compaction,
    emit_tools_found,
)
from antiphon.turn.layouts.base import ItemChunk, arguments_after_call, arguments_without_call, ran_to_its_end
from antiphon.turn.opening import Opener
from antiphon.turn.reopen import reopen

Key = tuple[Literal["call", "hosted"], int]
"""Identifies an item among those that can be open at the same time upstream."""


_EXCLUSIVE = (OpenCall, OpenHosted)
"""While one of these is live, chunks of other items wait."""
_INTERMEDIATE = (
    Reasoning,
    Compaction,
    ToolSearchOutput,
    FileSearchCall,
    WebSearchCall,
    CodeInterpreterCall,
)
# These are tuples, because a union would be made anew with every check.

ServerChunk = HostedItemBegun | HostedItemStep | HostedItemDone | Compacted | ToolsFound


@dataclass(slots=True)
class PendingItem:
    """The chunks of one pending item. The key of text and reasoning is None."""

    key: Key | None
    chunks: list[ItemChunk] = field(default_factory=list[ItemChunk])


class SequentialLayout:
    """The items of one response."""

    def __init__(self, opener: Opener) -> None:
        self._opener = opener
        self._pending: list[PendingItem] = []
        self._closed_calls: set[int] = set()
        self._phase: str | None = None
        """The phase of the next message, if the backend gave one."""
        self.live: OpenItem | None = None
        self.output: list[OutputItem] = []

    def begin(self) -> None:
        """Open nothing: items begin with their first chunk."""

    def resume(self, earlier: Sequence[Event]) -> None:
        """Continue after the events of an earlier attempt; the item that they leave open is live again. Drop
        the events that this emits: the earlier attempt has emitted them."""
        self.output = [event.item for event in earlier if isinstance(event, OutputItemDone)]
        self.live = reopen(earlier, self._opener.emit, self._opener.seal)
        calls = [self.live] if isinstance(self.live, OpenCall) else []
        call_ids = [call_id_of(item) for item in self.output if is_call(item)]
        self._opener.take_call_ids([*filter(None, call_ids), *(call.call_id for call in calls)])

    def take(self, chunk: ItemChunk) -> None:
        """Emit a chunk now, or make it pending (rule 2)."""
        if isinstance(chunk, CallFinished):
            self._call_finished(chunk.index)
            return
        live = self.live
        if live is None or not isinstance(live, _EXCLUSIVE) or _live_key(live) == _key(chunk):
            self._emit(chunk)
            if self._pending:
                self._advance()
        elif not self._pending and isinstance(live, OpenCall) and live.has_complete_arguments():
            self._close("completed")
            self._emit(chunk)
        else:
            self._pending_item(_key(chunk)).chunks.append(chunk)

    def finish(self, reason: FinishReason) -> None:
        """Emit the pending items, and close them."""
        self._close_all(ended=ran_to_its_end(reason))
        if ran_to_its_end(reason) and all(map(_shows_nothing, self.output)):
            # An empty answer gets an empty message, because clients wait for one.
            self._message()
            self._close("completed")

    def close_round(self) -> None:
        """Emit the pending items, and close them: the model continues with other items."""
        self._close_all(ended=True)

    def _close_all(self, *, ended: bool) -> None:
        while self._pending:
            if isinstance(self.live, _EXCLUSIVE):
                self._close(self._status(ended=ended))
            self._replay()
        self._close(self._status(ended=ended))

    def _status(self, *, ended: bool) -> Status:
        complete = ended or (isinstance(self.live, OpenCall) and self.live.has_complete_arguments())
        return "completed" if complete else "incomplete"

    def break_off(self) -> None:
        """Close the live item. Pending items have not begun, so they are dropped."""
        self._pending.clear()
        self._close("incomplete")

    def _pending_item(self, key: Key | None) -> PendingItem:
        """The pending item that a chunk is added to: its own, or the last text."""
        if key is None:
            if self._pending and self._pending[-1].key is None:
                return self._pending[-1]
        else:
            for item in self._pending:
                if item.key == key:
                    return item
        self._pending.append(PendingItem(key))
        return self._pending[-1]

    def _advance(self) -> None:
        """Close a live call that is complete, and replay the pending items."""
        while self._pending and not self._blocked():
            if isinstance(self.live, OpenCall):
                self._close("completed")
            self._replay()

    def _blocked(self) -> bool:
        live = self.live
        return isinstance(live, OpenHosted) or (
            isinstance(live, OpenCall) and not live.has_complete_arguments()
        )

    def _replay(self) -> None:
        for chunk in self._pending.pop(0).chunks:
            self._emit(chunk)

    def _emit(self, chunk: ItemChunk) -> None:
        match chunk:
            case TextDelta():
                self._message().text(chunk.text, chunk.logprobs)
            case CallStarted():
                self._start_call(chunk)
            case CallDelta():
                self._extend_call(chunk)
            case RefusalDelta():
                self._message().refusal(chunk.text)
            case AnnotationAdded():
                self._message().annotate(chunk.annotation, chunk.covers)
            case ReasoningDelta() | ReasoningSummaryDelta() | ProviderStateAdded():
                self._reason(chunk)
            case CallFinished():
                self._close("completed")
            case ItemBegun():
                self._close("completed")
                self._phase = chunk.phase
            case _:
                self._emit_server_item(chunk)

    def _emit_server_item(self, chunk: ServerChunk) -> None:
        """Emit an item that the server makes, not the model."""
        match chunk:
            case HostedItemBegun() | HostedItemStep():
                self._emit_hosted(chunk)
            case Compacted() | HostedItemDone() | ToolsFound():
                self._emit_finished(chunk)
            case _:
                assert_never(chunk)

    def _reason(self, chunk: ReasoningDelta | ReasoningSummaryDelta | ProviderStateAdded) -> None:
        reasoning = self._reasoning()
        match chunk:
            case ReasoningDelta():
                reasoning.raw(chunk.text)
            case ReasoningSummaryDelta():
                reasoning.summarise(chunk.text, chunk.part)
            case ProviderStateAdded():
                reasoning.add_state(chunk.state)

    def _emit_hosted(self, chunk: HostedItemBegun | HostedItemStep) -> None:
        """A hosted tool begins, or reaches a step."""
        if isinstance(chunk, HostedItemBegun):
            self._close("completed")
            self.live = self._opener.hosted(chunk, len(self.output))
        elif isinstance(self.live, OpenHosted):
            self.live.step(chunk.event, chunk.fields)
        else:
            raise BackendBroken("The model's server sent a step of a hosted tool before its start.")

    def _emit_finished(self, chunk: Compacted | HostedItemDone | ToolsFound) -> None:
        """Emit a finished item, or end the live hosted tool."""
        if isinstance(chunk, HostedItemDone):
            item = self._end_hosted(chunk)
            self.output.append(item)
            if chunk.private is not None:
                self._opener.private[str(item.id)] = chunk.private
            return
        self._close("completed")
        emit, new_id, position = self._opener.emit, self._opener.new_id, len(self.output)
        if isinstance(chunk, Compacted):
            self.output.append(emit_compaction(emit, new_id("cmp"), position, chunk))
        else:
            self.output += emit_tools_found(emit, new_id, position, chunk)

    def _end_hosted(self, chunk: HostedItemDone) -> ServerItem:
        live = self.live
        if isinstance(live, OpenHosted):
            self.live = None
            return live.done(chunk.item)
        self._close("completed")
        return emit_hosted(self._opener.emit, self._opener.new_id, len(self.output), chunk.item)

    def _message(self) -> OpenMessage:
        if not isinstance(self.live, OpenMessage):
            self._close("completed")
            self.live = self._opener.message(len(self.output), self._phase)
            self._phase = None
        return self.live

    def _reasoning(self) -> OpenReasoning:
        if not isinstance(self.live, OpenReasoning):
            self._close("completed")
            self.live = self._opener.reasoning(len(self.output))
        return self.live

    def _start_call(self, chunk: CallStarted) -> None:
        self._opener.admit(chunk)
        self._close("completed")
        self._closed_calls.discard(chunk.index)
        self.live = self._opener.call(chunk, len(self.output))

    def _extend_call(self, chunk: CallDelta) -> None:
        live = self.live
        if isinstance(live, OpenCall) and live.index == chunk.index:
            if chunk.arguments:
                live.extend(chunk.arguments)
        elif chunk.index not in self._closed_calls:
            raise arguments_without_call()
        elif chunk.arguments.strip():
            raise arguments_after_call()

    def _call_finished(self, index: int) -> None:
        live = self.live
        if isinstance(live, OpenCall) and live.index == index:
            self._close("completed")
            self._advance()
        else:
            for item in self._pending:
                if item.key == ("call", index):
                    item.chunks.append(CallFinished(index))

    def _close(self, status: Status) -> None:
        live, self.live = self.live, None
        if live is None:
            return
        if type(live) is not OpenMessage and isinstance(live, OpenCall):
            self._closed_calls.add(live.index)
        self.output.append(live.close(status))


def _key(chunk: ItemChunk) -> Key | None:
    match chunk:
        case CallStarted() | CallDelta():
            return "call", chunk.index
        case HostedItemBegun() | HostedItemStep():
            return "hosted", chunk.index
        case HostedItemDone():
            return None if chunk.index is None else ("hosted", chunk.index)
        case _:
            return None


def _live_key(live: OpenCall | OpenHosted) -> Key | None:
    if isinstance(live, OpenCall):
        return "call", live.index
    return None if live.index is None else ("hosted", live.index)


def _shows_nothing(item: OutputItem) -> bool:
    """Whether the item contains neither an answer nor a call for the client."""
    if isinstance(item, ToolSearchCall):
        return item.call_id is None
    return isinstance(item, _INTERMEDIATE)
