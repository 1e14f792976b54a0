"""Calls without events between `added` and `done`."""

from antiphon.protocol.content import JsonObject
from antiphon.protocol.tool_items import (
    ComputerCall,
    ItemStatus,
    LocalShellCall,
    ToolSearchCall,
)
from antiphon.turn.emitting import Emit, Status
from antiphon.turn.function_forms.declared import runs_on_server
from antiphon.turn.function_forms.reading import read_checks, read_computer, read_local_shell, read_search
from antiphon.turn.open_calls.base import CallPlace, OpenCall
from antiphon.turn.tools import TurnTool


class OpenToolSearch(OpenCall):
    """A tool search. Clients start it when the item is done."""

    __slots__ = ()

    def __init__(self, emit: Emit, place: CallPlace, tool: TurnTool) -> None:
        super().__init__(emit, place, tool)
        self._added(self._item({}, "in_progress"))

    def close(self, status: Status) -> ToolSearchCall:
        arguments, fault = read_search(self.written)
        item = self._item(arguments, "incomplete" if fault else status)
        self._done(item)
        return item

    def _item(self, arguments: JsonObject, status: ItemStatus) -> ToolSearchCall:
        if runs_on_server(self._tool):
            return ToolSearchCall(
                id=self.id, call_id=None, execution="server", arguments=arguments, status=status
            )
        return ToolSearchCall(
            id=self.id, call_id=self.call_id, execution="client", arguments=arguments, status=status
        )


class OpenLocalShellCall(OpenCall):
    """One command, which is complete when the item is added."""

    __slots__ = ()

    def close(self, status: Status) -> LocalShellCall:
        action, fault = read_local_shell(self.written)
        self._added(self._item(action, "in_progress"))
        item = self._item(action, "incomplete" if fault else status)
        self._done(item)
        return item

    def _item(self, action: JsonObject, status: ItemStatus) -> LocalShellCall:
        return LocalShellCall(id=self.id, call_id=self.call_id, action=action, status=status)


class OpenComputerCall(OpenCall):
    """Mouse, keyboard and screen. The actions are complete when the item is added."""

    __slots__ = ()

    def close(self, status: Status) -> ComputerCall:
        actions, fault = read_computer(self.written, self._tool)
        self._added(self._item(actions, "in_progress"))
        item = self._item(actions, "incomplete" if fault else status)
        self._done(item)
        return item

    def _item(self, actions: JsonObject, status: ItemStatus) -> ComputerCall:
        checks = read_checks(self.written)
        return ComputerCall(
            id=self.id, call_id=self.call_id, pending_safety_checks=checks, status=status, **actions
        )
