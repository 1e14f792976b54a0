"""Descriptions and schemas of tools that a model may not know, as functions."""

from collections.abc import Sequence

from msgspec import UnsetType

from antiphon.protocol.content import JsonObject
from antiphon.protocol.tools import (
    ApplyPatchTool,
    ClientTool,
    ComputerTool,
    ComputerUsePreviewTool,
    CustomTool,
    FunctionTool,
    LocalShellTool,
    NamespaceTool,
    ShellTool,
    Tool,
    ToolSearchTool,
)
from antiphon.turn.function_forms.calls import INPUT

MAX_LISTED_NAMES = 60
"""Deferred tools that the description of a tool search lists; a model that knows them searches better."""

_PATCH = """\
Create, change or delete one file. 'diff' says how, line by line, without line numbers:
- create_file: every line of the new file, each with a '+' in front of it.
- update_file: one or more hunks. A hunk begins with a line '@@'; if the place is not plain from its lines, \
with '@@ ' and a line above it, such as the head of its class or function. Then come up to three unchanged \
lines, the change, and up to three unchanged lines. Every line has one sign in front: ' ' for an unchanged \
line, '-' for one that goes, '+' for one that comes. Lines with ' ' and '-' must be in the file exactly so.
- delete_file: there is no diff.
Example of an update:
@@ def greet():
     name = ask()
-    print("Hello")
+    print(f"Hello {name}")
     return name"""

_SHELL = """\
Run commands in a shell on the user's machine. Each entry of 'commands' is one command line, run by itself: \
what belongs together, such as a change of the folder, must be in one entry ('cd src && ls'). The answer has \
the output of each command and its exit code."""

_LOCAL_SHELL = """\
Run one program on the user's machine. 'command' holds the program and its arguments, one entry each; for \
pipes and other signs of the shell use ["bash", "-lc", "ls | head"]. The answer is what it printed."""

_COMPUTER = """\
Use a computer through its screen, mouse and keyboard. 'actions' are done in their order; the answer is a \
screenshot of what came of them. If you have not seen the screen yet, ask for a screenshot first. Positions \
are pixels from the upper left corner.{}"""

_SEARCH = "Search for more tools. Those that are found can be called from then on."

_ACTIONS = (
    "click", "double_click", "drag", "keypress", "move", "screenshot", "scroll", "type", "wait",
)  # fmt: skip
_INTEGER: JsonObject = {"type": "integer"}
_KEYS: JsonObject = {
    "type": "array",
    "items": {"type": "string"},
    "description": "keypress: the keys, pressed together. Mouse actions: the keys that are held meanwhile.",
}
_POINT: JsonObject = {
    "type": "object",
    "properties": {"x": _INTEGER, "y": _INTEGER},
    "required": ["x", "y"],
    "additionalProperties": False,
}


def _object(properties: JsonObject, *required: str) -> JsonObject:
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


FREE_TEXT = _object(
    {INPUT: {"type": "string", "description": "The whole input of the tool, as text."}}, INPUT
)
OPERATIONS = ("create_file", "update_file", "delete_file")
PATCH = _object(
    {
        "type": {"type": "string", "enum": list(OPERATIONS)},
        "path": {"type": "string", "description": "The path of the file."},
        "diff": {"type": "string", "description": "The change; not for delete_file."},
    },
    "type",
    "path",
)
SHELL = _object(
    {
        "commands": {"type": "array", "items": {"type": "string"}, "description": "The command lines."},
        "timeout_ms": {"type": "integer", "description": "How long they may take, in milliseconds."},
        "max_output_length": {"type": "integer", "description": "Characters of output to be returned."},
    },
    "commands",
)
LOCAL_SHELL = _object(
    {
        "command": {"type": "array", "items": {"type": "string"}, "description": "Program and arguments."},
        "env": {"type": "object", "additionalProperties": {"type": "string"}},
        "working_directory": {"type": "string"},
        "timeout_ms": {"type": "integer"},
        "user": {"type": "string"},
    },
    "command",
)
COMPUTER = _object(
    {
        "actions": {
            "type": "array",
            "items": _object(
                {
                    "type": {"type": "string", "enum": list(_ACTIONS)},
                    "x": _INTEGER,
                    "y": _INTEGER,
                    "button": {"type": "string", "enum": ["left", "right", "wheel", "back", "forward"]},
                    "keys": _KEYS,
                    "text": {"type": "string", "description": "What to type."},
                    "scroll_x": _INTEGER,
                    "scroll_y": _INTEGER,
                    "path": {"type": "array", "items": _POINT, "description": "The way of a drag."},
                },
                "type",
            ),
        }
    },
    "actions",
)
SEARCH = _object(
    {
        "query": {"type": "string", "description": "What the tool is to do."},
        "limit": {"type": "integer", "description": "How many tools to find at most."},
    },
    "query",
)


def described_client_tool(tool: ClientTool, deferred: Sequence[str] = ()) -> tuple[str, JsonObject]:
    """Description and parameters of a tool that its type identifies. `deferred`: names of tools to search
    for."""
    match tool:
        case ApplyPatchTool():
            return _PATCH, PATCH
        case ShellTool():
            return _SHELL, SHELL
        case LocalShellTool():
            return _LOCAL_SHELL, LOCAL_SHELL
        case ComputerTool():
            return _COMPUTER.format(""), COMPUTER
        case ComputerUsePreviewTool():
            size = f"{tool.display_width} x {tool.display_height} pixels"
            return _COMPUTER.format(f" The screen ({tool.environment}) has {size}."), COMPUTER
        case ToolSearchTool():
            return _search(tool, deferred)


def described_custom_tool(tool: CustomTool) -> str:
    """The description of a custom tool, with the grammar that its input must follow."""
    lines = [] if isinstance(tool.description, UnsetType) or not tool.description else [tool.description]
    if not isinstance(tool.format, UnsetType) and tool.format.type == "grammar":
        lines.append(f"The input must follow this {tool.format.syntax} grammar:\n{tool.format.definition}")
    return "\n\n".join(lines) or f"Takes free text in '{INPUT}'."


def deferred_names(tools: Sequence[Tool]) -> list[str]:
    """The names of tools that a search can find."""
    names: list[str] = []
    for tool in tools:
        if isinstance(tool, NamespaceTool):
            names += [f"{tool.name}.{member.name}" for member in tool.tools]
        elif isinstance(tool, FunctionTool | CustomTool):
            names.append(tool.name)
    return names


def _search(tool: ToolSearchTool, deferred: Sequence[str]) -> tuple[str, JsonObject]:
    given = "" if isinstance(tool.description, UnsetType) else tool.description
    if tool.by_client:
        return given or _SEARCH, SEARCH if isinstance(tool.parameters, UnsetType) else tool.parameters
    more = len(deferred) - MAX_LISTED_NAMES
    names = ", ".join(deferred[:MAX_LISTED_NAMES]) + (f" and {more} more" if more > 0 else "")
    return f"{given or _SEARCH} There are: {names}." if deferred else given or _SEARCH, SEARCH
