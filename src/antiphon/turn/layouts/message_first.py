"""The layout of the `proxy` profile: one message, always the first item, and open until the end.

Text goes to the message whenever it comes; each call is told as it comes, at 1 + its ordinal. At the end the
message is closed first, then the calls in their order. So the index of an item is known before anything is
said, and no two items ever share one.
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
    HostedItemDone,
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
        self._said_before_call: tuple[int, int] | None = None
        """How far the message had come when a call grew last."""
        self.live: OpenMessage | None = None
        self.output: list[OutputItem] = []

    def begin(self) -> None:
        """The message comes before the first word, with a text that may stay empty."""
        self.live = self._opener.message(MESSAGE_INDEX)
        self.live.begin_text()

    def take(self, word: ItemChunk) -> None:
        """Tell it at once."""
        message = self.live
        assert message is not None
        match word:
            case TextDelta():
                message.text(word.text, word.logprobs)
            case RefusalDelta():
                message.refusal(word.text)
            case AnnotationAdded():
                message.annotate(word.annotation)
            case CallStarted():
                self._start(word)
            case CallDelta():
                self._extend(word)
            case CallFinished():
                self._growing.pop(word.index, None)
            case ItemBegun():
                pass  # there is one message, whatever was said in it
            case ReasoningDelta() | ReasoningSummaryDelta() | ProviderStateAdded():
                raise AssertionError("there is no place for it: the profile hides it")
            case Compacted() | HostedItemDone() | ToolsFound():
                raise AssertionError("there is no place for these: the profile hides or refuses them")
            case _:
                assert_never(word)

    def finish(self, reason: FinishReason) -> None:
        """Close the message, then the calls."""
        ended = ran_to_its_end(reason)
        cut = not ended and self._said() != self._said_before_call
        self._close_message("incomplete" if cut else "completed")
        self._close_calls(all_whole=ended)

    def settle(self) -> None:
        """Nothing ends before the end: there is one message, and the calls are closed behind it."""

    def break_off(self) -> None:
        """Close everything as it stands; a call that is whole is whole."""
        if self.live is None:
            return
        self._close_message("incomplete")
        self._close_calls(all_whole=False)

    def _said(self) -> tuple[int, int]:
        """How far the message has come. Most of its text does not pass by here: the machine adds it."""
        assert self.live is not None
        return self.live.content_index, len(self.live.pieces)

    def _close_message(self, status: Status) -> None:
        assert self.live is not None
        self.output.append(self.live.close(status))
        self.live = None

    def _close_calls(self, *, all_whole: bool) -> None:
        growing = self._growing.values()
        for call in self._calls:
            whole = all_whole or call not in growing or call.whole()
            self.output.append(call.close("completed" if whole else "incomplete"))

    def _start(self, word: CallStarted) -> None:
        self._opener.admit(word)
        call = self._opener.call(word, 1 + len(self._calls))
        self._calls.append(call)
        self._growing[word.index] = call
        self._said_before_call = self._said()

    def _extend(self, word: CallDelta) -> None:
        call = self._growing.get(word.index)
        if call is not None:
            if word.arguments:
                call.extend(word.arguments)
                self._said_before_call = self._said()
        elif not any(call.index == word.index for call in self._calls):
            raise arguments_without_call()
        elif word.arguments.strip():
            raise arguments_after_call()
