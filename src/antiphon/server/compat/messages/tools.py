"""The tools of a request: the client's own, those that Anthropic defined, and those that a server runs."""

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from antiphon.errors import InvalidRequest
from antiphon.protocol.bounds import check_length, check_nesting
from antiphon.protocol.content import JsonObject
from antiphon.protocol.definitions import Definitions
from antiphon.protocol.downgrade import Downgrades
from antiphon.protocol.parse import as_object, convert, required
from antiphon.protocol.parse_tools import MAX_TOOLS
from antiphon.protocol.tools import FunctionTool, HostedTool, Tool, ToolChoice, ToolName, ToolRef
from antiphon.server.compat.messages.client_tools import client_tool
from antiphon.server.compat.messages.server_tools import ServerTools, hosted_type
from antiphon.server.compat.messages.wire import WireChoice


class CustomTool(Struct, frozen=True):
    """A tool of the client."""

    name: ToolName
    input_schema: JsonObject
    description: str | None = None
    strict: bool | None = None


def read_tools(
    values: list[Any], definitions: Definitions, downgrades: Downgrades, servers: ServerTools
) -> tuple[Tool, ...]:
    """The tools of a request. `servers`: those that a server runs."""
    check_length(values, MAX_TOOLS, "tools", "tools")
    tools: list[Tool] = []
    seen: set[str] = set()
    for index, value in enumerate(values):
        path = f"tools[{index}]"
        check_nesting(value, path)
        tool = _tool(as_object(value, path), definitions, path, downgrades, servers)
        if isinstance(tool, FunctionTool):
            if tool.name in seen:
                message = f"Duplicate tool name '{tool.name}' at '{path}'. Give each tool its own name."
                raise InvalidRequest(message, param=f"{path}.name", code="duplicate_tool_name")
            seen.add(tool.name)
        tools.append(tool)
    return (*tools, *servers.remaining(len(tools)))


def read_choice(choice: WireChoice | None, tools: Sequence[Tool]) -> ToolChoice:
    """Whether the model must call, and what. `tools`: those of the request."""
    if choice is None:
        return "auto"
    match choice.type:
        case "auto" | "none":
            return choice.type
        case "any":
            return "required"
        case "tool":
            name = required({"name": choice.name} if choice.name else {}, "name", "tool_choice")
            if any(isinstance(tool, FunctionTool) and tool.name == name for tool in tools):
                return ToolRef("function", name)
            hosted = hosted_type(name, {tool.type: tool for tool in tools if isinstance(tool, HostedTool)})
            return ToolRef("function", name) if hosted is None else ToolRef(hosted)


def _tool(
    body: JsonObject, definitions: Definitions, path: str, downgrades: Downgrades, servers: ServerTools
) -> Tool:
    _list_unused(body, downgrades)
    kind = convert(body.get("type", "custom"), str, f"{path}.type")
    if kind == "custom":
        if "function" in body or "parameters" in body:
            message = f"'{path}' is declared as for another API; here a tool has 'name' and 'input_schema'."
            raise InvalidRequest(message, param=path, code="invalid_value")
        return _custom(body, definitions, path)
    if kind == "function":
        message = f"'{path}' is declared as for another API; leave 'type' out and send 'input_schema'."
        raise InvalidRequest(message, param=f"{path}.type", code="invalid_value")
    known = client_tool(kind, body, path)
    if known is not None:
        return known
    return servers.read(kind, body, path)


def _custom(body: JsonObject, definitions: Definitions, path: str) -> FunctionTool:
    tool = convert(body, CustomTool, path)
    definitions.schema(tool.input_schema, f"{path}.input_schema")
    return FunctionTool(
        name=tool.name, description=tool.description, parameters=tool.input_schema, strict=tool.strict
    )


def _list_unused(body: JsonObject, downgrades: Downgrades) -> None:
    if body.get("cache_control") is not None:
        downgrades.add("not_sent", "cache markers on tools are not passed on", "tools")
    if body.get("defer_loading"):
        text = "'defer_loading' is ignored: the model is shown every tool"
        downgrades.add("not_used", text, "tools")
    if body.get("input_examples"):
        downgrades.add("not_sent", "'input_examples' of tools are not shown to the model", "tools")
