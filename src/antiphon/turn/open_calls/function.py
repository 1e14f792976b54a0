"""Calls of functions: the arguments are streamed as the model writes them, valid or not."""

from msgspec import UNSET

from antiphon.protocol.events import FunctionCallArgumentsDelta, FunctionCallArgumentsDone
from antiphon.protocol.items import FunctionCall
from antiphon.protocol.tool_items import ItemStatus
from antiphon.turn.emitting import Emit, Status
from antiphon.turn.open_calls.base import CallPlace, OpenCall
from antiphon.turn.tools import TurnTool


class OpenFunctionCall(OpenCall):
    __slots__ = ()

    def __init__(self, emit: Emit, place: CallPlace, tool: TurnTool) -> None:
        super().__init__(emit, place, tool)
        self._added(self._item("", "in_progress"))

    def extend(self, delta: str) -> None:
        super().extend(delta)
        self._emit(FunctionCallArgumentsDelta, self.id, self.output_index, delta)

    def close(self, status: Status) -> FunctionCall:
        """End the call. Clients parse the arguments, so missing ones become an empty object."""
        if status == "completed" and not self.written.strip():
            self.extend("{}")
        arguments = self.written
        self._emit(FunctionCallArgumentsDone, self.id, self.output_index, arguments)
        item = self._item(arguments, status)
        self._done(item)
        return item

    def _item(self, arguments: str, status: ItemStatus) -> FunctionCall:
        return FunctionCall(
            id=self.id,
            call_id=self.call_id,
            name=self._tool.origin,
            arguments=arguments,
            namespace=self._tool.namespace or UNSET,
            status=status,
        )
