"""Calls of the shell: the events of all commands are sent at the end."""

from msgspec import UNSET, UnsetType

from antiphon.protocol.content import JsonObject
from antiphon.protocol.events import ShellCallCommandAdded, ShellCallCommandDelta, ShellCallCommandDone
from antiphon.protocol.tool_items import ItemStatus, ShellCall
from antiphon.protocol.tools import ShellTool
from antiphon.turn.emitting import Emit, Status
from antiphon.turn.function_forms.reading import read_shell
from antiphon.turn.open_calls.base import CallPlace, OpenCall
from antiphon.turn.tools import TurnTool

_NOTHING: JsonObject = {"commands": [], "timeout_ms": None, "max_output_length": None}


class OpenShellCall(OpenCall):
    __slots__ = ()

    def __init__(self, emit: Emit, place: CallPlace, tool: TurnTool) -> None:
        super().__init__(emit, place, tool)
        self._added(self._item(_NOTHING, "in_progress"))

    def close(self, status: Status) -> ShellCall:
        action, fault = read_shell(self.written)
        for index, command in enumerate(action["commands"]):
            self._emit(ShellCallCommandAdded, self.output_index, index, "")
            if command:
                self._emit(ShellCallCommandDelta, self.output_index, index, command)
            self._emit(ShellCallCommandDone, self.output_index, index, command)
        item = self._item(action, "incomplete" if fault else status)
        self._done(item)
        return item

    def _item(self, action: JsonObject, status: ItemStatus) -> ShellCall:
        return ShellCall(
            id=self.id,
            call_id=self.call_id,
            action=action,
            environment=_environment(self._tool),
            status=status,
        )


def _environment(tool: TurnTool) -> JsonObject | UnsetType:
    """The type of the declared environment; its other members stay with the client."""
    declared = tool.declared
    if not isinstance(declared, ShellTool) or isinstance(declared.environment, UnsetType):
        return UNSET
    return {"type": declared.environment["type"]}
