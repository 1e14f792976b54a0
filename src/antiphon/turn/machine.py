"""The machine: chunks in, events out. The only place that orders, numbers and closes events.

Rule 1: one item is *live* at a time. Only the live item emits; its events are not interleaved with another's.
Rule 2: what belongs to another item closes the live one, and begins its own. One exception: a call whose
        arguments are not yet whole stays live, because upstreams interleave parallel calls; everything
        else then *waits* in lanes, in order of arrival, and is replayed when its turn comes.
Rule 3: numbers start at 0 and have no gap; `output_index` is the position in the final output.
Rule 4: exactly one terminal event, made by `end`; nothing leaves after it.

Whatever a backend says, or fails to say, what leaves is a well-formed stream.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, assert_never

from msgspec import UNSET
from msgspec.structs import replace

from antiphon.errors import AntiphonError, BackendBroken
from antiphon.protocol.events import (
    ErrorBody,
    ErrorEvent,
    Event,
    Keepalive,
    OutputItemDone,
    OutputTextDelta,
    ResponseCompleted,
    ResponseCreated,
    ResponseFailed,
    ResponseIncomplete,
    ResponseInProgress,
    ResponseQueued,
)
from antiphon.protocol.items import Compaction, CustomToolCall, FunctionCall, OutputItem, Reasoning
from antiphon.protocol.response import IncompleteDetails, Response, ResponseError, Usage
from antiphon.turn.chunks import (
    AnnotationAdded,
    CallDelta,
    CallFinished,
    CallStarted,
    Chunk,
    Compacted,
    Failed,
    Finished,
    FinishReason,
    ReasoningDelta,
    ReasoningSummaryDelta,
    RefusalDelta,
    TextDelta,
    UsageReported,
)
from antiphon.turn.context import TurnTool
from antiphon.turn.items import (
    Emit,
    OpenCall,
    OpenItem,
    OpenMessage,
    OpenReasoning,
    Seal,
    Status,
    say_compaction,
    tool_named,
)
from antiphon.turn.reopen import reopen
from antiphon.turn.usage import together

NewId = Callable[[str], str]


@dataclass(slots=True)
class Lane:
    """Chunks of one item that waits for the live call to end. `call` is its index; None for words."""

    call: int | None
    chunks: list[Chunk] = field(default_factory=list[Chunk])


class Machine:
    """One response under way."""

    def __init__(
        self,
        response: Response,
        *,
        new_id: NewId,
        tools: Mapping[str, TurnTool] | None = None,
        forbidden: frozenset[str] = frozenset(),
        seal: Seal | None = None,
        told: bool = True,
    ) -> None:
        """`told`: somebody hears the events. If not, none are made; the response is the same."""
        self._response: Response = response
        self._new_id = new_id
        self._tools = tools or {}
        self._forbidden = forbidden
        self._seal = seal
        self._emit: Emit = self._tell if told else _tell_nobody
        self._events: list[Event] = []
        self._number = 0
        self._live: OpenItem | None = None
        self._lanes: list[Lane] = []
        self._output: list[OutputItem] = []
        self._call_ids: set[str] = set()
        self._closed_calls: set[int] = set()
        self._usage: Usage | None = None
        self._spent: Usage | None = None
        self._outcome: FinishReason | Literal["cancelled"] | AntiphonError | None = None
        self._unended: int | None = None

    @property
    def response(self) -> Response:
        """The response as it stands: final once `end` was called."""
        return self._response

    @property
    def over(self) -> bool:
        """Whether the turn has finished or failed."""
        return self._outcome is not None

    @property
    def failure(self) -> AntiphonError | None:
        """Why the turn failed, if it did."""
        return self._outcome if isinstance(self._outcome, AntiphonError) else None

    def start(self) -> list[Event]:
        """The first two events."""
        self._emit(ResponseCreated, self._response)
        self._emit(ResponseInProgress, self._response)
        return self._take_events()

    def queue(self) -> list[Event]:
        """The first two events of a response that waits for its turn."""
        self._response = replace(self._response, status="queued")
        self._emit(ResponseCreated, self._response)
        self._emit(ResponseQueued, self._response)
        return self._take_events()

    def resume(self, said: Sequence[Event]) -> list[Event]:
        """Go on after what an earlier attempt has said. Nothing of it is said again; an item that it left
        open is closed as incomplete, because its backend cannot be asked for the rest."""
        self._output = [event.item for event in said if isinstance(event, OutputItemDone)]
        self._live = reopen(said, self._emit, self._seal)
        self._events.clear()
        self._number = said[-1].sequence_number + 1 if said else 0
        self._response = replace(self._response, status="in_progress")
        if not any(isinstance(event, ResponseInProgress) for event in said):
            self._emit(ResponseInProgress, self._response)
        self._close("incomplete")
        self._call_ids = {
            item.call_id for item in self._output if isinstance(item, FunctionCall | CustomToolCall)
        }
        return self._take_events()

    def conclude(self) -> None:
        """Nothing more will be said: the response is complete as it stands, even if it says nothing."""
        self._outcome = "stop"

    def cancel(self) -> list[Event]:
        """Somebody called it off: what has begun is closed, what waits was never begun."""
        if self._outcome is None:
            self._outcome = "cancelled"
            self._lanes.clear()
            self._close("incomplete")
        return self._take_events()

    def downgrade(self, notes: list[str]) -> None:
        """What was left out or emulated, now that another backend is asked or the same one for less."""
        self._response = replace(self._response, downgrades=notes or UNSET)

    def keepalive(self) -> list[Event]:
        """A sign of life while the backend is silent."""
        self._emit(Keepalive)
        return self._take_events()

    def feed(self, chunks: Iterable[Chunk]) -> list[Event]:
        """The events that these chunks make."""
        for chunk in chunks:
            live = self._live
            if (
                type(chunk) is TextDelta
                and type(live) is OpenMessage
                and live.kind == "text"
                and chunk.text
                and not chunk.logprobs
            ):
                # The hot path: more text for the text that is being said.
                text = chunk.text
                live.pieces.append(text)
                self._events.append(
                    OutputTextDelta(self._number, live.id, live.output_index, live.content_index, text)
                )
                self._number += 1
            elif self._outcome is None or type(chunk) is UsageReported:
                self._take(chunk)
        return self._take_events()

    @property
    def output(self) -> Sequence[OutputItem]:
        """The items that are whole."""
        return self._output

    def end(self, now: int, unkept: AntiphonError | None = None) -> list[Event]:
        """The terminal event, and the error before it if the turn failed.

        What could not be kept must not be told: then `end` is called again, with the reason, and makes
        another ending in place of the first one, which has not left.
        """
        if self._unended is None:
            self._unended = self._number
        self._number = self._unended
        if unkept is not None:
            self._outcome = unkept
        if self._outcome is None:
            self._fail(BackendBroken("The model's answer broke off before its end."))
        outcome = self._outcome
        final = replace(self._response, output=self._output, usage=together(self._spent, self._usage))
        if isinstance(outcome, AntiphonError):
            self._end_failed(final, outcome)
        elif outcome in ("length", "content_filter"):
            reason = "max_output_tokens" if outcome == "length" else "content_filter"
            details = IncompleteDetails(reason)
            self._response = replace(final, status="incomplete", incomplete_details=details)
            self._emit(ResponseIncomplete, self._response)
        elif outcome == "cancelled":
            # The protocol has no event of its own for this end; clients stop at `response.incomplete`.
            self._response = replace(final, status="cancelled")
            self._emit(ResponseIncomplete, self._response)
        else:
            self._response = replace(final, status="completed", completed_at=now)
            self._emit(ResponseCompleted, self._response)
        return self._take_events()

    def _end_failed(self, final: Response, error: AntiphonError) -> None:
        wire = error.to_wire()
        kind = wire["type"] or "server_error"
        self._emit(ErrorEvent, ErrorBody(kind, error.code, error.message, error.param))
        failure = ResponseError(response_error_code(error), error.message)
        self._response = replace(
            final, status="failed", error=failure, completed_at=None, incomplete_details=None
        )
        self._emit(ResponseFailed, self._response)

    def _tell(self, kind: Callable[..., Event], /, *fields: object) -> None:
        self._events.append(kind(self._number, *fields))
        self._number += 1

    def _take_events(self) -> list[Event]:
        events, self._events = self._events, []
        return events

    def _take(self, chunk: Chunk) -> None:
        """One chunk, by what it does to the order of items."""
        match chunk:
            case TextDelta() | ReasoningDelta() | RefusalDelta() | ReasoningSummaryDelta():
                if chunk.text:
                    self._place(chunk, None)
            case CallStarted() | CallDelta():
                self._place(chunk, chunk.index)
            case UsageReported():
                self._usage = chunk.usage
            case Finished():
                self._finish(chunk.reason)
            case Failed():
                self._fail(chunk.error)
            case CallFinished():
                self._call_finished(chunk.index)
            case AnnotationAdded():
                self._place(chunk, None)
            case Compacted():
                self._compacted(chunk)
            case _:
                assert_never(chunk)

    def _place(self, chunk: Chunk, call: int | None) -> None:
        """Say it now, or let it wait behind a call that is not whole yet (rule 2)."""
        live = self._live
        if not isinstance(live, OpenCall) or live.index == call:
            self._say(chunk)
            if self._lanes:
                self._advance()
        elif not self._lanes and live.whole():
            self._close("completed")
            self._say(chunk)
        else:
            self._lane(call).chunks.append(chunk)

    def _lane(self, call: int | None) -> Lane:
        """Where a waiting chunk belongs: its call's lane, or the last lane if that holds words."""
        if call is None:
            if self._lanes and self._lanes[-1].call is None:
                return self._lanes[-1]
        else:
            for lane in self._lanes:
                if lane.call == call:
                    return lane
        self._lanes.append(Lane(call))
        return self._lanes[-1]

    def _advance(self, *, to_the_end: bool = False) -> None:
        """Close live calls that are whole and replay the lanes behind them."""
        while self._lanes and (to_the_end or not isinstance(self._live, OpenCall) or self._live.whole()):
            if isinstance(self._live, OpenCall):
                self._close("completed" if self._live.whole() or self._ran_to_its_end() else "incomplete")
            for chunk in self._lanes.pop(0).chunks:
                self._say(chunk)
                if self.failure is not None:
                    return

    def _ran_to_its_end(self) -> bool:
        return self._outcome in ("stop", "tool_calls")

    def _say(self, chunk: Chunk) -> None:
        """One chunk of words or of a call, live."""
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
                self._message().annotate(chunk.annotation)
            case ReasoningDelta():
                self._reasoning().raw(chunk.text)
            case ReasoningSummaryDelta():
                self._reasoning().summarise(chunk.text, chunk.part)
            case CallFinished():
                self._close("completed")
            case UsageReported() | Finished() | Failed() | Compacted():
                raise AssertionError("these are not words")
            case _:
                assert_never(chunk)

    def _message(self) -> OpenMessage:
        if not isinstance(self._live, OpenMessage):
            self._close("completed")
            self._live = OpenMessage(self._emit, self._new_id("msg"), len(self._output))
        return self._live

    def _reasoning(self) -> OpenReasoning:
        if not isinstance(self._live, OpenReasoning):
            self._close("completed")
            self._live = OpenReasoning(self._emit, self._new_id("rs"), len(self._output), self._seal)
        return self._live

    def _compacted(self, chunk: Compacted) -> None:
        """Not the model's own doing: it comes before the first word, and its cost is added to the turn's."""
        self._spent = together(self._spent, chunk.usage)
        self._close("completed")
        item = say_compaction(self._emit, self._new_id("cmp"), len(self._output), chunk)
        self._output.append(item)

    def _start_call(self, chunk: CallStarted) -> None:
        if chunk.name in self._forbidden:
            self._fail(BackendBroken(f"The model called '{chunk.name}', which 'tool_choice' does not allow."))
            return
        self._close("completed")
        # Clients match outputs to calls by call_id, so it must be there and be unique.
        call_id = chunk.call_id
        if not call_id or call_id in self._call_ids:
            call_id = self._new_id("call")
        self._call_ids.add(call_id)
        self._closed_calls.discard(chunk.index)
        tool = tool_named(chunk.name, self._tools)
        item_id = self._new_id("ctc" if tool.kind == "custom" else "fc")
        self._live = OpenCall(self._emit, (item_id, call_id), len(self._output), chunk.index, tool)

    def _extend_call(self, chunk: CallDelta) -> None:
        live = self._live
        if isinstance(live, OpenCall) and live.index == chunk.index:
            if chunk.arguments:
                live.extend(chunk.arguments)
        elif chunk.index not in self._closed_calls:
            self._fail(BackendBroken("The model's server sent arguments for a call that it did not begin."))
        elif chunk.arguments.strip():
            self._fail(BackendBroken("The model's server sent more arguments for a call that was whole."))

    def _call_finished(self, index: int) -> None:
        live = self._live
        if isinstance(live, OpenCall) and live.index == index:
            self._close("completed")
            self._advance()
        else:
            for lane in self._lanes:
                if lane.call == index:
                    lane.chunks.append(CallFinished(index))

    def _close(self, status: Status) -> None:
        live, self._live = self._live, None
        if live is None:
            return
        if isinstance(live, OpenCall):
            self._closed_calls.add(live.index)
        self._output.append(live.close(status))

    def _finish(self, reason: FinishReason) -> None:
        """The model is done: everything still open or waiting is said and closed."""
        self._outcome = reason
        self._advance(to_the_end=True)
        if self.failure is not None:
            return
        live = self._live
        cut = not self._ran_to_its_end() and not (isinstance(live, OpenCall) and live.whole())
        self._close("incomplete" if cut else "completed")
        if self._ran_to_its_end() and all(isinstance(item, Reasoning | Compaction) for item in self._output):
            # An answer without a word is still an answer: clients wait for a message.
            self._message()
            self._close("completed")

    def _fail(self, error: AntiphonError) -> None:
        """Something broke: what the client has seen begin is closed, what waits was never begun."""
        self._outcome = error
        self._lanes.clear()
        self._close("incomplete")


def _tell_nobody(_kind: Callable[..., Event], /, *_fields: object) -> None:
    pass


def response_error_code(error: AntiphonError) -> str:
    """The code of `response.error`: clients know a closed list there."""
    if error.code in ("context_length_exceeded", "invalid_prompt"):
        return error.code
    return "rate_limit_exceeded" if error.status == 429 else "server_error"
