"""A file bundle below a folder: what it would change, whether that can be done, and how it is shown."""

import difflib
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath

from msgspec import Struct
from rich.text import Text

from antiphon.cli.agent_files import read_text
from antiphon.cli.failure import Failure
from antiphon.cli.terminal import errors, harmless
from antiphon.orchestrator.models import FileBundle, FileBundleItem

MAX_NAME = 255
"""Bytes of a name that every usual file system takes."""
MAX_PATH = 4_000
"""Bytes of a whole path."""
_COLOURS = {"+": "green", "-": "red", "@": "cyan"}


class FileChange(Struct, frozen=True, kw_only=True):
    """One file: what it holds now, and what it shall hold; None: there is no file."""

    path: Path
    """What is written: where a link leads. What is deleted: the link itself."""
    name: str
    """As the agent calls it."""
    old: str | None
    new: str | None
    link: str | None = None
    """Where the name leads, if it is a link."""
    unseen: bool = False
    """Whether something stands there that the agent was not shown."""

    def title(self) -> str:
        """What is done to which file, and what somebody should know about it."""
        title = f"{self._action()} {self.name}"
        if self.link is not None:
            title += f" -> {self.link} ({'only the link' if self.new is None else 'what it leads to'})"
        return f"{title} (the agent has not seen what stands there)" if self.unseen else title

    def _action(self) -> str:
        if self.new is None:
            return "delete"
        if self.old is None:
            return "create"
        return "overwrite" if self.unseen else "change"

    def diff(self) -> Iterator[str]:
        """The lines of a unified diff."""
        return difflib.unified_diff(
            (self.old or "").splitlines(keepends=True),
            (self.new or "").splitlines(keepends=True),
            "/dev/null" if self.old is None else f"a/{self.name}",
            "/dev/null" if self.new is None else f"b/{self.name}",
        )


def changes_of(bundle: FileBundle, root: Path, shown: Mapping[str, str]) -> list[FileChange]:
    """What the bundle would change below `root`; what cannot be done is refused as a whole.

    `shown` is what the agent was shown of each path.
    """
    base = PurePosixPath(bundle.root)
    found = [_change(item, base / item.path, root.resolve(), shown.get(item.path)) for item in bundle.files]
    changes = [change for change in found if change.old != change.new]
    _check_together(changes)
    return changes


def _change(item: FileBundleItem, name: PurePosixPath, root: Path, shown: str | None) -> FileChange:
    place = _place(name, root)
    link = os.readlink(place) if place.is_symlink() else None
    if item.action == "delete" and link is not None:
        return FileChange(path=place, name=str(name), old="", new=None, link=link)
    path = place if link is None else _led_to(place, name, root)
    _check_place(path, name)
    old = read_text(path, "The file bundle") if path.exists() else None
    new = None if item.action == "delete" else item.contents or ""
    unseen = new is not None and old is not None and old != shown
    return FileChange(path=path, name=str(name), old=old, new=new, link=link, unseen=unseen)


def _place(name: PurePosixPath, root: Path) -> Path:
    """Where a name is; only the folder's links are followed."""
    if any(len(os.fsencode(part)) > MAX_NAME for part in name.parts):
        raise _refused(f"'{name}' is too long: a name has at most {MAX_NAME} bytes.")
    folder = _resolved((root / name).parent, name)
    if ".." in name.parts or not name.name or not folder.is_relative_to(root):
        raise _outside(name)
    if len(os.fsencode(folder / name.name)) > MAX_PATH:
        raise _refused(f"'{name}' is too long: a path has at most {MAX_PATH} bytes.")
    return folder / name.name


def _led_to(place: Path, name: PurePosixPath, root: Path) -> Path:
    path = _resolved(place, name)
    if not path.is_relative_to(root):
        raise _outside(name)
    return path


def _resolved(path: Path, name: PurePosixPath) -> Path:
    try:
        return path.resolve()
    except (OSError, RuntimeError):  # a circle is a RuntimeError up to Python 3.12
        raise _refused(f"'{name}' leads nowhere: its links go in a circle.") from None


def _check_place(path: Path, name: PurePosixPath) -> None:
    if path.is_dir():
        raise _refused(f"'{name}' is a folder.")
    if path.exists() and not path.is_file():
        raise _refused(f"'{name}' is no ordinary file.")
    if not next(folder for folder in path.parents if folder.exists()).is_dir():
        raise _refused(f"'{name}' would have to lie below something that is no folder.")


def _check_together(changes: Sequence[FileChange]) -> None:
    """Refuse changes that stand in each other's way."""
    names: dict[Path, str] = {}
    for change in changes:
        if change.path in names:
            raise _refused(f"'{names[change.path]}' and '{change.name}' are the same file.")
        names[change.path] = change.name
    for change in changes:
        for folder in change.path.parents:
            if folder in names:
                raise _refused(f"'{change.name}' would have to lie below the file '{names[folder]}'.")


def _outside(name: PurePosixPath) -> Failure:
    return _refused(f"'{name}' is outside of this folder.")


def _refused(reason: str) -> Failure:
    return Failure(f"The changes of the agent cannot be made: {reason} Nothing was written.")


def print_diff(changes: Sequence[FileChange]) -> None:
    """The changes, on standard error: standard output is for the answer."""
    console = errors()
    for change in changes:
        style = "bold yellow" if change.unseen or change.link is not None else "bold"
        console.print(Text(harmless(change.title()), style=style), soft_wrap=True)
        for line in change.diff():
            text = Text(harmless(line.rstrip("\n")), style=_COLOURS.get(line[0], ""))
            console.print(text, soft_wrap=True)
