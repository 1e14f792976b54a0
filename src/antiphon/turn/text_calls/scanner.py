"""Finds calls in text as it arrives. Text that cannot be part of a call leaves at once."""

from antiphon.turn.text_calls.forms import Tools
from antiphon.turn.text_calls.openings import Openings
from antiphon.turn.text_calls.states import Plain, Scan, Token

_STRIDE = 4096  # text is read in pieces of this size, so that many calls in one text cost linear time


class TextScanner:
    """Reads the text of one turn."""

    def __init__(self, openings: Openings, tools: Tools) -> None:
        self._scan = Scan(openings, tools)

    @property
    def holding(self) -> bool:
        """Whether text is held back that may become a call."""
        return self._scan.state.holding

    @property
    def flowing(self) -> bool:
        """Whether text without the first character of a tag would just pass."""
        state = self._scan.state
        return isinstance(state, Plain) and not state.holding

    def feed(self, text: str) -> list[Token]:
        """What this text makes certain."""
        for start in range(0, len(text), _STRIDE):
            self._read(text[start : start + _STRIDE])
        return self._take_tokens()

    def finish(self) -> list[Token]:
        """What was held back, when the text is over."""
        while self._scan.state.holding:
            self._read(self._scan.state.end())
        return self._take_tokens()

    def _read(self, text: str) -> None:
        while text:
            text = self._scan.state.read(text)

    def _take_tokens(self) -> list[Token]:
        tokens, self._scan.tokens = self._scan.tokens, []
        return tokens
