"""Items of the tools that a client runs, read liberally and checked: what a model is to be shown of them must
be there and be of its type. What else a client keeps in them travels along."""

from collections.abc import Callable, Mapping
from typing import Any, Literal

import msgspec
from msgspec import Struct

from antiphon.errors import InvalidRequest
from antiphon.protocol.content import JsonObject
from antiphon.protocol.parse import as_object, convert, missing, required
from antiphon.protocol.parse_tools import parse_tools


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


def _declares(body: JsonObject, path: str) -> JsonObject:
    """Tools in an item are checked like those beside the conversation."""
    tools = convert(required(body, "tools", path), list[Any], f"{path}.tools")
    parse_tools(tools, f"{path}.tools")
    return body


def _additional_tools(body: JsonObject, path: str) -> JsonObject:
    return {"role": "developer", **_declares(body, path)}


def _tool_search_call(body: JsonObject, path: str) -> JsonObject:
    arguments: object = body.get("arguments", {})
    if isinstance(arguments, str):
        try:
            arguments = msgspec.json.decode(arguments)
        except msgspec.DecodeError:
            message = f"Invalid value for '{path}.arguments': it is not valid JSON. Send an object."
            raise InvalidRequest(message, param=f"{path}.arguments", code="invalid_json") from None
    return {**_searched(body, path), "arguments": as_object(arguments, f"{path}.arguments")}


def _tool_search_output(body: JsonObject, path: str) -> JsonObject:
    return _searched(_declares(body, path), path)


def _searched(body: JsonObject, path: str) -> JsonObject:
    """Who searched: a client has a call to answer, a server has none."""
    call_id: object = body.get("call_id")
    execution: object = body.get("execution", "server" if call_id is None else "client")
    if execution == "client" and call_id is None:
        raise missing(f"{path}.call_id", "A search by the client is tied to its output by it.")
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
    for index, result in enumerate(results):
        where = f"{path}.output[{index}]"
        convert(as_object(result, where), _ShellResult, where)
    return body


def _computer_call_output(body: JsonObject, path: str) -> JsonObject:
    screen = as_object(required(body, "output", path), f"{path}.output")
    convert(screen, _Screenshot, f"{path}.output")
    return {**body, "output": screen}


def _local_shell_call_output(body: JsonObject, path: str) -> JsonObject:
    """Some clients tie it to its call by `id`; an item has an id of its own."""
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
"""By type of item: what makes the one form that is stored, or says what is wrong."""
