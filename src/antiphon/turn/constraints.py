"""Constraints: what an answer must satisfy, and how it violates one."""

from dataclasses import dataclass, field
from typing import Literal

from msgspec import Struct

from antiphon.turn.context import TurnTool

Constraint = Literal["tool_choice", "format", "grammar"]
"""A tool must be called; the answer must be JSON, of a schema perhaps; the input of a custom tool must follow
its grammar."""


@dataclass(slots=True)
class HeldCall:
    """A call that is withheld until its arguments are checked."""

    call_id: str
    tool: TurnTool
    pieces: list[str] = field(default_factory=list[str])
    fault: str = ""

    @property
    def arguments(self) -> str:
        """The arguments as the model wrote them."""
        return "".join(self.pieces)


class Violation(Struct, frozen=True):
    """Why an answer is withheld, and the answer: its text, or the calls whose input is wrong."""

    constraint: Constraint
    reason: str
    text: str = ""
    calls: tuple[HeldCall, ...] = ()
    alone: bool = False
    """Whether these calls are the whole answer."""
