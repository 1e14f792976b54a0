"""Calls of any kind as calls of functions."""

import msgspec

from antiphon.protocol.content import JsonObject
from antiphon.protocol.items import CallItem, CustomToolCall, FunctionCall
from antiphon.protocol.tool_items import (
    ApplyPatchCall,
    ComputerCall,
    LocalShellCall,
    ShellCall,
    ToolSearchCall,
)

INPUT = "input"
"""The only parameter of a custom tool's function form."""


def call_arguments(call: CallItem) -> str:
    """The arguments of the call's function form."""
    match call:
        case FunctionCall():
            return call.arguments or "{}"
        case CustomToolCall():
            return _json({INPUT: call.input})
        case ToolSearchCall():
            return _json(call.arguments)
        case ApplyPatchCall():
            return _json(call.operation)
        case ShellCall() | LocalShellCall():
            return _json(sent_action(call.action))
        case ComputerCall():
            return _json({"actions": computer_actions(call)})


def computer_actions(call: ComputerCall) -> list[JsonObject]:
    """The actions of a call: newer tools have a list, the preview has one action per call."""
    return [*(call.actions or ()), *([call.action] if call.action else ())]


def sent_action(action: JsonObject) -> JsonObject:
    """The action of a shell call without its empty members."""
    return {name: value for name, value in action.items() if name != "type" and value not in (None, {})}


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
