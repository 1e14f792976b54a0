"""What the states share in which the text of a turn is read."""

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from antiphon.turn.text_calls.forms import Call, Tools
from antiphon.turn.text_calls.openings import Openings

REREADABLE = 256 * 1024
"""Characters of a turn that may be read a second time: this keeps the cost linear."""


class Found(Struct, frozen=True):
    """Text that is not said: `size` characters that are these calls, or something behind them."""

    size: int
    calls: Sequence[Call] = ()


Token = str | Found


class State(Protocol):
    """What the scanner does with text."""

    @property
    def holding(self) -> bool:
        """Whether text is held back."""
        ...

    def read(self, text: str) -> str:
        """Read some of the text; the rest is for the state that follows."""
        ...

    def end(self) -> str:
        """The text is over: settle what is held, or return it for another state."""
        ...


class Scan:
    """One turn."""

    state: State
    plain: State
    """The state to which all others return."""

    def __init__(self, openings: Openings, tools: Tools) -> None:
        self.openings = openings
        self.tools = tools
        self.tokens: list[Token] = []
        self.rereadable = REREADABLE
        self.line_starts = True
        """Whether the next character is the first of a line."""

    def say(self, text: str) -> None:
        """It is text."""
        if text:
            self.tokens.append(text)
            self.line_starts = text[-1] == "\n"

    def find(self, size: int, calls: Sequence[Call] = ()) -> None:
        """It is calls, or something behind them that does not count."""
        self.tokens.append(Found(size, calls))
        self.line_starts = False

    def read_again(self, text: str, size: int) -> str:
        """What the next state reads of `text`, whose first `size` characters were read before.

        They are said if too much was read twice already.
        """
        if size <= self.rereadable:
            self.rereadable -= size
            return text
        self.say(text[:size])
        self.state = self.plain
        return text[size:]
