"""The tools of a chat request, in both ages: `tools`, and the `functions` that were there before."""

from collections.abc import Sequence
from typing import Any, cast

import msgspec
from msgspec import UnsetType

from antiphon.errors import InvalidRequest
from antiphon.protocol.bounds import check_length, check_nesting
from antiphon.protocol.content import JsonObject
from antiphon.protocol.definitions import Definitions
from antiphon.protocol.parse import as_object, convert, missing, required
from antiphon.protocol.parse_tools import MAX_TOOLS, hosted_tool, parse_tool_choice
from antiphon.protocol.tools import CustomTool, FunctionTool, HostedTool, Tool, ToolChoice, ToolRef
from antiphon.server.compat.chat_completions.wire import ChatBody, WebSearchOptions

_NESTED = "In this API a function is nested: {'type': 'function', 'function': {'name': …, 'parameters': …}}."


def read_tools(body: ChatBody, definitions: Definitions) -> tuple[Tool, ...]:
    """The tools of a request."""
    if body.tools and body.functions:
        message = "'functions' is the old name of 'tools'. Send one of them."
        raise InvalidRequest(message, param="functions", code="mutually_exclusive_parameters")
    declared = _bounded(body.tools, "tools")
    tools = [_tool(value, definitions, f"tools[{index}]") for index, value in enumerate(declared)]
    functions = _bounded(body.functions, "functions")
    tools += [_function(value, definitions, f"functions[{index}]") for index, value in enumerate(functions)]
    _refuse_duplicates(tools, "tools" if body.tools else "functions")
    if body.web_search_options is not None:
        # The engine's own rule for hosted tools decides: served, left out and reported, or refused.
        return (*tools, _web_search(body.web_search_options))
    return tuple(tools)


def _web_search(options: WebSearchOptions) -> HostedTool:
    body: JsonObject = {"type": "web_search"}
    if options.search_context_size is not None:
        body["search_context_size"] = options.search_context_size
    if options.user_location is not None:
        given: JsonObject = msgspec.to_builtins(options.user_location.approximate)
        location = {name: value for name, value in given.items() if value is not None}
        body["user_location"] = {"type": "approximate", **location}
    return hosted_tool("web_search", body)


def read_choice(body: ChatBody) -> ToolChoice:
    """Whether the model must call, and what."""
    if body.tool_choice is not None:
        return parse_tool_choice(body.tool_choice)
    chosen = body.function_call
    if chosen is None:
        return "auto"
    if isinstance(chosen, str):
        if chosen in ("none", "auto"):
            return cast("ToolChoice", chosen)
        message = f"Invalid value for 'function_call': '{chosen}'; use 'none', 'auto' or an object."
        raise InvalidRequest(message, param="function_call", code="invalid_value")
    name = convert(required(chosen, "name", "function_call"), str, "function_call.name")
    return ToolRef("function", name)


def _bounded(values: list[Any] | None, path: str) -> Sequence[Any]:
    check_length(values or (), MAX_TOOLS, path, "tools")
    return values or ()


def _tool(value: object, definitions: Definitions, path: str) -> FunctionTool | CustomTool:
    check_nesting(value, path)
    body = as_object(value, path)
    kind = convert(required(body, "type", path), str, f"{path}.type")
    if kind == "function":
        if "function" not in body:
            raise missing(f"{path}.function", _NESTED)
        return _function(body["function"], definitions, f"{path}.function")
    if kind == "custom":
        custom = as_object(required(body, "custom", path), f"{path}.custom")
        return _custom(custom, definitions, f"{path}.custom")
    message = (
        f"Invalid value for '{path}.type': '{kind}' is no tool of chat completions; use 'function' or "
        "'custom'. Tools of other types are taken by POST /v1/responses."
    )
    raise InvalidRequest(message, param=f"{path}.type", code="invalid_value")


def _function(value: object, definitions: Definitions, path: str) -> FunctionTool:
    check_nesting(value, path)
    tool = convert({**as_object(value, path), "type": "function"}, FunctionTool, path)
    if tool.parameters is not None:
        definitions.schema(tool.parameters, f"{path}.parameters")
    return tool


def _custom(body: JsonObject, definitions: Definitions, path: str) -> CustomTool:
    form: object = body.get("format")
    if isinstance(form, dict):
        members = cast("JsonObject", form)
        if members.get("type") == "grammar":  # nested here, flat in the engine
            grammar = as_object(required(members, "grammar", f"{path}.format"), f"{path}.format.grammar")
            body = {**body, "format": {"type": "grammar", **grammar}}
    tool = convert({**body, "type": "custom"}, CustomTool, path)
    if not isinstance(tool.format, UnsetType):
        definitions.grammar(tool.format, f"{path}.format.grammar")
    return tool


def _refuse_duplicates(tools: Sequence[FunctionTool | CustomTool], path: str) -> None:
    seen: set[str] = set()
    for index, tool in enumerate(tools):
        if tool.name in seen:
            message = f"Duplicate tool name '{tool.name}' at '{path}[{index}]'. Give each tool its own name."
            raise InvalidRequest(message, param=f"{path}[{index}]", code="duplicate_tool_name")
        seen.add(tool.name)
