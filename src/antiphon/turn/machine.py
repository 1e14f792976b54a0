"""The machine: chunks in, events out. The only place that numbers events, and begins and ends a stream.

Rule 1: which item is told when is the layout's decision (`layout.py`); nobody else tells items.
Rule 2: numbers start at 0 and have no gap; `output_index` is the position in the final output.
Rule 3: exactly one terminal event, made by `end`; nothing leaves after it.

Whatever a backend says, or fails to say, what leaves is a well-formed stream.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from antiphon.errors import AntiphonError, BackendBroken
from antiphon.protocol.downgrade import Downgrade, Downgrades, rendered
from antiphon.protocol.events import (
    ErrorBody,
    ErrorEvent,
    Event,
    Keepalive,
    OutputTextDelta,
    ResponseCompleted,
    ResponseCreated,
    ResponseFailed,
    ResponseIncomplete,
    ResponseInProgress,
    ResponseQueued,
)
from antiphon.protocol.items import OutputItem
from antiphon.protocol.profile import OPENAI, Profile
from antiphon.protocol.response import IncompleteDetails, Response, ResponseError, Usage
from antiphon.turn.chunks import (
    AnnotationAdded,
    Chunk,
    Compacted,
    Failed,
    Finished,
    FinishReason,
    HostedItemDone,
    ProviderStateAdded,
    ReasoningDelta,
    ReasoningSummaryDelta,
    RefusalDelta,
    TextDelta,
    ToolsFound,
    UsageReported,
    UsageSpent,
)
from antiphon.turn.context import TurnTool
from antiphon.turn.items import Emit, OpenMessage
from antiphon.turn.layouts.base import ItemChunk, Layout
from antiphon.turn.layouts.message_first import MessageFirstLayout
from antiphon.turn.layouts.sequential import SequentialLayout
from antiphon.turn.opening import NewId, Opener
from antiphon.turn.provider_state import Seal
from antiphon.turn.usage import together

BROKEN_OFF = "The model's answer broke off before its end."


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
        profile: Profile = OPENAI,
        told: bool = True,
    ) -> None:
        """`told`: somebody hears the events. If not, none are made; the response is the same."""
        self._response: Response = response
        self._profile = profile
        self._emit: Emit = self._tell if told else _tell_nobody
        self._opener = Opener(self._emit, new_id, tools or {}, forbidden, seal)
        self._layout: Layout = _LAYOUTS[profile.layout](self._opener)
        self._events: list[Event] = []
        self._number = 0
        self._usage: Usage | None = None
        self._spent: Usage | None = None
        self._outcome: FinishReason | Literal["cancelled"] | AntiphonError | None = None
        self._unended: int | None = None
        self._downgrades: Sequence[Downgrade] = ()
        self._hidden = Downgrades()

    @property
    def response(self) -> Response:
        """The response as it stands: final once `end` was called."""
        return self._response

    @property
    def downgrades(self) -> Sequence[Downgrade]:
        """What was emulated, changed or left out in this attempt."""
        return [*self._downgrades, *self._hidden]

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
        self._layout.begin()
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
        layout = SequentialLayout(self._opener)  # what is made in the background has this one
        layout.resume(said)
        self._layout = layout
        self._events.clear()
        self._number = said[-1].sequence_number + 1 if said else 0
        self._response = replace(self._response, status="in_progress")
        if not any(isinstance(event, ResponseInProgress) for event in said):
            self._emit(ResponseInProgress, self._response)
        layout.break_off()
        return self._take_events()

    def conclude(self) -> None:
        """Nothing more will be said: the response is complete as it stands, even if it says nothing."""
        self._outcome = "stop"

    def cancel(self) -> list[Event]:
        """Somebody called it off: what has begun is closed, what waits was never begun."""
        if self._outcome is None:
            self._outcome = "cancelled"
            self._layout.break_off()
        return self._take_events()

    def offer(self, tools: Mapping[str, TurnTool], forbidden: frozenset[str]) -> None:
        """The tools of the next turn: a search may have found some."""
        self._opener.offer(tools, forbidden)

    def settle(self) -> list[Event]:
        """The model will go on in another turn: what it has said so far is closed."""
        self._layout.settle()
        return self._take_events()

    def downgrade(self, downgrades: Sequence[Downgrade]) -> None:
        """Replace the downgrades: another backend is asked, or the same one again."""
        self._downgrades = downgrades
        self._response = replace(self._response, downgrades=rendered(self.downgrades) or UNSET)

    def keepalive(self) -> list[Event]:
        """A sign of life while the backend is silent."""
        self._emit(Keepalive)
        return self._take_events()

    def feed(self, chunks: Iterable[Chunk]) -> list[Event]:
        """The events that these chunks make."""
        layout = self._layout
        for chunk in chunks:
            live = layout.live
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
        return self._layout.output

    def end(self, now: int, save_error: AntiphonError | None = None) -> list[Event]:
        """The terminal event, and the error before it if the turn failed.

        What could not be kept must not be told: then `end` is called again, with the reason, and makes
        another ending in place of the first one, which has not left.
        """
        if self._unended is None:
            self._unended = self._number
        self._number = self._unended
        if save_error is not None:
            self._outcome = save_error
        if self._outcome is None:
            self._fail(BackendBroken(BROKEN_OFF))
        outcome = self._outcome
        final = replace(
            self._response, output=[*self._layout.output], usage=together(self._spent, self._usage)
        )
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
        if self._profile.error_event:
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
        """One chunk: something about the turn as a whole, or a word for the layout."""
        try:
            match chunk:
                case UsageReported():
                    self._usage = chunk.usage
                case UsageSpent():
                    self._spent = together(self._spent, chunk.usage)
                case Finished():
                    self._outcome = chunk.reason
                    self._layout.finish(chunk.reason)
                case Failed():
                    self._fail(chunk.error)
                case Compacted():
                    # Not the model's own doing: its cost is added to the turn's.
                    self._spent = together(self._spent, chunk.usage)
                    self._layout.take(chunk)
                case _:
                    self._say(chunk)
        except BackendBroken as error:
            self._fail(error)

    def _say(self, word: ItemChunk) -> None:
        """Pass on what the profile shows and what is not empty."""
        match word:
            case TextDelta() | RefusalDelta():
                shown = bool(word.text)
            case ReasoningDelta() | ReasoningSummaryDelta():
                shown = bool(word.text) and self._shows("the model's reasoning", self._profile.reasoning)
            case ProviderStateAdded():
                shown = self._profile.reasoning
            case HostedItemDone():
                shown = self._shows("tools that the model's server ran", self._profile.reasoning)
            case ToolsFound():
                shown = self._shows("searches for tools", self._profile.reasoning)
            case AnnotationAdded():
                shown = self._shows("citations", self._profile.annotations)
            case _:
                shown = True
        if shown:
            self._layout.take(word)

    def _shows(self, what: str, shown: bool) -> bool:
        """What the profile hides is said in the response, once."""
        if not shown:
            text = f"left out, because the profile '{self._profile.name}' does not show it: {what}"
            hidden = Downgrade("output_omitted", text)
            if hidden not in self._hidden:
                self._hidden.append(hidden)
                known = self._response.downgrades
                known = [] if isinstance(known, UnsetType) else known
                self._response = replace(self._response, downgrades=[*known, hidden.render()])
        return shown

    def _fail(self, error: AntiphonError) -> None:
        self._outcome = error
        self._layout.break_off()


_LAYOUTS: Mapping[str, Callable[[Opener], Layout]] = {
    "natural": SequentialLayout,
    "message_first": MessageFirstLayout,
}


def _tell_nobody(_kind: Callable[..., Event], /, *_fields: object) -> None:
    pass


def response_error_code(error: AntiphonError) -> str:
    """The code of `response.error`: clients know a closed list there."""
    if error.code in ("context_length_exceeded", "invalid_prompt"):
        return error.code
    return "rate_limit_exceeded" if error.status == 429 else "server_error"
