"""The file changes that an agent proposes: checks, a diff, and writing them.

New contents are written next to their files first; then each file is replaced at once.
"""

import difflib
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import Self

from msgspec import Struct
from rich.text import Text

from antiphon.cli.agent.inputs import read_text
from antiphon.cli.failure import Failure
from antiphon.cli.terminal import errors, printable
from antiphon.orchestrator.models import FileBundle, FileBundleItem

MAX_NAME_BYTES = 255
MAX_PATH_BYTES = 4_000
"""Limits that all common file systems accept."""
_COLOURS = {"+": "green", "-": "red", "@": "cyan"}


class FileChange(Struct, frozen=True, kw_only=True):
    """One file: its current and its new contents; None: no file."""

    path: Path
    """The path to write or delete: the target of a link that is written, the link itself if it is deleted."""
    name: str
    """The path as the agent wrote it."""
    old: str | None
    new: str | None
    link: str | None = None
    """The target, if the path is a link."""
    unseen: bool = False
    """Whether the current contents were not shown to the agent."""

    def title(self) -> str:
        """The action, the path, and warnings."""
        title = f"{self._action()} {self.name}"
        if self.link is not None:
            title += f" -> {self.link} ({'only the link' if self.new is None else 'the target of the link'})"
        return f"{title} (the agent has not seen the current contents)" if self.unseen else title

    def _action(self) -> str:
        if self.new is None:
            return "delete"
        if self.old is None:
            return "create"
        return "overwrite" if self.unseen else "change"

    def diff(self) -> Iterator[str]:
        return difflib.unified_diff(
            (self.old or "").splitlines(keepends=True),
            (self.new or "").splitlines(keepends=True),
            "/dev/null" if self.old is None else f"a/{self.name}",
            "/dev/null" if self.new is None else f"b/{self.name}",
        )


def changes_of(bundle: FileBundle, root: Path, shown: Mapping[str, str]) -> list[FileChange]:
    """The changes of the bundle below `root`; raises `Failure` if one of them is not possible.

    `shown`: the contents of each path that the agent was shown.
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
    """The path of a name. Links in its folder are resolved, the last component is not."""
    if any(len(os.fsencode(part)) > MAX_NAME_BYTES for part in name.parts):
        raise _refused(f"'{name}' is too long: a name has at most {MAX_NAME_BYTES} bytes.")
    folder = _resolved((root / name).parent, name)
    if ".." in name.parts or not name.name or not folder.is_relative_to(root):
        raise _outside(name)
    if len(os.fsencode(folder / name.name)) > MAX_PATH_BYTES:
        raise _refused(f"'{name}' is too long: a path has at most {MAX_PATH_BYTES} bytes.")
    return folder / name.name


def _led_to(place: Path, name: PurePosixPath, root: Path) -> Path:
    path = _resolved(place, name)
    if not path.is_relative_to(root):
        raise _outside(name)
    return path


def _resolved(path: Path, name: PurePosixPath) -> Path:
    try:
        return path.resolve()
    except (OSError, RuntimeError):  # a loop is a RuntimeError up to Python 3.12
        raise _refused(f"'{name}' cannot be resolved: its links form a loop.") from None


def _check_place(path: Path, name: PurePosixPath) -> None:
    if path.is_dir():
        raise _refused(f"'{name}' is a folder.")
    if path.exists() and not path.is_file():
        raise _refused(f"'{name}' is not a regular file.")
    if not next(folder for folder in path.parents if folder.exists()).is_dir():
        raise _refused(f"'{name}' would be below something that is not a folder.")


def _check_together(changes: Sequence[FileChange]) -> None:
    """Raise `Failure` for changes that exclude each other."""
    names: dict[Path, str] = {}
    for change in changes:
        if change.path in names:
            raise _refused(f"'{names[change.path]}' and '{change.name}' are the same file.")
        names[change.path] = change.name
    for change in changes:
        for folder in change.path.parents:
            if folder in names:
                raise _refused(f"'{change.name}' would be below the file '{names[folder]}'.")


def _outside(name: PurePosixPath) -> Failure:
    return _refused(f"'{name}' is outside this folder.")


def _refused(reason: str) -> Failure:
    return Failure(f"The proposed changes cannot be written: {reason} Nothing was written.")


def print_diff(changes: Sequence[FileChange]) -> None:
    """Print the changes on standard error."""
    console = errors()
    for change in changes:
        style = "bold yellow" if change.unseen or change.link is not None else "bold"
        console.print(Text(printable(change.title()), style=style), soft_wrap=True)
        for line in change.diff():
            text = Text(printable(line.rstrip("\n")), style=_COLOURS.get(line[0], ""))
            console.print(text, soft_wrap=True)


def write_changes(changes: Sequence[FileChange]) -> None:
    """Write the changes. If one fails, the error names those that were written."""
    with _Staging() as staging:
        for change in changes:
            try:
                staging.prepare(change)
            except OSError as error:
                message = f"'{change.name}' cannot be written: {error.strerror}. Nothing was written."
                raise Failure(message) from None
        for number, change in enumerate(changes):
            try:
                staging.apply(change)
            except OSError as error:
                raise Failure(_partial_failure(changes, number, error)) from None


def _partial_failure(changes: Sequence[FileChange], number: int, error: OSError) -> str:
    what = "deleted" if changes[number].new is None else "written"
    made = ", ".join(change.name for change in changes[:number]) or "nothing"
    left = ", ".join(change.name for change in changes[number:])
    return (
        f"'{changes[number].name}' cannot be {what}: {error.strerror}. Changed: {made}. Not changed: {left}."
    )


class _Staging:
    """Temporary files next to the files to write; removed on exit."""

    def __init__(self) -> None:
        self._written: dict[Path, Path] = {}
        self._folders: list[Path] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for written in self._written.values():
            written.unlink(missing_ok=True)
        for folder in reversed(self._folders):
            with suppress(OSError):  # not empty: a file was written to it
                folder.rmdir()

    def prepare(self, change: FileChange) -> None:
        """Write the new contents to a temporary file with the mode of the file."""
        if change.new is None:
            return
        self._make_folder(change.path.parent)
        handle, name = tempfile.mkstemp(dir=change.path.parent, prefix=".antiphon-")
        self._written[change.path] = Path(name)
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            file.write(change.new)
        if change.path.exists():
            shutil.copymode(change.path, name)
        else:
            Path(name).chmod(0o666 & ~_umask())

    def apply(self, change: FileChange) -> None:
        """Replace or delete the file."""
        if change.new is None:
            change.path.unlink()
        else:
            self._written[change.path].replace(change.path)
            del self._written[change.path]

    def _make_folder(self, folder: Path) -> None:
        if folder.exists():
            return
        self._make_folder(folder.parent)
        folder.mkdir()
        self._folders.append(folder)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
