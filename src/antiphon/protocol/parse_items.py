"""Parse input items liberally: `{role, content}` needs no type, `text` is a content type, arguments that are
objects are encoded as JSON, null members count as absent. Items of client tools are normalised to their
stored form."""

from collections.abc import Callable, Mapping
from typing import Any, Literal, cast

import msgspec
from msgspec import Struct

from antiphon.errors import InvalidRequest
from antiphon.protocol.bounds import check_count, check_length, check_nesting, check_texts
from antiphon.protocol.content import JsonObject
from antiphon.protocol.definitions import Definitions
from antiphon.protocol.items import (
    ITEM_TYPES,
    KNOWN_ITEMS,
    CompactionTrigger,
    Item,
    Message,
    OpaqueItem,
)
from antiphon.protocol.parse import as_object, convert, missing, required
from antiphon.protocol.parse_tools import parse_tools
from antiphon.protocol.tool_items import AdditionalTools, ToolSearchOutput

MAX_ITEMS = 10_000
MAX_PARTS = 10_000
"""Content parts of all items of a request together."""
MAX_DECLARED_TOOLS = 1024
"""Tools that the items of a request declare together."""
MAX_RESULTS = 1000
"""Results in one output of the shell."""
MAX_ID_CHARACTERS = 256


def parse_input(value: str | list[Any], definitions: Definitions) -> tuple[Item, ...]:
    """The `input` parameter: a string is one user message."""
    if isinstance(value, str):
        return (Message(role="user", content=value),)
    check_length(value, MAX_ITEMS, "input", "items")
    check_members(value, "input")
    items = tuple(parse_item(item, definitions, f"input[{index}]") for index, item in enumerate(value))
    for index, item in enumerate(items[:-1]):
        if isinstance(item, CompactionTrigger):
            message = "A 'compaction_trigger' must be the last item of 'input'. Move it to the end."
            raise InvalidRequest(message, param=f"input[{index}]", code="invalid_value")
    return items


def check_members(values: list[Any], path: str) -> None:
    """Reject items that hold too many parts, tools or values of arguments together."""
    parts = tools = 0
    arguments: list[str] = []
    for value in values:
        if type(value) is dict:
            members = cast("JsonObject", value)
            for content in (members.get("content"), members.get("output")):
                parts += len(cast("list[Any]", content)) if type(content) is list else 0
            declared: object = members.get("tools")
            tools += len(cast("list[Any]", declared)) if type(declared) is list else 0
            if type(text := members.get("arguments")) is str:
                arguments.append(text)
    check_texts(arguments, path)
    check_count(parts, MAX_PARTS, path, "content parts")
    check_count(tools, MAX_DECLARED_TOOLS, path, "tools")


def parse_item(value: object, definitions: Definitions, path: str) -> Item:
    """One item. The tools that it declares are checked like those of the request."""
    check_nesting(value, path)
    body = as_object(value, path)
    kind = _kind(body, path)
    body = _check_id(body, kind, path)
    if kind in ITEM_TYPES:
        normal = _NORMALISE.get(kind, _as_it_is)(body, path)
        item = convert({**normal, "type": kind}, ITEM_TYPES[kind], path)
        if isinstance(item, AdditionalTools | ToolSearchOutput):
            parse_tools(item.tools, definitions, f"{path}.tools")
        return item
    if kind in KNOWN_ITEMS or ":" in kind:  # `slug:type` is Open Responses' way to extend
        return OpaqueItem(kind, body)
    message = f"Invalid value for '{path}.type': '{kind}' is not an item type of the Responses API."
    raise InvalidRequest(message, param=f"{path}.type", code="invalid_value")


def _check_id(body: JsonObject, kind: str, path: str) -> JsonObject:
    """Check the id: a string that fits into an index. An empty id is removed."""
    given = body.get("id")
    if given is None:
        return body
    given = convert(given, str, f"{path}.id")
    if len(given) > MAX_ID_CHARACTERS:
        message = f"'{path}.id' is too long; at most {MAX_ID_CHARACTERS} characters are accepted."
        raise InvalidRequest(message, param=f"{path}.id", code="string_above_max_length")
    if given or kind == "item_reference":
        return body
    return {name: value for name, value in body.items() if name != "id"}


def _kind(body: JsonObject, path: str) -> str:
    kind = body.get("type")
    if kind is None and "role" in body:
        return "message"
    if kind is None and body.keys() == {"id"}:
        return "item_reference"
    if kind is None:
        raise missing(f"{path}.type", "An item is a message (role and content) or has a type.")
    return convert(kind, str, f"{path}.type")


def _as_it_is(body: JsonObject, _path: str) -> JsonObject:
    return body


def _message(body: JsonObject, path: str) -> JsonObject:
    # A replayed assistant message may have no content, which is the same as an empty one.
    content: object = body.get("content", [] if body.get("role") == "assistant" else None)
    if content is None:
        raise missing(f"{path}.content")
    text_type = "output_text" if body.get("role") == "assistant" else "input_text"
    return {**body, "content": _parts(content, text_type, f"{path}.content")}


def _parts(content: object, text_type: str, path: str) -> object:
    if not isinstance(content, list):
        return content
    parts: list[JsonObject] = []
    for index, value in enumerate(cast("list[object]", content)):
        part = as_object(value, f"{path}[{index}]")
        if part.get("type") == "text":
            part["type"] = text_type
        if part.get("type") == "input_image" and isinstance(part.get("image_url"), dict):
            # The chat-completions spelling: {"image_url": {"url": …, "detail": …}}.
            part = {**part, **_chat_image(cast("JsonObject", part["image_url"]))}
        parts.append(part)
    return parts


def _chat_image(image: JsonObject) -> JsonObject:
    detail = {"detail": image["detail"]} if image.get("detail") is not None else {}
    return {"image_url": image.get("url"), **detail}


def _call(body: JsonObject, _path: str) -> JsonObject:
    arguments = body.get("arguments", "{}")
    return {**body, "arguments": arguments if isinstance(arguments, str) else _json(arguments)}


def _output(body: JsonObject, path: str) -> JsonObject:
    if "output" not in body:
        raise missing(f"{path}.output")
    output: object = body["output"]
    if isinstance(output, list):
        return {**body, "output": _parts(cast("list[object]", output), "input_text", f"{path}.output")}
    return {**body, "output": output if isinstance(output, str) else _json(output)}


def _reasoning(body: JsonObject, _path: str) -> JsonObject:
    return {"summary": [], **body}


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


class _ShellAction(Struct):
    commands: list[str]
    timeout_ms: int | None = None
    max_output_length: int | None = None


class _LocalShellAction(Struct):
    command: list[str]
    env: dict[str, str] = {}
    timeout_ms: int | None = None
    user: str | None = None
    working_directory: str | None = None


class _Operation(Struct):
    type: Literal["create_file", "update_file", "delete_file"]
    path: str
    diff: str | None = None


class _ComputerAction(Struct):
    type: str


class _Outcome(Struct):
    type: Literal["exit", "timeout"]
    exit_code: int | None = None


class _ShellResult(Struct):
    stdout: str = ""
    stderr: str = ""
    outcome: _Outcome | None = None


class _Screenshot(Struct):
    type: str = "computer_screenshot"
    image_url: str | None = None
    file_id: str | None = None


def _additional_tools(body: JsonObject, path: str) -> JsonObject:
    return {"role": "developer", **body}


def _tool_search_call(body: JsonObject, path: str) -> JsonObject:
    arguments: object = body.get("arguments", {})
    if isinstance(arguments, str):
        # `check_members` has counted its values.
        try:
            arguments = msgspec.json.decode(arguments)
        except msgspec.DecodeError:
            message = f"Invalid value for '{path}.arguments': it is not valid JSON. Send an object."
            raise InvalidRequest(message, param=f"{path}.arguments", code="invalid_json") from None
    check_nesting(arguments, f"{path}.arguments")
    return {**_searched(body, path), "arguments": as_object(arguments, f"{path}.arguments")}


def _tool_search_output(body: JsonObject, path: str) -> JsonObject:
    return _searched(body, path)


def _searched(body: JsonObject, path: str) -> JsonObject:
    """Complete `call_id` and `execution`: a search by the client has a call, one by the server has none."""
    call_id: object = body.get("call_id")
    execution: object = body.get("execution", "server" if call_id is None else "client")
    if execution == "client" and call_id is None:
        raise missing(f"{path}.call_id", "It connects a search by the client with its output.")
    return {**body, "call_id": call_id, "execution": execution}


def _shell_call(body: JsonObject, path: str) -> JsonObject:
    convert(required(body, "action", path), _ShellAction, f"{path}.action")
    return body


def _local_shell_call(body: JsonObject, path: str) -> JsonObject:
    action = as_object(required(body, "action", path), f"{path}.action")
    convert(action, _LocalShellAction, f"{path}.action")
    return {**body, "action": {"type": "exec", "env": {}, **action}}


def _apply_patch_call(body: JsonObject, path: str) -> JsonObject:
    operation = convert(required(body, "operation", path), _Operation, f"{path}.operation")
    if operation.type != "delete_file" and operation.diff is None:
        raise missing(f"{path}.operation.diff")
    return body


def _computer_call(body: JsonObject, path: str) -> JsonObject:
    if "action" in body:
        convert(body["action"], _ComputerAction, f"{path}.action")
    elif "actions" in body:
        convert(body["actions"], list[_ComputerAction], f"{path}.actions")
    else:
        raise missing(f"{path}.action")
    return {"pending_safety_checks": [], **body}


def _shell_call_output(body: JsonObject, path: str) -> JsonObject:
    results = convert(required(body, "output", path), list[Any], f"{path}.output")
    check_length(results, MAX_RESULTS, f"{path}.output", "results")
    for index, result in enumerate(results):
        where = f"{path}.output[{index}]"
        convert(as_object(result, where), _ShellResult, where)
    return body


def _computer_call_output(body: JsonObject, path: str) -> JsonObject:
    screen = as_object(required(body, "output", path), f"{path}.output")
    convert(screen, _Screenshot, f"{path}.output")
    return {**body, "output": screen}


def _local_shell_call_output(body: JsonObject, path: str) -> JsonObject:
    """Some clients send the call id as `id`."""
    output: object = required(body, "output", path)
    text = output if isinstance(output, str) else msgspec.json.encode(output).decode()
    if "call_id" in body:
        return {**body, "output": text}
    if "id" not in body:
        raise missing(f"{path}.call_id")
    members = {name: value for name, value in body.items() if name != "id"}
    return {**members, "call_id": body["id"], "output": text}


TOOL_ITEM_FORMS: Mapping[str, Callable[[JsonObject, str], JsonObject]] = {
    "additional_tools": _additional_tools,
    "tool_search_call": _tool_search_call,
    "tool_search_output": _tool_search_output,
    "shell_call": _shell_call,
    "shell_call_output": _shell_call_output,
    "local_shell_call": _local_shell_call,
    "local_shell_call_output": _local_shell_call_output,
    "apply_patch_call": _apply_patch_call,
    "computer_call": _computer_call,
    "computer_call_output": _computer_call_output,
}
"""By type of item: normalise it, or raise `InvalidRequest`."""


_NORMALISE = {
    "message": _message,
    "function_call": _call,
    "function_call_output": _output,
    "custom_tool_call_output": _output,
    "reasoning": _reasoning,
    **TOOL_ITEM_FORMS,
}
