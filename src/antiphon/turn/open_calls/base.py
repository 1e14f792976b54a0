"""`OpenCall`: a call that is being written."""

from abc import ABC, abstractmethod
from typing import NamedTuple

import msgspec

from antiphon.protocol.events import OutputItemAdded, OutputItemDone
from antiphon.protocol.items import CallItem
from antiphon.turn.emitting import Emit, Status
from antiphon.turn.tools import TurnTool


class CallPlace(NamedTuple):
    """The identity of a call: its ids, its place in the output, and its index at the backend."""

    id: str
    call_id: str
    output_index: int
    backend_index: int


class OpenCall(ABC):
    """A call that is being written. `tool` restores the caller's own names."""

    __slots__ = ("_emit", "_pieces", "_tool", "call_id", "id", "index", "output_index")

    def __init__(self, emit: Emit, place: CallPlace, tool: TurnTool) -> None:
        self._emit = emit
        self.id, self.call_id, self.output_index, self.index = place
        self._tool = tool
        self._pieces: list[str] = []

    def extend(self, delta: str) -> None:
        self._pieces.append(delta)

    def has_complete_arguments(self) -> bool:
        """Whether the arguments are a closed JSON object, to which nothing but white space can be added."""
        last = self._pieces[-1].rstrip() if self._pieces else ""
        if last and not last.endswith("}"):
            return False  # cheap, and true for nearly every delta
        try:
            return isinstance(msgspec.json.decode(self.written), dict)
        except (msgspec.DecodeError, RecursionError):
            return False

    @property
    def written(self) -> str:
        """Everything that the model wrote."""
        return "".join(self._pieces)

    @abstractmethod
    def close(self, status: Status) -> CallItem:
        """End the call. An unreadable call is incomplete, however the model ended it."""

    def _added(self, item: CallItem) -> None:
        self._emit(OutputItemAdded, self.output_index, item)

    def _done(self, item: CallItem) -> None:
        self._emit(OutputItemDone, self.output_index, item)
