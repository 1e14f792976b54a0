"""The layout of the `proxy` profile: one message, always the first item, and open until the end.

All text belongs to the message. Each call is emitted as it arrives, at 1 + its ordinal. At the end the
message is closed first, then the calls in their order. So the index of an item is known when it begins.
"""

from typing import assert_never

from antiphon.protocol.items import OutputItem
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
from antiphon.turn.items import OpenCall, OpenMessage, Status
from antiphon.turn.layouts.base import ItemChunk, arguments_after_call, arguments_without_call, ran_to_its_end
from antiphon.turn.opening import Opener

MESSAGE_INDEX = 0


class MessageFirstLayout:
    """The items of one response."""

    def __init__(self, opener: Opener) -> None:
        self._opener = opener
        self._calls: list[OpenCall] = []
        self._growing: dict[int, OpenCall] = {}
        """The calls whose arguments may continue, by the backend's index."""
        self._extent_before_call: tuple[int, int, int] | None = None
        """The length of the message at the last delta of a call."""
        self.live: OpenMessage | None = None
        self.output: list[OutputItem] = []

    def begin(self) -> None:
        """Open the message."""
        self._message()

    def take(self, chunk: ItemChunk) -> None:
        """Emit a chunk at once."""
        message = self._message()
        match chunk:
            case TextDelta():
                message.text(chunk.text, chunk.logprobs)
            case RefusalDelta():
                message.refusal(chunk.text)
            case AnnotationAdded():
                message.annotate(chunk.annotation, chunk.covers)
            case CallStarted():
                self._start(chunk, message)
            case CallDelta():
                self._extend(chunk, message)
            case CallFinished():
                self._growing.pop(chunk.index, None)
            case ItemBegun():
                pass  # all text belongs to the one message
            case ReasoningDelta() | ReasoningSummaryDelta() | ProviderStateAdded():
                raise AssertionError("the profile hides reasoning, so this layout has no item for it")
            case Compacted() | HostedItemBegun() | HostedItemStep() | HostedItemDone() | ToolsFound():
                raise AssertionError(
                    "the profile hides or rejects these, so this layout has no item for them"
                )
            case _:
                assert_never(chunk)

    def finish(self, reason: FinishReason) -> None:
        """Close the message, then the calls."""
        message, ended = self._message(), ran_to_its_end(reason)
        cut = not ended and message.extent != self._extent_before_call
        self._close_message(message, "incomplete" if cut else "completed")
        self._close_calls(all_complete=ended)

    def close_round(self) -> None:
        """Close nothing: the message stays open until the end, and the calls are closed after it."""

    def break_off(self) -> None:
        """Close all items as incomplete, except calls with complete arguments."""
        if self.live is None:
            return
        self._close_message(self.live, "incomplete")
        self._close_calls(all_complete=False)

    def _message(self) -> OpenMessage:
        """The message. It is opened with a text part, which may stay empty."""
        if self.live is not None:
            return self.live
        self.live = message = self._opener.message(MESSAGE_INDEX)
        message.begin_text()
        return message

    def _close_message(self, message: OpenMessage, status: Status) -> None:
        self.output.append(message.close(status))
        self.live = None

    def _close_calls(self, *, all_complete: bool) -> None:
        growing = self._growing.values()
        for call in self._calls:
            complete = all_complete or call not in growing or call.has_complete_arguments()
            self.output.append(call.close("completed" if complete else "incomplete"))

    def _start(self, chunk: CallStarted, message: OpenMessage) -> None:
        self._opener.admit(chunk)
        call = self._opener.call(chunk, 1 + len(self._calls))
        self._calls.append(call)
        self._growing[chunk.index] = call
        self._extent_before_call = message.extent

    def _extend(self, chunk: CallDelta, message: OpenMessage) -> None:
        call = self._growing.get(chunk.index)
        if call is not None:
            if chunk.arguments:
                call.extend(chunk.arguments)
                self._extent_before_call = message.extent
        elif not any(call.index == chunk.index for call in self._calls):
            raise arguments_without_call()
        elif chunk.arguments.strip():
            raise arguments_after_call()
