"""The files that are open in the client's editor: as the model is shown them, and as tools find them."""

import re
from typing import NamedTuple

from antiphon.orchestrator.models import ActiveFile, AgentExecuteRequest

_FENCE = re.compile(r"`{3,}")


def active_path(file: ActiveFile) -> str:
    """The path by which a file is called: relative, with forward slashes."""
    return (file.relative_path or file.file_name).replace("\\", "/").removeprefix("./")


def find_active(request: AgentExecuteRequest, path: str) -> ActiveFile | None:
    """The active file of this path."""
    return next((file for file in request.active_files if active_path(file) == path), None)


class ActiveFilesBlock(NamedTuple):
    """The block, and the paths of the files that did not fit into it."""

    text: str
    left_out: list[str]


def active_files_block(request: AgentExecuteRequest, limit: int) -> ActiveFilesBlock:
    """The `[ACTIVE FILES]` block: up to so many characters of files, fenced as chunks are."""
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
