"""Files of a sandbox in a folder of the host. All functions block: call them in a thread.

The code in the sandbox cannot make links, so a path below the folder stays there. By renaming, it can make
folders that are deeper than Python can recurse, and deeper than a path can be long.
"""

import logging
import os
import secrets
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from stat import S_ISDIR
from threading import Lock

from antiphon.sandbox.port import SLICE_BYTES, SandboxEnded, SandboxFile, SandboxFileError

logger = logging.getLogger(__name__)

MAX_FILES = 1000
MAX_WALKED = 5000
"""Files and folders together. A sandbox with more is ended."""
ENTRY_BYTES = 4096
"""What each file and each folder counts, besides its content."""

Stamps = dict[str, tuple[int, int]]
"""Size and time of each file."""


class FileFolder:
    """The files below a folder, with a limit for all of them together. What walks through them raises
    `SandboxEnded` if they cannot all be counted: they are too many, or too deep."""

    def __init__(self, root: Path, limit_bytes: int) -> None:
        self._root = root
        self._limit_bytes = limit_bytes
        self._deleted = False
        self._writing = Lock()

    def stamps(self) -> Stamps:
        """The regular files. Folders whose names begin with a dot are left out."""
        found: Stamps = {}
        for name, status in self._entries():
            if not S_ISDIR(status.st_mode) and not _in_hidden_folder(name):
                found[name] = (status.st_size, status.st_mtime_ns)
        return found

    def files(self) -> tuple[SandboxFile, ...]:
        """The files, at most `MAX_FILES`."""
        listed = list(self.stamps().items())[:MAX_FILES]
        return tuple(SandboxFile(name, size) for name, (size, _) in listed)

    def room_bytes(self) -> int:
        """How much can still be written."""
        used = 0
        for _, status in self._entries():
            used += ENTRY_BYTES + (0 if S_ISDIR(status.st_mode) else status.st_size)
        return max(0, self._limit_bytes - used)

    def read(self, name: str, offset: int) -> bytes:
        """A slice of a file."""
        try:
            with self._path(name).open("rb") as file:
                file.seek(offset)
                return file.read(SLICE_BYTES)
        except OSError as error:
            raise _failed(error) from None

    def write(self, name: str, content: bytes, offset: int) -> None:
        """Write a slice; `offset` 0 begins a new file."""
        with self._writing:
            if self._deleted:
                raise SandboxEnded("it was closed")
            path = self._path(name)
            if not offset:
                self._check_count(path)
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                with path.open("r+b" if offset else "wb") as file:
                    if len(content) > self.room_bytes():
                        raise SandboxFileError("No space left on device")
                    file.seek(offset)
                    file.write(content)
            except OSError as error:
                raise _failed(error) from None

    def move(self, name: str, to: str) -> None:
        """Rename a file; it replaces another one of that name."""
        try:
            self._path(name).replace(self._path(to))
        except OSError as error:
            raise _failed(error) from None

    def delete(self, name: str) -> None:
        """Delete a file."""
        try:
            self._path(name).unlink()
        except OSError as error:
            raise _failed(error) from None

    def delete_all(self) -> None:
        """Delete the folder. Folders are moved to its top before they are emptied, so no path is long."""
        with self._writing:
            self._deleted = True
            left = [self._root]
            while left:
                folder = left.pop()
                for inner in _emptied(folder):
                    moved = self._root / secrets.token_hex(16)
                    with suppress(OSError):
                        inner.chmod(0o700)
                        inner.rename(moved)
                        left.append(moved)
                if folder != self._root:
                    with suppress(OSError):
                        folder.rmdir()
            try:
                self._root.rmdir()
            except OSError as error:
                logger.warning("the files of a sandbox in %s were not deleted: %s", self._root, error)

    def _check_count(self, path: Path) -> None:
        """A file that would be one too many is refused, before it ends the sandbox."""
        new = len(path.relative_to(self._root).parts)
        if sum(1 for _ in self._entries()) + new > MAX_WALKED:
            raise SandboxFileError(f"there are too many files, about {MAX_WALKED:,}")

    def _entries(self) -> Iterator[tuple[str, os.stat_result]]:
        """All files and folders, with their names below the folder."""
        left, seen = [""], 0
        try:
            while left:
                folder = left.pop()
                with os.scandir(self._root / folder) as entries:
                    for entry in entries:
                        seen += 1
                        if seen > MAX_WALKED:
                            raise SandboxEnded(f"it has too many files, more than {MAX_WALKED:,}")
                        name = f"{folder}/{entry.name}" if folder else entry.name
                        if entry.is_dir(follow_symlinks=False):
                            left.append(name)
                        with suppress(FileNotFoundError):  # a request that was cancelled deletes it
                            status = entry.stat(follow_symlinks=False)
                            yield name, status
        except OSError as error:
            raise SandboxEnded(f"its files cannot be counted: {os.strerror(error.errno or 0)}") from None

    def _path(self, name: str) -> Path:
        path = Path(os.path.normpath(self._root / name))
        if self._root not in path.parents or "\0" in name:
            raise SandboxFileError("the name is not one of a file in the data folder")
        return path


def _in_hidden_folder(name: str) -> bool:
    return any(part.startswith(".") for part in name.split("/")[:-1])


def _emptied(folder: Path) -> list[Path]:
    """Delete what is directly in a folder, except its folders: those are returned."""
    folders: list[Path] = []
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            path = folder / entry.name
            if entry.is_dir(follow_symlinks=False):
                folders.append(path)
            else:
                with suppress(OSError):
                    path.unlink()
    return folders


def _failed(error: OSError) -> SandboxFileError:
    return SandboxFileError(os.strerror(error.errno or 0))
