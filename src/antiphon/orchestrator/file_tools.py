"""The files of the client's editor: how the model sees them, and the tools with which it proposes changes.

Nothing is written here (SYS-004): changes are collected in the file bundle of the response, and the client
applies them.
"""

import re
import unicodedata
from typing import Annotated, Literal, NamedTuple

import msgspec
from msgspec import Meta

from antiphon.errors import InvalidRequest, NotFound
from antiphon.orchestrator.models import ActiveFile, AgentExecuteRequest, FileBundleItem
from antiphon.orchestrator.modes import EDITING_KEY
from antiphon.orchestrator.tool import ToolContext, ToolResult
from antiphon.tools.declaration import Run, ServerTool

_FENCE = re.compile(r"`{3,}")


def active_path(file: ActiveFile) -> str:
    """The path that names a file: relative, with forward slashes."""
    return (file.relative_path or file.file_name).replace("\\", "/").removeprefix("./")


def find_active(request: AgentExecuteRequest, path: str) -> ActiveFile | None:
    return next((file for file in request.active_files if active_path(file) == path), None)


class ActiveFilesBlock(NamedTuple):
    """The block, and the paths of the files that did not fit."""

    text: str
    left_out: list[str]


def active_files_block(request: AgentExecuteRequest, limit: int) -> ActiveFilesBlock:
    """The `[ACTIVE FILES]` block, with at most `limit` characters of files, fenced as chunks are."""
    parts: list[str] = []
    left_out: list[str] = []
    room = limit
    for file in request.active_files:
        if len(file.contents) > room:
            left_out.append(active_path(file))
            continue
        room -= len(file.contents)
        parts.append(_part(len(parts) + 1, file))
    return ActiveFilesBlock("\n".join(["[ACTIVE FILES]\n", *parts]) if parts else "", left_out)


def _part(number: int, file: ActiveFile) -> str:
    fence = "`" * max([3, *(len(run) + 1 for run in _FENCE.findall(file.contents))])
    language = _one_line(file.language).replace("`", "") or "plaintext"
    lines = [
        f"=== FILE {number} ===",
        f"Path: {_one_line(active_path(file))}",
        f"Language: {language}",
        f"{fence}{language}",
        file.contents.removesuffix("\n"),
        f"{fence}\n",
    ]
    return "\n".join(lines)


def _one_line(text: str) -> str:
    return " ".join(text.splitlines()).strip()


MAX_PATH_CHARS = 1_024
_DRIVE = re.compile(r"[A-Za-z]:")
_JOINED = re.compile(r"(?<=[^\x00-\x7f])[\u200c\u200d](?=[^\x00-\x7f])")
"""A joiner or non-joiner between two non-ASCII characters, where scripts and emoji need it."""

Path = Annotated[
    str, Meta(description="Relative to the root, with forward slashes, for example src/main.py.")
]


def file_tools() -> list[ServerTool]:
    """Write, edit, delete and read. They only propose changes, so none has side effects."""
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
    """Create a file, or replace all of its contents."""
    path = checked_path(path)
    action = "create" if find_active(context.request, path) is None else "replace"
    return _proposed(FileBundleItem(action=action, path=path, contents=contents), written=len(contents))


def edit_file(
    path: Path,
    find: Annotated[str, Meta(description="The text to look for, exactly as it stands in the file.")],
    replace: Annotated[str, Meta(description="The text to put in its place.")],
    context: ToolContext,
    limit: Annotated[Literal["once", "all"], Meta(description="The first place, or all.")] = "once",
) -> ToolResult:
    """Replace text in a file that is open, or that was written earlier."""
    path = checked_path(path)
    before = _contents(path, context)
    if not find:
        raise InvalidRequest("find is empty: give the text to replace.", param="find")
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
    """Check that a path is relative, in POSIX form, and stays below its root."""
    if not path.strip() or len(path) > MAX_PATH_CHARS:
        raise InvalidRequest(f"A path has 1 to {MAX_PATH_CHARS} characters.", param="path")
    if "\\" in path:
        raise InvalidRequest(f"The path {path!r} must have forward slashes only, no '\\'.", param="path")
    if _has_invisible(path):
        raise InvalidRequest(f"The path {path!a} contains invisible characters.", param="path")
    if path.startswith(("/", "~")) or _DRIVE.match(path):
        raise InvalidRequest(f"The path '{path}' must be relative.", param="path")
    if any(part.strip() in ("", ".", "..") for part in path.split("/")):
        raise InvalidRequest(f"The path '{path}' must not contain empty parts, '.' or '..'.", param="path")
    return path


def _has_invisible(path: str) -> bool:
    """Whether a path has invisible characters, with which it may look like another one."""
    return any(unicodedata.category(char) in ("Cc", "Cf", "Zl", "Zp") for char in _JOINED.sub("", path))


def _contents(path: str, context: ToolContext) -> str:
    """The current contents: as changed in this request, else as open in the editor."""
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


def _proposed(item: FileBundleItem, **members: object) -> ToolResult:
    return msgspec.structs.replace(_answer(item.path, **members), files=(item,))


def _answer(path: str, **members: object) -> ToolResult:
    return ToolResult(output=msgspec.json.encode({"path": path, **members}).decode())


_WRITE_USAGE = (
    "Use write_file to propose a new file, or a complete new version of a file. Give all of its contents; "
    "never shorten them. The user reviews the change and decides."
)
_EDIT_USAGE = (
    "Use edit_file for small changes in a file that is open or that you have written before. The text to "
    "find must stand in the file exactly so; take enough of it that it is unique."
)
_DELETE_USAGE = "Use delete_file to propose that a file is deleted. Do it only if the user wants that."
_READ_USAGE = "Use read_active_file to see an open file that is not shown to you, or your changes to it."
