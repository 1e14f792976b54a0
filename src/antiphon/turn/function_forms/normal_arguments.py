"""A model's arguments as they look when the client sends the call back in the history."""

import msgspec

from antiphon.protocol.content import JsonObject
from antiphon.turn.function_forms.calls import INPUT, sent_action
from antiphon.turn.function_forms.reading import (
    read_computer,
    read_local_shell,
    read_patch,
    read_search,
    read_shell,
    read_text,
)
from antiphon.turn.tools import TurnTool


def normal_arguments(tool: TurnTool, arguments: str) -> str:
    """The arguments of the call's function form in the history, from what the model wrote."""
    match tool.kind:
        case "function" | "hosted":
            return arguments or "{}"
        case "custom":
            return _json({INPUT: read_text(arguments)})
        case "tool_search":
            return _json(read_search(arguments).body)
        case "apply_patch":
            return _json(read_patch(arguments).body)
        case "shell":
            return _json(sent_action(read_shell(arguments).body))
        case "local_shell":
            return _json(sent_action(read_local_shell(arguments).body))
        case "computer":
            body = read_computer(arguments, tool).body
            return _json({"actions": body.get("actions", [body.get("action")])})


def _json(value: JsonObject) -> str:
    return msgspec.json.encode(value).decode()
