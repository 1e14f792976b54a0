"""Outputs of any kind as outputs of functions: text and images."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import msgspec

from antiphon.protocol.content import InputImage, JsonObject
from antiphon.protocol.items import CustomToolCallOutput, FunctionCallOutput, OutputOfCall, ToolOutput
from antiphon.protocol.tool_items import (
    ApplyPatchCallOutput,
    ComputerCallOutput,
    LocalShellCallOutput,
    ShellCallOutput,
    ToolSearchOutput,
)
from antiphon.turn.deferred_servers import found_keys

_NO_NAMES: Mapping[str, str] = {}
CUT_OFF = "The call was cut off: its outcome is unknown."
NOTHING_FOUND = "No tools were found."


def call_output(
    output: OutputOfCall, commands: Sequence[str] = (), names: Mapping[str, str] = _NO_NAMES
) -> ToolOutput:
    """The output of the call's function form. `commands`: those of a shell call. `names`: the model's names
    of MCP tools, by key."""
    match output:
        case FunctionCallOutput() | CustomToolCallOutput():
            return output.output
        case ShellCallOutput():
            cut_off = output.status == "incomplete" and not output.output
            return CUT_OFF if cut_off else _shell(output.output, commands)
        case LocalShellCallOutput():
            return output.output
        case ApplyPatchCallOutput():
            outcome = "The patch was applied." if output.status == "completed" else "The patch failed."
            return "\n".join(filter(None, [outcome, output.output or ""]))
        case ComputerCallOutput():
            return _screen(output.output)
        case ToolSearchOutput():
            return _found(output.tools, names)


def tool_names(tools: Sequence[JsonObject], known: Mapping[str, str] = _NO_NAMES) -> list[str]:
    """The names of declared tools, with those in namespaces. `known`: the model's names of MCP tools."""
    names: list[str] = []
    for tool in tools:
        if tool.get("type") == "mcp" and (keys := found_keys(tool)):
            names += [known.get(key, key.rpartition("/")[2]) for key in keys]
            continue
        name = str(tool.get("name") or tool.get("type") or "")
        inner: object = tool.get("tools")
        if isinstance(inner, list):
            names += [f"{name}.{member}" for member in tool_names(cast("list[JsonObject]", inner))]
        else:
            names.append(name)
    return names


def _shell(results: Sequence[JsonObject], commands: Sequence[str]) -> str:
    named = len(results) == len(commands) and len(results) > 1
    lines: list[str] = []
    for index, result in enumerate(results):
        if named:
            lines.append(f"$ {commands[index]}")
        lines += [str(result["stdout"])] if result.get("stdout") else []
        lines += [f"[stderr]\n{result['stderr']}"] if result.get("stderr") else []
        lines.append(_ending(result.get("outcome")))
    return "\n".join(line.rstrip("\n") for line in lines if line) or "[no output]"


def _ending(outcome: Any) -> str:
    if not isinstance(outcome, dict):
        return ""
    ended = cast("JsonObject", outcome)
    return "[timed out]" if ended.get("type") == "timeout" else f"[exit code {ended.get('exit_code')}]"


def _screen(output: JsonObject) -> ToolOutput:
    """The screenshot; anything else that a client sends instead, as JSON."""
    image_url, file_id = output.get("image_url"), output.get("file_id")
    if image_url is None and file_id is None:
        return msgspec.json.encode(output).decode()
    return [InputImage(image_url=image_url, file_id=file_id, detail=output.get("detail"))]


def _found(tools: Sequence[JsonObject], known: Mapping[str, str]) -> str:
    return (
        f"These tools can be called now: {', '.join(tool_names(tools, known))}." if tools else NOTHING_FOUND
    )
