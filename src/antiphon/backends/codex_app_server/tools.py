"""The client's tools in codex's terms: declarations, arguments, outputs."""

from typing import Any

from antiphon.protocol.content import JsonObject
from antiphon.protocol.downgrade import Downgrades
from antiphon.turn.context import TurnTool

_NO_PARAMETERS: JsonObject = {"type": "object", "properties": {}}


def tool_spec(tool: TurnTool, alias: str, downgrades: Downgrades) -> JsonObject:
    """The declaration of a tool."""
    if tool.strict:
        downgrades.add("not_enforced", "'strict' of tools is not sent: codex does not take it", "tools")
    if tool.grammar is not None and tool.grammar.type == "grammar":
        downgrades.add(
            "not_enforced",
            f"the grammar of the custom tool '{tool.origin}' is described to the model, not enforced",
            "tools",
        )
    return {
        "type": "function",
        "name": alias,
        "description": tool.description or "",
        "inputSchema": _NO_PARAMETERS if tool.parameters is None else tool.parameters,
    }


def tool_result(output: Any) -> JsonObject:
    """A tool output in the form that codex wants it in."""
    parts = [{"type": "input_text", "text": output}] if isinstance(output, str) else output
    return {"success": True, "contentItems": [_result_part(part) for part in parts]}


def _result_part(part: JsonObject) -> JsonObject:
    if part["type"] == "input_image":
        return {"type": "inputImage", "imageUrl": part["image_url"]}
    return {"type": "inputText", "text": part["text"]}
