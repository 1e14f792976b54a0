"""The natural layout: items one after another, as the real API tells them.

Rule 1: one item is *live* at a time. Only the live item emits; its events are not interleaved with another's.
Rule 2: what belongs to another item closes the live one, and begins its own. One exception: a call whose
        arguments are not yet whole stays live, because upstreams interleave parallel calls; everything
        else then *waits* in lanes, in order of arrival, and is replayed when its turn comes.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import assert_never

from antiphon.protocol.call_items import call_id_of, is_call
from antiphon.protocol.events import Event, OutputItemDone
from antiphon.protocol.items import Compaction, OutputItem, Reasoning
from antiphon.protocol.tool_items import ToolSearchCall, ToolSearchOutput
from antiphon.turn.chunks import (
    AnnotationAdded,
    CallDelta,
    CallFinished,
    CallStarted,
    Compacted,
    FinishReason,
    HostedItemDone,
    ItemBegun,
    ProviderStateAdded,
    ReasoningDelta,
    ReasoningSummaryDelta,
    RefusalDelta,
    TextDelta,
    ToolsFound,
)
from antiphon.turn.hosted import emit_hosted
from antiphon.turn.items import (
    OpenCall,
    OpenItem,
    OpenMessage,
    OpenReasoning,
    Status,
    say_compaction,
    say_tools_found,
)
from antiphon.turn.layouts.base import ItemChunk, arguments_after_call, arguments_without_call, ran_to_its_end
from antiphon.turn.opening import Opener
from antiphon.turn.reopen import reopen


@dataclass(slots=True)
class PendingCall:
    """Words of one item that waits for the live call to end. `call` is its index; None for text."""

    call: int | None
    words: list[ItemChunk] = field(default_factory=list[ItemChunk])


class SequentialLayout:
    """The items of one response."""

    def __init__(self, opener: Opener) -> None:
        self._opener = opener
        self._lanes: list[PendingCall] = []
        self._closed_calls: set[int] = set()
        self._phase: str | None = None
        """That of the next message, if it was told."""
        self.live: OpenItem | None = None
        self.output: list[OutputItem] = []

    def begin(self) -> None:
        """Items begin when there is something to say."""

    def resume(self, said: Sequence[Event]) -> None:
        """Take over what an earlier attempt has said; an item that it left open is live again. Whatever is
        emitted meanwhile was said before: drop it."""
        self.output = [event.item for event in said if isinstance(event, OutputItemDone)]
        self.live = reopen(said, self._opener.emit, self._opener.seal)
        calls = [self.live] if isinstance(self.live, OpenCall) else []
        ties = [call_id_of(item) for item in self.output if is_call(item)]
        self._opener.take_call_ids([*filter(None, ties), *(call.call_id for call in calls)])

    def take(self, word: ItemChunk) -> None:
        """Say it now, or let it wait behind a call that is not whole yet (rule 2)."""
        if isinstance(word, CallFinished):
            self._call_finished(word.index)
            return
        live = self.live
        call = word.index if isinstance(word, CallStarted | CallDelta) else None
        if not isinstance(live, OpenCall) or live.index == call:
            self._say(word)
            if self._lanes:
                self._advance()
        elif not self._lanes and live.whole():
            self._close("completed")
            self._say(word)
        else:
            self._lane(call).words.append(word)

    def finish(self, reason: FinishReason) -> None:
        """Say what waits, and close."""
        self._close_all(ended=ran_to_its_end(reason))
        if ran_to_its_end(reason) and all(map(_says_nothing, self.output)):
            # An answer without a word is still an answer: clients wait for a message.
            self._message()
            self._close("completed")

    def settle(self) -> None:
        """Say what waits, and close: the model will go on with other items."""
        self._close_all(ended=True)

    def _close_all(self, *, ended: bool) -> None:
        while self._lanes:
            if isinstance(self.live, OpenCall):
                self._close("completed" if ended or self.live.whole() else "incomplete")
            self._replay()
        whole = ended or (isinstance(self.live, OpenCall) and self.live.whole())
        self._close("completed" if whole else "incomplete")

    def break_off(self) -> None:
        """Close the live item; what waits was never begun."""
        self._lanes.clear()
        self._close("incomplete")

    def _lane(self, call: int | None) -> PendingCall:
        """Where a waiting word belongs: its call's lane, or the last lane if that holds text."""
        if call is None:
            if self._lanes and self._lanes[-1].call is None:
                return self._lanes[-1]
        else:
            for lane in self._lanes:
                if lane.call == call:
                    return lane
        self._lanes.append(PendingCall(call))
        return self._lanes[-1]

    def _advance(self) -> None:
        """Close live calls that are whole and replay the lanes behind them."""
        while self._lanes and (not isinstance(self.live, OpenCall) or self.live.whole()):
            if isinstance(self.live, OpenCall):
                self._close("completed")
            self._replay()

    def _replay(self) -> None:
        for word in self._lanes.pop(0).words:
            self._say(word)

    def _say(self, word: ItemChunk) -> None:
        """One word, live."""
        match word:
            case TextDelta():
                self._message().text(word.text, word.logprobs)
            case CallStarted():
                self._start_call(word)
            case CallDelta():
                self._extend_call(word)
            case RefusalDelta():
                self._message().refusal(word.text)
            case AnnotationAdded():
                self._message().annotate(word.annotation)
            case ReasoningDelta() | ReasoningSummaryDelta() | ProviderStateAdded():
                self._think(word)
            case CallFinished():
                self._close("completed")
            case ItemBegun():
                self._close("completed")
                self._phase = word.phase
            case Compacted() | HostedItemDone() | ToolsFound():
                self._say_whole(word)
            case _:
                assert_never(word)

    def _think(self, word: ReasoningDelta | ReasoningSummaryDelta | ProviderStateAdded) -> None:
        reasoning = self._reasoning()
        match word:
            case ReasoningDelta():
                reasoning.raw(word.text)
            case ReasoningSummaryDelta():
                reasoning.summarise(word.text, word.part)
            case ProviderStateAdded():
                reasoning.mark(word.mark)

    def _say_whole(self, word: Compacted | HostedItemDone | ToolsFound) -> None:
        """An item that comes in one piece."""
        self._close("completed")
        emit, new_id, place = self._opener.emit, self._opener.new_id, len(self.output)
        if isinstance(word, Compacted):
            self.output.append(say_compaction(emit, new_id("cmp"), place, word))
        elif isinstance(word, ToolsFound):
            self.output += say_tools_found(emit, new_id, place, word)
        else:
            self.output.append(emit_hosted(emit, new_id, place, word.item))

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

    def _start_call(self, word: CallStarted) -> None:
        self._opener.admit(word)
        self._close("completed")
        self._closed_calls.discard(word.index)
        self.live = self._opener.call(word, len(self.output))

    def _extend_call(self, word: CallDelta) -> None:
        live = self.live
        if isinstance(live, OpenCall) and live.index == word.index:
            if word.arguments:
                live.extend(word.arguments)
        elif word.index not in self._closed_calls:
            raise arguments_without_call()
        elif word.arguments.strip():
            raise arguments_after_call()

    def _call_finished(self, index: int) -> None:
        live = self.live
        if isinstance(live, OpenCall) and live.index == index:
            self._close("completed")
            self._advance()
        else:
            for lane in self._lanes:
                if lane.call == index:
                    lane.words.append(CallFinished(index))

    def _close(self, status: Status) -> None:
        live, self.live = self.live, None
        if live is None:
            return
        if isinstance(live, OpenCall):
            self._closed_calls.add(live.index)
        self.output.append(live.close(status))


def _says_nothing(item: OutputItem) -> bool:
    """Whether it is neither said to anybody nor for anybody to answer."""
    if isinstance(item, ToolSearchCall):
        return item.call_id is None
    return isinstance(item, Reasoning | Compaction | ToolSearchOutput)
