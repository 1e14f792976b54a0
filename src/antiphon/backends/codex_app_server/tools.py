"""The client's tools in codex's terms: declarations, arguments, outputs."""

from typing import Any

import msgspec
from msgspec import Struct

from antiphon.protocol.content import JsonObject
from antiphon.turn.context import TurnTool

_NO_PARAMETERS: JsonObject = {"type": "object", "properties": {}}


class _Input(Struct, frozen=True, forbid_unknown_fields=True):
    input: str


def tool_spec(tool: TurnTool, alias: str, notes: list[str]) -> JsonObject:
    """The declaration of a tool."""
    if tool.strict:
        notes.append("'strict' of tools is not sent: codex does not take it")
    description, parameters = tool.description, tool.parameters
    if tool.kind == "custom":
        description, parameters = _custom(tool, notes)
    return {
        "type": "function",
        "name": alias,
        "description": description or "",
        "inputSchema": _NO_PARAMETERS if parameters is None else parameters,
    }


def _custom(tool: TurnTool, notes: list[str]) -> tuple[str, JsonObject]:
    """A tool that takes free text is a function with one string, `input`."""
    lines = [tool.description] if tool.description else []
    if tool.grammar is not None and tool.grammar.type == "grammar":
        lines.append(f"The input must follow this {tool.grammar.syntax} grammar:\n{tool.grammar.definition}")
        notes.append(
            f"the grammar of the custom tool '{tool.origin}' is described to the model, not enforced"
        )
    text = {"type": "string", "description": "The whole input of the tool, as text."}
    schema: JsonObject = {
        "type": "object",
        "properties": {"input": text},
        "required": ["input"],
        "additionalProperties": False,
    }
    return "\n\n".join(lines), schema


def free_text(arguments: str) -> str:
    """What a client is told of the arguments of a custom tool: the text in them, if that is all."""
    try:
        return msgspec.json.decode(arguments, type=_Input).input
    except msgspec.DecodeError:
        return arguments


def tool_result(output: Any) -> JsonObject:
    """A tool output in the form that codex wants it in."""
    parts = [{"type": "input_text", "text": output}] if isinstance(output, str) else output
    return {"success": True, "contentItems": [_result_part(part) for part in parts]}


def _result_part(part: JsonObject) -> JsonObject:
    if part["type"] == "input_image":
        return {"type": "inputImage", "imageUrl": part["image_url"]}
    return {"type": "inputText", "text": part["text"]}
