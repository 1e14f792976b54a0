"""Tools with inputs defined by Anthropic, which the client runs: shown to any model as functions.

Their names and inputs are those of that API; the descriptions are Antiphon's.
"""

from msgspec import Struct

from antiphon.protocol.content import JsonObject
from antiphon.protocol.parse import convert
from antiphon.protocol.tools import FunctionTool, ToolName

_TEXT: JsonObject = {"type": "string"}
_WHOLE: JsonObject = {"type": "integer"}
_POINT: JsonObject = {"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 2}


def _object(properties: JsonObject, *required: str) -> JsonObject:
    return {"type": "object", "properties": properties, "required": list(required)}


_COMMANDS = ("view", "create", "str_replace", "insert")
_BASH = _object({"command": _TEXT, "restart": {"type": "boolean"}})
_EDITOR_MEMBERS: JsonObject = {
    "path": {**_TEXT, "description": "Absolute path of the file or folder."},
    "file_text": {**_TEXT, "description": "For create: the whole content."},
    "old_str": {**_TEXT, "description": "For str_replace: the text to replace; it must occur exactly once."},
    "new_str": {**_TEXT, "description": "For str_replace: what takes its place."},
    "insert_line": {
        **_WHOLE,
        "description": "For insert: the line before the text; 0: at the top.",
    },
    "insert_text": {**_TEXT, "description": "For insert: the text."},
    "view_range": {**_POINT, "description": "For view: first and last line; -1: to the end."},
}
_MEMORY = _object(
    {
        "command": {
            "type": "string",
            "enum": ["view", "create", "str_replace", "insert", "delete", "rename"],
        },
        **_EDITOR_MEMBERS,
        "old_path": {**_TEXT, "description": "For rename: the path now."},
        "new_path": {**_TEXT, "description": "For rename: the path afterwards."},
    },
    "command",
)
_ACTIONS = (
    "key", "type", "mouse_move", "left_click", "left_click_drag", "right_click", "middle_click",
    "double_click", "triple_click", "left_mouse_down", "left_mouse_up", "scroll", "hold_key", "wait", "zoom",
    "screenshot", "cursor_position",
)  # fmt: skip
_COMPUTER = _object(
    {
        "action": {"type": "string", "enum": list(_ACTIONS)},
        "coordinate": {**_POINT, "description": "x and y in pixels, from the top left corner."},
        "start_coordinate": {**_POINT, "description": "For left_click_drag: where it begins."},
        "text": {**_TEXT, "description": "The keys to press, or the text to type."},
        "scroll_direction": {"type": "string", "enum": ["up", "down", "left", "right"]},
        "scroll_amount": _WHOLE,
        "duration": {"type": "number", "description": "Seconds, for hold_key and wait."},
        "region": {"type": "array", "items": {"type": "integer"}, "description": "For zoom: x0, y0, x1, y1."},
    },
    "action",
)


class _Editor(Struct, frozen=True):
    """The only tool whose name is part of its type."""

    name: ToolName = "str_replace_based_edit_tool"


def client_tool(kind: str, body: JsonObject, path: str) -> FunctionTool | None:
    """The function form of a tool of this type; None if the client does not run it."""
    family = kind.rpartition("_")[0]
    match family:
        case "bash":
            text = "Runs a command in a shell session that stays open. `restart` begins a new session."
            return FunctionTool(name="bash", description=text, parameters=_BASH)
        case "text_editor":
            return _editor(convert(body, _Editor, path).name)
        case "memory":
            text = "Views and edits files under /memories, which are kept between conversations."
            return FunctionTool(name="memory", description=text, parameters=_MEMORY)
        case "computer":
            width, height = body.get("display_width_px"), body.get("display_height_px")
            text = (
                f"Uses mouse, keyboard and screen of a computer. The display has {width} x {height} pixels."
            )
            return FunctionTool(name="computer", description=text, parameters=_COMPUTER)
        case _:
            return None


def _editor(name: str) -> FunctionTool:
    members, commands = dict(_EDITOR_MEMBERS), [*_COMMANDS]
    if name == "str_replace_editor":  # the older one: it can take back what it did, and inserts `new_str`
        commands.append("undo_edit")
        members.pop("insert_text")
        members["new_str"] = {**_TEXT, "description": "What takes its place; for insert: the text."}
    members["command"] = {"type": "string", "enum": commands}
    text = "Views, creates and edits text files."
    return FunctionTool(name=name, description=text, parameters=_object(members, "command", "path"))
