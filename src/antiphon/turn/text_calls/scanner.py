"""Finds calls in text as it arrives. Text that cannot be part of a call leaves at once."""

from antiphon.turn.text_calls.forms import Tools
from antiphon.turn.text_calls.openings import Openings
from antiphon.turn.text_calls.scan import Token
from antiphon.turn.text_calls.states import begin

_STRIDE = 4096  # text is read in pieces of this size, so that many calls in one text cost linear time


class TextScanner:
    """Reads the text of one turn."""

    def __init__(self, openings: Openings, tools: Tools) -> None:
        self._scan = begin(openings, tools)

    @property
    def holding(self) -> bool:
        """Whether text is held back that may become a call."""
        return self._scan.state.holding

    @property
    def flowing(self) -> bool:
        """Whether text without the first character of a tag would just pass."""
        scan = self._scan
        watched = scan.line_starts and scan.openings.start_lines
        return scan.state is scan.plain and not scan.plain.holding and not watched

    def feed(self, text: str) -> list[Token]:
        """What this text makes certain."""
        self._read(text)
        return self._take_tokens()

    def finish(self, *, cut_off: bool) -> list[Token]:
        """What was held back, when the text is over.

        Behind a tag that never closed there may be calls. If the text was cut off, there are none: they
        may be part of the call that is not whole.
        """
        if cut_off:
            self._scan.rereadable = 0
        while self._scan.state.holding:
            self._read(self._scan.state.end())
        return self._take_tokens()

    def _read(self, text: str) -> None:
        unread = _pieces(text)
        while unread:
            unread.extend(_pieces(self._scan.state.read(unread.pop())))

    def _take_tokens(self) -> list[Token]:
        tokens, self._scan.tokens = self._scan.tokens, []
        return tokens


def _pieces(text: str) -> list[str]:
    """The text in pieces, the first one last."""
    return [text[start : start + _STRIDE] for start in range(0, len(text), _STRIDE)][::-1]
