"""Read the arguments that a model wrote for a function form as a call of the tool's own kind.

Readers are liberal: near misses of the schema are accepted. Unreadable arguments become a well-formed call
with whatever could be read, and a `fault`.
"""

from typing import Any, NamedTuple, cast

import msgspec

from antiphon.protocol.content import JsonObject
from antiphon.protocol.tools import ComputerUsePreviewTool
from antiphon.turn.function_forms.descriptions import OPERATIONS
from antiphon.turn.function_forms.input_text import InputText
from antiphon.turn.tools import TurnTool

_ENDINGS = ("}", '"}', "]}", '"]}', "}]}", '"}]}')
"""Endings that may complete JSON that was cut off."""
_SHELL_NUMBERS = ("timeout_ms", "max_output_length")
_LOCAL_SHELL_TEXTS = ("working_directory", "user")


class Read(NamedTuple):
    """The member of the item that describes the call, and why it must not be run; empty: it may."""

    body: JsonObject
    fault: str = ""


def read_shell(arguments: str) -> Read:
    """The `action` of a shell call."""
    body, fault = read_object(arguments)
    commands = _texts(body.get("commands", body.get("command")))
    if not body and _is_plain(arguments):
        commands, fault = [arguments.strip()], ""
    if not commands:
        fault = fault or "'commands' must be a list of command lines"
    numbers = {name: body[name] if isinstance(body.get(name), int) else None for name in _SHELL_NUMBERS}
    return Read({"commands": commands, **numbers}, fault)


def read_local_shell(arguments: str) -> Read:
    """The `action` of a local shell call."""
    body, fault = read_object(arguments)
    given = body.get("command", body.get("commands"))
    if not body and _is_plain(arguments):
        given, fault = arguments.strip(), ""
    command = ["bash", "-lc", given] if isinstance(given, str) and given else _texts(given)
    if not command:
        fault = fault or "'command' must be a list: the program and its arguments"
    env = cast("JsonObject", body["env"]) if isinstance(body.get("env"), dict) else {}
    action: JsonObject = {
        "type": "exec",
        "command": command,
        "env": {name: value for name, value in env.items() if isinstance(value, str)},
    }
    action |= {name: body[name] for name in _LOCAL_SHELL_TEXTS if isinstance(body.get(name), str)}
    if isinstance(body.get("timeout_ms"), int):
        action["timeout_ms"] = body["timeout_ms"]
    return Read(action, fault)


def read_patch(arguments: str) -> Read:
    """The `operation` of an apply_patch call."""
    body, fault = read_object(arguments)
    if isinstance(body.get("operation"), dict):
        body = cast("JsonObject", body["operation"])
    kind, path, diff = body.get("type"), body.get("path"), body.get("diff")
    if kind not in OPERATIONS:
        fault = fault or f"'type' must be one of {', '.join(OPERATIONS)}"
    if not isinstance(path, str) or not path:
        fault = fault or "'path' must name a file"
    if kind != "delete_file" and not isinstance(diff, str):
        fault = fault or "'diff' is missing"
    operation: JsonObject = {
        "type": kind if kind in OPERATIONS else "update_file",
        "path": path if isinstance(path, str) else "",
    }
    if operation["type"] != "delete_file":
        operation["diff"] = diff if isinstance(diff, str) else ""
    return Read(operation, fault)


def read_computer(arguments: str, tool: TurnTool) -> Read:
    """The members `action` or `actions` of a computer call, in the form that the tool has."""
    body, fault = read_object(arguments)
    given: object = body.get("actions", body.get("action", body if "type" in body else None))
    several = cast("list[Any]", given) if isinstance(given, list) else [given]
    actions = [
        cast("JsonObject", action)
        for action in several
        if isinstance(action, dict) and isinstance(cast("JsonObject", action).get("type"), str)
    ]
    if not actions:
        fault = fault or "'actions' must be a list of objects with a 'type'"
        actions = [{"type": "screenshot"}]
    if isinstance(tool.declared, ComputerUsePreviewTool) and len(actions) == 1:
        return Read({"action": actions[0]}, fault)
    return Read({"actions": actions}, fault)


def read_checks(arguments: str) -> list[JsonObject]:
    """The safety checks that a person must acknowledge before a computer call is run. Only a server that
    takes computer tools natively sends them."""
    given: object = read_object(arguments)[0].get("pending_safety_checks")
    entries = cast("list[Any]", given) if isinstance(given, list) else []
    return [cast("JsonObject", entry) for entry in entries if isinstance(entry, dict)]


def read_search(arguments: str) -> Read:
    """The `arguments` of a tool search, which has parameters of its own."""
    body, fault = read_object(arguments)
    if not body and _is_plain(arguments):
        return Read({"query": arguments.strip()})
    return Read(body, fault)


def read_text(arguments: str) -> str:
    """The free text of a custom call."""
    text = InputText()
    text.feed(arguments)
    text.end(arguments)
    return text.text


def read_object(text: str) -> tuple[JsonObject, str]:
    """The object, and what is wrong with it. JSON that was cut off is completed if possible."""
    fault = _fault(text)
    if not fault:
        return _decode(text) or {}, ""
    cut = text.rstrip().removesuffix("\\")
    for ending in _ENDINGS:
        found = _decode(cut + ending)
        if found is not None:
            return found, fault
    return {}, fault


def _fault(text: str) -> str:
    if not text.strip():
        return ""
    return "" if _decode(text) is not None else "the arguments are not a JSON object"


def _decode(text: str) -> JsonObject | None:
    try:
        found = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None
    return cast("JsonObject", found) if isinstance(found, dict) else None


def _is_plain(text: str) -> bool:
    """Whether this is plain text instead of JSON."""
    content = text.strip()
    return bool(content) and content[0] not in '{["'


def _texts(given: object) -> list[str]:
    if isinstance(given, str):
        return [given] if given else []
    entries = cast("list[Any]", given) if isinstance(given, list) else []
    return [entry for entry in entries if isinstance(entry, str)]
