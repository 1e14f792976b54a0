"""Parse tools and the tool choice liberally, and check names, duplicates and schemas."""

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, cast

from msgspec import UnsetType
from msgspec.structs import replace

from antiphon.errors import InvalidRequest
from antiphon.protocol.bounds import check_count, check_length, check_nesting
from antiphon.protocol.containers import AUTO_SHELL, NAMED_SHELL
from antiphon.protocol.content import JsonObject
from antiphon.protocol.definitions import Definitions
from antiphon.protocol.file_search import FILE_SEARCH, complete_declaration, parse_file_search
from antiphon.protocol.parse import as_object, convert, missing, required
from antiphon.protocol.public_tools import is_redacted, public_declaration
from antiphon.protocol.tools import (
    CLIENT_TOOLS,
    HOSTED_TOOLS,
    AllowedTools,
    ClientTool,
    CustomTool,
    FunctionTool,
    HostedTool,
    NamespaceTool,
    ShellTool,
    Tool,
    ToolChoice,
    ToolRef,
    ToolSearchTool,
    tool_type,
)

MAX_TOOLS = 512
MAX_NAMESPACE_TOOLS = 1024
"""Tools in all namespaces of a list together."""

_NAMED = ("function", "custom", "namespace")
_CHOSEN = HOSTED_TOOLS.union(_NAMED, CLIENT_TOOLS, {"computer_use"})
"""The types that a choice may name; `computer_use` is an alias of `computer`."""

_CONTAINERS = (AUTO_SHELL, NAMED_SHELL)
_FLAT = "Declare functions flat: {'type': 'function', 'name': …, 'parameters': …}."


def parse_tools(values: list[Any], definitions: Definitions, path: str = "tools") -> tuple[Tool, ...]:
    """Parse the `tools` parameter, or a list of tools in an item."""
    return _all(values, definitions, path, _tool)


def parse_functions(values: list[Any], definitions: Definitions, path: str = "tools") -> tuple[Tool, ...]:
    """Parse the `tools` parameter of a profile that serves functions only. Other tools are not checked, and
    null is skipped."""
    given = [value for value in values if value is not None]
    return _all(given, definitions, path, _function_or_unread)


def read_tools(values: Iterable[Any]) -> tuple[Tool, ...]:
    """Parse stored tools. Tools that were stored unchecked, and no model has seen, are omitted."""
    tools: list[Tool] = []
    for index, value in enumerate(values):
        with suppress(InvalidRequest):
            tools.append(_tool(value, f"tools[{index}]"))
    return tuple(tools)


def _all(
    values: list[Any], definitions: Definitions, path: str, parse: Callable[[object, str], Tool]
) -> tuple[Tool, ...]:
    check_length(values, MAX_TOOLS, path, "tools")
    _check_namespaces(values, path)
    tools = tuple(parse(value, f"{path}[{index}]") for index, value in enumerate(values))
    _refuse_duplicates(tools, path)
    for index, tool in enumerate(tools):
        _check(tool, definitions, f"{path}[{index}]")
    return tools


def _check_namespaces(values: list[Any], path: str) -> None:
    members = 0
    for value in values:
        inner = cast("JsonObject", value).get("tools") if type(value) is dict else None
        members += len(cast("list[Any]", inner)) if type(inner) is list else 0
    check_count(members, MAX_NAMESPACE_TOOLS, path, "tools in namespaces")


def _check(tool: Tool, definitions: Definitions, path: str) -> None:
    """The expensive checks. They run once, when a tool is received, not when it is read from the store."""
    match tool:
        case FunctionTool() if tool.parameters is not None:
            definitions.schema(tool.parameters, f"{path}.parameters")
        case CustomTool() if not isinstance(tool.format, UnsetType):
            definitions.grammar(tool.format, f"{path}.format")
        case ToolSearchTool() if tool.parameters:
            definitions.schema(tool.parameters, f"{path}.parameters")
        case HostedTool() if is_redacted(tool.complete):
            where = f"{path}.server_url"
            message = f"'{where}' is the short form that responses show. Send the complete URL."
            raise InvalidRequest(message, param=where, code="invalid_value")
        case NamespaceTool():
            for index, member in enumerate(tool.tools):
                _check(member, definitions, f"{path}.tools[{index}]")
        case _:
            pass


def _function_or_unread(value: object, path: str) -> Tool:
    check_nesting(value, path)
    body = as_object(value, path)
    kind = convert(required(body, "type", path), str, f"{path}.type")
    return _callable(body, path) if kind == "function" else hosted_tool(kind, body)


def _tool(value: object, path: str) -> Tool:
    check_nesting(value, path)
    body = as_object(value, path)
    kind = convert(required(body, "type", path), str, f"{path}.type")
    if kind in ("function", "custom"):
        return _callable(body, path)
    if kind == "namespace":
        return _namespace(body, path)
    if kind in CLIENT_TOOLS:
        return _client_tool(body, kind, path)
    if kind == FILE_SEARCH:
        return HostedTool(kind, complete_declaration(parse_file_search(body, path)))
    if kind in HOSTED_TOOLS or ":" in kind:
        return hosted_tool(kind, body)
    message = f"Invalid value for '{path}.type': '{kind}' is not a tool type of the Responses API."
    raise InvalidRequest(message, param=f"{path}.type", code="invalid_value")


def _callable(body: JsonObject, path: str) -> FunctionTool | CustomTool:
    if "name" not in body:
        raise missing(f"{path}.name", _FLAT if body["type"] == "function" else "")
    return convert(body, CustomTool if body["type"] == "custom" else FunctionTool, path)


def hosted_tool(kind: str, body: JsonObject) -> HostedTool:
    """A tool that a server runs, with its secrets separated from its public declaration."""
    public = public_declaration(body)
    return HostedTool(kind, public, None if public is body else body)


def _client_tool(body: JsonObject, kind: str, path: str) -> ClientTool | HostedTool:
    """A tool that the client runs; a shell in a container is a hosted tool."""
    tool = convert(body, CLIENT_TOOLS[kind], path)
    if isinstance(tool, ShellTool) and not isinstance(tool.environment, UnsetType):
        place = convert(
            required(tool.environment, "type", f"{path}.environment"), str, f"{path}.environment.type"
        )
        if place in _CONTAINERS:
            return hosted_tool(kind, body)
        if place != "local":
            message = f"Invalid value for '{path}.environment.type': '{place}'; use 'local'."
            raise InvalidRequest(message, param=f"{path}.environment.type", code="invalid_value")
    return tool


def _namespace(body: JsonObject, path: str) -> NamespaceTool:
    values = convert(required(body, "tools", path), list[Any], f"{path}.tools")
    shell = convert({**body, "tools": []}, NamespaceTool, path)
    members: list[FunctionTool | CustomTool] = []
    for index, value in enumerate(values):
        tool = _tool(value, f"{path}.tools[{index}]")
        if not isinstance(tool, FunctionTool | CustomTool):
            where = f"{path}.tools[{index}].type"
            raise InvalidRequest(
                "A namespace holds function and custom tools only.", param=where, code="invalid_value"
            )
        members.append(tool)
    _refuse_duplicates(tuple(members), f"{path}.tools")
    return replace(shell, tools=members)


def _refuse_duplicates(tools: tuple[Tool, ...], path: str) -> None:
    """Reject two tools with one name, or two of a type without names."""
    seen: set[str] = set()
    for index, tool in enumerate(tools):
        if isinstance(tool, HostedTool):
            continue
        named = isinstance(tool, FunctionTool | CustomTool | NamespaceTool)
        key = tool.name if named else f"{tool_type(tool)}:"
        if key in seen:
            what = f"Duplicate tool name '{key}'" if named else f"Duplicate tool '{tool_type(tool)}'"
            hint = "Give each tool its own name." if named else "Declare it once."
            where = f"{path}[{index}].{'name' if named else 'type'}"
            message = f"{what} at '{path}[{index}]'. {hint}"
            raise InvalidRequest(message, param=where, code="duplicate_tool_name")
        seen.add(key)


def parse_tool_choice(value: str | JsonObject) -> ToolChoice:
    """Parse the `tool_choice` parameter in any of its forms."""
    if isinstance(value, str):
        if value in ("none", "auto", "required"):
            return value
        message = f"Invalid value for 'tool_choice': '{value}'; use 'none', 'auto', 'required' or an object."
        raise InvalidRequest(message, param="tool_choice", code="invalid_value")
    check_nesting(value, "tool_choice")
    body = as_object(value, "tool_choice")
    if body.get("type") == "allowed_tools":
        return _allowed_tools(body)
    return _tool_ref(body, "tool_choice")


def _allowed_tools(body: JsonObject) -> AllowedTools:
    # The chat-completions spelling nests the same two members once more.
    inner = as_object(body.get("allowed_tools", body), "tool_choice")
    values = convert(required(inner, "tools", "tool_choice"), list[Any], "tool_choice.tools")
    check_length(values, MAX_TOOLS, "tool_choice.tools", "tools")
    empty: list[ToolRef] = []
    shell = {"type": "allowed_tools", "mode": inner.get("mode", "auto"), "tools": empty}
    mode = convert(shell, AllowedTools, "tool_choice").mode
    refs = [
        _tool_ref(as_object(value, path), path)
        for value, path in ((value, f"tool_choice.tools[{index}]") for index, value in enumerate(values))
    ]
    if not refs:
        raise InvalidRequest("'tool_choice.tools' must name at least one tool.", param="tool_choice.tools")
    return AllowedTools(mode, refs)


def _tool_ref(body: JsonObject, path: str) -> ToolRef:
    kind = convert(required(body, "type", path), str, f"{path}.type")
    if kind == "tool":
        kind = "function"
    if kind not in _CHOSEN and ":" not in kind:
        message = f"Invalid value for '{path}.type': '{kind}' is not a tool type of the Responses API."
        raise InvalidRequest(message, param=f"{path}.type", code="invalid_value")
    nested: object = body.get(kind)
    if "name" not in body and isinstance(nested, dict):
        body = {**body, "name": cast("JsonObject", nested).get("name")}
    if kind in _NAMED:
        required(body, "name", path)
    return convert({**body, "type": kind}, ToolRef, path)
