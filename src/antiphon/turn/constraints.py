"""Demands: what a request wants to be certain, and what it means that an answer does not meet one."""

from dataclasses import dataclass, field
from typing import Literal

from msgspec import Struct

from antiphon.turn.context import TurnTool

Constraint = Literal["tool_choice", "format", "grammar"]
"""That a tool is called, that the answer is JSON of a schema, that the input of a custom tool follows its
grammar."""


@dataclass(slots=True)
class HeldCall:
    """A call whose arguments are looked at before it is told."""

    call_id: str
    tool: TurnTool
    pieces: list[str] = field(default_factory=list[str])
    fault: str = ""

    @property
    def arguments(self) -> str:
        """As the model wrote them."""
        return "".join(self.pieces)


class Violation(Struct, frozen=True):
    """Why an answer was not told, and the answer: its words, or the calls whose input does not fit."""

    demand: Constraint
    why: str
    text: str = ""
    calls: tuple[HeldCall, ...] = ()
    alone: bool = False
    """Whether these calls are all that the model said."""
