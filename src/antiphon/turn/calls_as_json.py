"""Tool calls as JSON by a schema, for servers that enforce a schema but not a tool choice.

The answer is one object, ``{"name": …, "arguments": {…}}``: most models were trained to write calls in this
form.
"""

from collections.abc import Iterable, Sequence
from typing import Any, cast

import msgspec
from msgspec import Struct

from antiphon.protocol.content import JsonObject
from antiphon.turn.tools import TurnTool

NO_PARAMETERS: JsonObject = {"type": "object", "properties": {}, "additionalProperties": False}


def call_schema(tools: Sequence[TurnTool]) -> JsonObject:
    """The schema of one call of one of these tools."""
    definitions: JsonObject = {}
    options = [_call_of(tool, definitions) for tool in tools]
    schema = options[0] if len(options) == 1 else {"anyOf": options}
    return {**schema, "$defs": definitions} if definitions else schema


def call_prompt(tools: Sequence[TurnTool]) -> str:
    """The prompt that describes the tools and the form of the call."""
    return (
        "You must call one of these tools now:\n"
        f"{tool_lines(tools)}\n"
        'Answer with one JSON object and nothing else: {"name": <the tool>, "arguments": <its arguments>}.'
    )


def tool_lines(tools: Iterable[TurnTool]) -> str:
    """Each tool as one line of JSON, as a chat template would show it."""
    return "\n".join(
        msgspec.json.encode(
            {
                "name": tool.name,
                "description": tool.description or "",
                "parameters": NO_PARAMETERS if tool.parameters is None else tool.parameters,
            }
        ).decode()
        for tool in tools
    )


class _Call(Struct, frozen=True):
    name: str
    arguments: msgspec.Raw = msgspec.Raw(b"")
    parameters: msgspec.Raw = msgspec.Raw(b"")


def read_call(text: str, tools: Sequence[TurnTool]) -> tuple[TurnTool, str] | None:
    """The tool that an answer calls, and the arguments as JSON; None if it is not a call."""
    try:
        call = msgspec.json.decode(text, type=_Call)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return None
    tool = next((tool for tool in tools if tool.name == call.name), None)
    if tool is None:
        return None
    arguments = (bytes(call.arguments) or bytes(call.parameters) or b"{}").decode()
    return (tool, arguments) if arguments.startswith("{") else None


def _call_of(tool: TurnTool, definitions: JsonObject) -> JsonObject:
    parameters = NO_PARAMETERS if tool.parameters is None else tool.parameters
    adjusted = _moved(parameters, f"#/$defs/{tool.name}")
    if adjusted != parameters:
        definitions[tool.name], adjusted = adjusted, {"$ref": f"#/$defs/{tool.name}"}
    return {
        "type": "object",
        "properties": {"name": {"type": "string", "const": tool.name}, "arguments": adjusted},
        "required": ["name", "arguments"],
        "additionalProperties": False,
    }


def _moved(schema: Any, place: str) -> Any:
    """The schema with its references adjusted to `place` in another schema."""
    if isinstance(schema, list):
        return [_moved(member, place) for member in cast("list[Any]", schema)]
    if not isinstance(schema, dict):
        return schema
    members = {name: _moved(member, place) for name, member in cast("JsonObject", schema).items()}
    target: object = members.get("$ref")
    if isinstance(target, str) and target.startswith("#"):
        members["$ref"] = f"{place}{target[1:]}"
    return members
