"""The machine: chunks in, events out. The only place that numbers events, and begins and ends a stream.

Rule 1: the layout (`layouts/`) decides in which order items are emitted; nobody else emits items.
Rule 2: numbers start at 0 and have no gap; `output_index` is the position in the final output.
Rule 3: exactly one terminal event, made by `end`; nothing follows it.

Whatever a backend sends, or fails to send, the result is a well-formed stream.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from antiphon.errors import AntiphonError, BackendBroken
from antiphon.protocol.content import JsonObject
from antiphon.protocol.downgrade import Downgrade, rendered
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
from antiphon.protocol.response import (
    IncompleteDetails,
    Response,
    ResponseError,
    ToolUsage,
    Usage,
    WebSearchUsage,
)
from antiphon.protocol.tool_items import WebSearchCall
from antiphon.turn.chunks import (
    AnnotationAdded,
    Chunk,
    Compacted,
    DowngradesAdded,
    Failed,
    Finished,
    FinishReason,
    Heartbeat,
    HostedItemBegun,
    HostedItemDone,
    HostedItemStep,
    ProviderStateAdded,
    ReasoningDelta,
    ReasoningSummaryDelta,
    RefusalDelta,
    StopSequenceFound,
    TextDelta,
    ToolsFound,
    TurnStarted,
    UsageReported,
    UsageSpent,
)
from antiphon.turn.context import TurnTool
from antiphon.turn.emitting import EventWriter, SilentWriter
from antiphon.turn.items import OpenMessage
from antiphon.turn.layouts.base import ItemChunk, Layout
from antiphon.turn.layouts.message_first import MessageFirstLayout
from antiphon.turn.layouts.sequential import SequentialLayout
from antiphon.turn.opening import NewId, Opener
from antiphon.turn.provider_state import Seal
from antiphon.turn.usage import together

BROKEN_OFF = "The model's answer broke off before its end."

SeldomChunk = TurnStarted | DowngradesAdded | StopSequenceFound


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
        silent: bool = False,
    ) -> None:
        """`silent`: nobody reads the events, so none are made; the response is the same."""
        self._response: Response = response
        self._profile = profile
        self._writer = SilentWriter() if silent else EventWriter()
        self._opener = Opener(self._writer, new_id, tools or {}, forbidden, seal)
        self._layout: Layout = _LAYOUTS[profile.layout](self._opener)
        self._usage: Usage | None = None
        self._spent: Usage | None = None
        self._outcome: FinishReason | Literal["cancelled"] | AntiphonError | None = None
        self._number_before_end: int | None = None
        self._downgrades: list[Downgrade] = []
        self._hidden: list[Downgrade] = []
        """What the profile does not show."""
        self.stop_sequence: str | None = None
        """The stop sequence that ended the answer."""

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
        """Whether the answer has ended, whatever its end."""
        return self._outcome is not None

    @property
    def failure(self) -> AntiphonError | None:
        """Why the turn failed, if it did."""
        return self._outcome if isinstance(self._outcome, AntiphonError) else None

    def start(self) -> list[Event]:
        """The first two events."""
        self._writer(ResponseCreated, self._response)
        self._writer(ResponseInProgress, self._response)
        self._layout.begin()
        return self._writer.take()

    def queue(self) -> list[Event]:
        """The first two events of a response that waits for its turn."""
        self._response = replace(self._response, status="queued")
        self._writer(ResponseCreated, self._response)
        self._writer(ResponseQueued, self._response)
        return self._writer.take()

    def resume(self, earlier: Sequence[Event], spent: Usage | None = None) -> list[Event]:
        """Continue after the events of an earlier attempt, which are not emitted again, and count what it has
        spent. An item that they leave open is closed as incomplete: its backend cannot be asked for the
        rest."""
        self._spent = together(spent, self._spent)
        layout = SequentialLayout(self._opener)  # background responses have this one
        layout.resume(earlier)
        self._layout = layout
        self._writer.events.clear()
        self._writer.number = earlier[-1].sequence_number + 1 if earlier else 0
        self._response = replace(self._response, status="in_progress")
        if not any(isinstance(event, ResponseInProgress) for event in earlier):
            self._writer(ResponseInProgress, self._response)
        layout.break_off()
        return self._writer.take()

    def complete(self) -> None:
        """The response is complete as it stands, even if it is empty."""
        self._outcome = "stop"

    def cancel(self) -> list[Event]:
        """Somebody cancelled it: the open item is closed, waiting ones were never begun."""
        if self._outcome is None:
            self._outcome = "cancelled"
            self._layout.break_off()
        return self._writer.take()

    def set_tools(self, tools: Mapping[str, TurnTool], forbidden: frozenset[str]) -> None:
        """The tools of the next round: a search may have found some."""
        self._opener.set_tools(tools, forbidden)

    def close_round(self) -> list[Event]:
        """The model continues in another round: close its items so far."""
        self._layout.close_round()
        return self._writer.take()

    def set_downgrades(self, downgrades: Sequence[Downgrade]) -> None:
        """What this round emulates or leaves out, in place of what the round before did."""
        self._downgrades = [*downgrades]
        self._report_downgrades()

    def _report_downgrades(self) -> None:
        self._response = replace(self._response, downgrades=rendered(self.downgrades) or UNSET)

    def feed(self, chunks: Iterable[Chunk]) -> list[Event]:
        """The events that these chunks make."""
        layout, writer = self._layout, self._writer
        for chunk in chunks:
            live = layout.live
            if (
                type(chunk) is TextDelta
                and type(live) is OpenMessage
                and live.kind == "text"
                and chunk.text
                and not chunk.logprobs
            ):
                # The hot path: more text for the text part that is open.
                text = chunk.text
                live.pieces.append(text)
                writer.events.append(
                    OutputTextDelta(writer.number, live.id, live.output_index, live.content_index, text)
                )
                writer.number += 1
            elif self._outcome is None or type(chunk) is UsageReported:
                self._take(chunk)
        live = layout.live
        if type(live) is OpenMessage:
            live.join_pieces()
        return writer.take()

    @property
    def output(self) -> Sequence[OutputItem]:
        """The finished items."""
        return self._layout.output

    @property
    def private(self) -> Mapping[str, JsonObject]:
        """The private sides of finished items, by item id."""
        return self._opener.private

    @property
    def spent(self) -> Usage | None:
        """The usage of all rounds that another one follows, as far as it was reported."""
        return self._spent

    def end(self, now: int, save_error: AntiphonError | None = None) -> list[Event]:
        """The terminal event, and the error before it if the turn failed.

        A response that could not be saved has failed: `end` is called again with the reason, and makes
        another ending in place of the first one, which was not sent.
        """
        if self._number_before_end is None:
            self._number_before_end = self._writer.number
        self._writer.number = self._number_before_end
        if save_error is not None:
            self._outcome = save_error
        if self._outcome is None:
            self._fail(BackendBroken(BROKEN_OFF))
        outcome = self._outcome
        final = replace(
            self._response,
            status="completed",
            completed_at=now,
            output=[*self._layout.output],
            usage=together(self._spent, self._usage),
        )
        searches = sum(map(_is_search, final.output))
        if searches:
            final = replace(final, tool_usage=ToolUsage(web_search=WebSearchUsage(searches)))
        if isinstance(outcome, AntiphonError):
            self._end_failed(final, outcome)
        elif outcome in ("length", "content_filter"):
            reason = "max_output_tokens" if outcome == "length" else "content_filter"
            details = IncompleteDetails(reason)
            self._response = replace(
                final, status="incomplete", completed_at=None, incomplete_details=details
            )
            self._writer(ResponseIncomplete, self._response)
        elif outcome == "cancelled":
            # The protocol has no event of its own for this end; clients stop at `response.incomplete`.
            self._response = replace(final, status="cancelled", completed_at=None)
            self._writer(ResponseIncomplete, self._response)
        else:
            self._response = final
            self._writer(ResponseCompleted, self._response)
        return self._writer.take()

    def _end_failed(self, final: Response, error: AntiphonError) -> None:
        wire = error.to_wire()
        kind = wire["type"] or "server_error"
        if self._profile.error_event:
            self._writer(ErrorEvent, ErrorBody(kind, error.code, error.message, error.param))
        failure = ResponseError(response_error_code(error), error.message)
        self._response = replace(
            final, status="failed", error=failure, completed_at=None, incomplete_details=None
        )
        self._writer(ResponseFailed, self._response)

    def _take(self, chunk: Chunk) -> None:
        """One chunk: about the turn as a whole, or for the layout."""
        try:
            match chunk:
                case TextDelta():
                    if chunk.text:
                        self._layout.take(chunk)
                case UsageReported():
                    self._usage = chunk.usage
                case UsageSpent():
                    self._spent = together(self._spent, chunk.usage)
                case Finished():
                    self._finish(chunk.reason)
                case Failed():
                    self._fail(chunk.error)
                case Heartbeat():
                    self._writer(Keepalive)
                case Compacted():
                    # Not the model's own doing: its cost is added to the turn's.
                    self._spent = together(self._spent, chunk.usage)
                    self._layout.take(chunk)
                case _:
                    self._take_seldom(chunk)
        except BackendBroken as error:
            self._fail(error)

    def _take_seldom(self, chunk: SeldomChunk | ItemChunk) -> None:
        match chunk:
            case TurnStarted():
                pass
            case DowngradesAdded():
                self._downgrades += chunk.downgrades
                self._report_downgrades()
            case StopSequenceFound():
                self.stop_sequence = chunk.sequence
                self._finish("stop")
            case _:
                self._take_item_chunk(chunk)

    def _take_item_chunk(self, chunk: ItemChunk) -> None:
        """Pass on what the profile shows and what is not empty."""
        match chunk:
            case RefusalDelta():
                shown = bool(chunk.text)
            case ReasoningDelta() | ReasoningSummaryDelta():
                shown = bool(chunk.text) and self._shows("the model's reasoning", self._profile.reasoning)
            case ProviderStateAdded():
                shown = self._profile.reasoning
            case HostedItemBegun() | HostedItemStep() | HostedItemDone():
                shown = self._shows("tools that the model's server ran", self._profile.reasoning)
            case ToolsFound():
                shown = self._shows("searches for tools", self._profile.reasoning)
            case AnnotationAdded():
                shown = self._shows("citations", self._profile.annotations)
            case _:
                shown = True
        if shown:
            self._layout.take(chunk)

    def _shows(self, what: str, shown: bool) -> bool:
        """Whether the profile shows it; what it hides is reported in the response, once."""
        if not shown:
            text = f"left out, because the profile '{self._profile.name}' does not show it: {what}"
            hidden = Downgrade("output_omitted", text)
            if hidden not in self._hidden:
                self._hidden.append(hidden)
                known = self._response.downgrades
                known = [] if isinstance(known, UnsetType) else known
                self._response = replace(self._response, downgrades=[*known, hidden.render()])
        return shown

    def _finish(self, reason: FinishReason) -> None:
        self._outcome = reason
        self._layout.finish(reason)

    def _fail(self, error: AntiphonError) -> None:
        self._outcome = error
        self._layout.break_off()


_LAYOUTS: Mapping[str, Callable[[Opener], Layout]] = {
    "natural": SequentialLayout,
    "message_first": MessageFirstLayout,
}


def _is_search(item: object) -> bool:
    """Whether it is a search of the web. Opening a page does not count."""
    if not isinstance(item, WebSearchCall):
        return False
    return not isinstance(item.action, dict) or item.action.get("type", "search") == "search"


def response_error_code(error: AntiphonError) -> str:
    """The code of `response.error`: clients know a closed list there."""
    if error.code in ("context_length_exceeded", "invalid_prompt"):
        return error.code
    return "rate_limit_exceeded" if error.status == 429 else "server_error"
