"""The constraints of an answer, and their violations."""

from dataclasses import dataclass, field
from typing import Literal

from msgspec import Struct

from antiphon.protocol.tools import TextFormatGrammar
from antiphon.turn.context import TurnTool

Constraint = Literal["tool_choice", "format", "grammar"]
"""A tool must be called; the answer must be JSON, with or without a schema; the input of a custom tool must
follow its grammar."""


@dataclass(slots=True)
class HeldCall:
    """A call that is withheld until its input is checked against the grammar of its tool."""

    call_id: str
    tool: TurnTool
    grammar: TextFormatGrammar
    pieces: list[str] = field(default_factory=list[str])
    fault: str = ""

    @property
    def arguments(self) -> str:
        """The arguments as the model wrote them."""
        return "".join(self.pieces)


class Violation(Struct, frozen=True):
    """Why an answer is not accepted, and the answer: its text, or the calls with wrong input."""

    constraint: Constraint
    reason: str
    text: str = ""
    calls: tuple[HeldCall, ...] = ()
    alone: bool = False
    """Whether the answer consists of these calls only."""
    sent: bool = False
    """Whether the text was sent while it streamed, so that it cannot be replaced by a better answer."""
    early: bool = False
    """Whether it was found before the answer had ended; the rest of the answer is not read."""
