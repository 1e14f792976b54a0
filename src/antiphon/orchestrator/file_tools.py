"""Tools with which a model proposes changes to files (SYS-004). Nothing is written here: the changes are
collected in the file bundle of the response, and the client applies them.
"""

import re
import unicodedata
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from antiphon.errors import InvalidRequest, NotFound
from antiphon.orchestrator.active_files import active_path, find_active
from antiphon.orchestrator.models import FileBundleItem
from antiphon.orchestrator.modes import EDITING_KEY
from antiphon.orchestrator.tool import ToolContext, ToolResult
from antiphon.tools.declaration import Run, ServerTool

MAX_PATH = 1_024
_DRIVE = re.compile(r"[A-Za-z]:")
_JOINED = re.compile(r"(?<=[^\x00-\x7f])[\u200c\u200d](?=[^\x00-\x7f])")
"""What joins letters or emoji, or keeps them apart, where there is something to join."""

Path = Annotated[
    str, Meta(description="Relative to the root, with forward slashes, for example src/main.py.")
]


def file_tools() -> list[ServerTool]:
    """Write, edit, delete and read. None of them has side effects: they only propose."""
    return [
        _tool(write_file, _WRITE_USAGE),
        _tool(edit_file, _EDIT_USAGE),
        _tool(delete_file, _DELETE_USAGE),
        _tool(read_active_file, _READ_USAGE),
    ]


def _tool(run: Run, usage: str) -> ServerTool:
    return ServerTool.from_function(run, usage=usage, side_effects=False, modes=frozenset({EDITING_KEY}))


def write_file(
    path: Path,
    contents: Annotated[str, Meta(description="All of the file, from its first line to its last.")],
    context: ToolContext,
) -> ToolResult:
    """Create a file, or replace it as a whole."""
    path = checked_path(path)
    action = "create" if find_active(context.request, path) is None else "replace"
    return _proposed(FileBundleItem(action=action, path=path, contents=contents), written=len(contents))


def edit_file(
    path: Path,
    find: Annotated[str, Meta(description="The text to look for, exactly as it stands in the file.")],
    replace: Annotated[str, Meta(description="What shall stand there instead.")],
    context: ToolContext,
    limit: Annotated[Literal["once", "all"], Meta(description="The first place, or all.")] = "once",
) -> ToolResult:
    """Replace some text in a file that is open, or that was written before."""
    path = checked_path(path)
    before = _contents(path, context)
    if not find:
        raise InvalidRequest("Say which text shall be replaced: find is empty.", param="find")
    count = min(before.count(find), 1) if limit == "once" else before.count(find)
    if not count:
        return _answer(path, replaced=0, note="The text was not found, and nothing was changed.")
    contents = before.replace(find, replace, count)
    return _proposed(FileBundleItem(action="replace", path=path, contents=contents), replaced=count)


def delete_file(path: Path) -> ToolResult:
    """Delete a file."""
    path = checked_path(path)
    return _proposed(FileBundleItem(action="delete", path=path), deleted=True)


def read_active_file(path: Path, context: ToolContext) -> str:
    """Read a file that is open in the editor of the user, with the changes that were made so far."""
    return _contents(checked_path(path), context)


def checked_path(path: str) -> str:
    """The path, if it is relative, in POSIX form, and does not leave its root."""
    if not path.strip() or len(path) > MAX_PATH:
        raise InvalidRequest(f"A path has 1 to {MAX_PATH} characters.", param="path")
    if "\\" in path:
        raise InvalidRequest(f"The path {path!r} must have forward slashes only, no '\\'.", param="path")
    if _is_disguised(path):
        raise InvalidRequest(f"The path {path!a} has characters in it that nobody can see.", param="path")
    if path.startswith(("/", "~")) or _DRIVE.match(path):
        raise InvalidRequest(f"The path '{path}' must be relative.", param="path")
    if any(part.strip() in ("", ".", "..") for part in path.split("/")):
        raise InvalidRequest(f"The path '{path}' must not have empty parts, '.' or '..' in it.", param="path")
    return path


def _is_disguised(path: str) -> bool:
    """Whether a path looks different from what it is, or like another one."""
    return any(unicodedata.category(char) in ("Cc", "Cf", "Zl", "Zp") for char in _JOINED.sub("", path))


def _contents(path: str, context: ToolContext) -> str:
    """The file as it is now: as it was changed, else as it is open in the editor."""
    changed = context.files.get(path)
    if changed is not None:
        if changed.contents is None:
            raise NotFound(f"The file '{path}' was deleted.", param="path")
        return changed.contents
    file = find_active(context.request, path)
    if file is None:
        known = ", ".join(map(active_path, context.request.active_files)) or "none"
        raise NotFound(f"The file '{path}' is not open. Open files: {known}.", param="path")
    return file.contents


def _proposed(item: FileBundleItem, **told: object) -> ToolResult:
    return msgspec.structs.replace(_answer(item.path, **told), files=(item,))


def _answer(path: str, **told: object) -> ToolResult:
    return ToolResult(output=msgspec.json.encode({"path": path, **told}).decode())


_WRITE_USAGE = (
    "Use write_file to propose a new file, or a whole new version of a file. Give all of its contents; never "
    "shorten them. The user sees the change and decides about it."
)
_EDIT_USAGE = (
    "Use edit_file for small changes in a file that is open or that you have written before. The text to "
    "find must stand in the file exactly so; take enough of it that it is unique."
)
_DELETE_USAGE = "Use delete_file to propose that a file is deleted. Do it only if the user wants that."
_READ_USAGE = "Use read_active_file to see an open file that is not shown to you, or your changes to it."
