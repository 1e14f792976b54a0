"""The layout of the `proxy` profile: one message, always the first item, and open until the end.

Text goes to the message whenever it comes; each call is emitted as it comes, at 1 + its ordinal. At the end
the message is closed first, then the calls in their order. So the index of an item is known from its
beginning, and no two items share one.
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
        """The calls whose arguments may go on, by the backend's index."""
        self._length_before_call: tuple[int, int] | None = None
        """How long the message was when a call last grew."""
        self.live: OpenMessage | None = None
        self.output: list[OutputItem] = []

    def begin(self) -> None:
        """Open the message with a text part, which may stay empty."""
        self.live = self._opener.message(MESSAGE_INDEX)
        self.live.begin_text()

    def take(self, chunk: ItemChunk) -> None:
        """Emit it at once."""
        message = self.live
        assert message is not None
        match chunk:
            case TextDelta():
                message.text(chunk.text, chunk.logprobs)
            case RefusalDelta():
                message.refusal(chunk.text)
            case AnnotationAdded():
                message.annotate(chunk.annotation)
            case CallStarted():
                self._start(chunk)
            case CallDelta():
                self._extend(chunk)
            case CallFinished():
                self._growing.pop(chunk.index, None)
            case ItemBegun():
                pass  # there is one message, whatever its parts are
            case ReasoningDelta() | ReasoningSummaryDelta() | ProviderStateAdded():
                raise AssertionError("there is no place for it: the profile hides it")
            case Compacted() | HostedItemBegun() | HostedItemStep() | HostedItemDone() | ToolsFound():
                raise AssertionError("there is no place for these: the profile hides or refuses them")
            case _:
                assert_never(chunk)

    def finish(self, reason: FinishReason) -> None:
        """Close the message, then the calls."""
        ended = ran_to_its_end(reason)
        cut = not ended and self._message_length() != self._length_before_call
        self._close_message("incomplete" if cut else "completed")
        self._close_calls(all_complete=ended)

    def close_round(self) -> None:
        """Nothing is closed before the end: there is one message, and the calls are closed after it."""

    def break_off(self) -> None:
        """Close everything as it stands; a call with complete arguments is complete."""
        if self.live is None:
            return
        self._close_message("incomplete")
        self._close_calls(all_complete=False)

    def _message_length(self) -> tuple[int, int]:
        """How long the message is. Most of its text is added by the machine, not here."""
        assert self.live is not None
        return self.live.content_index, len(self.live.pieces)

    def _close_message(self, status: Status) -> None:
        assert self.live is not None
        self.output.append(self.live.close(status))
        self.live = None

    def _close_calls(self, *, all_complete: bool) -> None:
        growing = self._growing.values()
        for call in self._calls:
            whole = all_complete or call not in growing or call.whole()
            self.output.append(call.close("completed" if whole else "incomplete"))

    def _start(self, chunk: CallStarted) -> None:
        self._opener.admit(chunk)
        call = self._opener.call(chunk, 1 + len(self._calls))
        self._calls.append(call)
        self._growing[chunk.index] = call
        self._length_before_call = self._message_length()

    def _extend(self, chunk: CallDelta) -> None:
        call = self._growing.get(chunk.index)
        if call is not None:
            if chunk.arguments:
                call.extend(chunk.arguments)
                self._length_before_call = self._message_length()
        elif not any(call.index == chunk.index for call in self._calls):
            raise arguments_without_call()
        elif chunk.arguments.strip():
            raise arguments_after_call()
