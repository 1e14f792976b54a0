"""Writes the changes of a file bundle: all of it beside the files first, then each file at once."""

import os
import shutil
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from antiphon.cli.bundle import FileChange
from antiphon.cli.failure import Failure


def write_changes(changes: Sequence[FileChange]) -> None:
    """Make the changes. If not all can be made, it is said which were."""
    with _Staging() as staging:
        for change in changes:
            try:
                staging.prepare(change)
            except OSError as error:
                message = f"'{change.name}' cannot be written: {error.strerror}. Nothing was written."
                raise Failure(message) from None
        for number, change in enumerate(changes):
            try:
                staging.make(change)
            except OSError as error:
                raise Failure(_half_done(changes, number, error)) from None


def _half_done(changes: Sequence[FileChange], number: int, error: OSError) -> str:
    what = "deleted" if changes[number].new is None else "written"
    made = ", ".join(change.name for change in changes[:number]) or "nothing"
    left = ", ".join(change.name for change in changes[number:])
    return (
        f"'{changes[number].name}' cannot be {what}: {error.strerror}. Changed: {made}. Not changed: {left}."
    )


class _Staging:
    """What was written beside the files. At the end, nothing of it is left."""

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
            with suppress(OSError):  # there is a file in it now: it is needed
                folder.rmdir()

    def prepare(self, change: FileChange) -> None:
        """Write the new contents beside the file, with its mode."""
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

    def make(self, change: FileChange) -> None:
        """Put the file in its place, or delete it."""
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
