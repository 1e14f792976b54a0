"""Files of a sandbox in a folder of the host. All functions block: call them in a thread.

The code in the sandbox cannot make links, so a path below the folder stays there.
"""

import os
from pathlib import Path

from antiphon.sandbox.port import SLICE_BYTES, SandboxFile, SandboxFileError

MAX_FILES = 1000
MAX_WALKED = 5000

Stamps = dict[str, tuple[int, int]]
"""Size and time of each file."""


class FileFolder:
    """The files below a folder, with a limit for all of them together."""

    def __init__(self, root: Path, limit_bytes: int) -> None:
        self._root = root
        self._limit_bytes = limit_bytes

    def stamps(self) -> Stamps:
        """The regular files. Folders whose names begin with a dot are left out."""
        found: Stamps = {}
        for folder, folders, names in os.walk(self._root):
            folders[:] = [name for name in folders if not name.startswith(".")]
            for name in names:
                if len(found) == MAX_WALKED:
                    return found
                path = Path(folder, name)
                entry = path.lstat()
                found[str(path.relative_to(self._root))] = (entry.st_size, entry.st_mtime_ns)
        return found

    def files(self) -> tuple[SandboxFile, ...]:
        """The files, at most `MAX_FILES`."""
        listed = list(self.stamps().items())[:MAX_FILES]
        return tuple(SandboxFile(name, size) for name, (size, _) in listed)

    def room_bytes(self) -> int:
        """How much can still be written."""
        used = sum(path.lstat().st_size for path in self._root.rglob("*") if path.is_file())
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
        path = self._path(name)
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

    def _path(self, name: str) -> Path:
        path = Path(os.path.normpath(self._root / name))
        if self._root not in path.parents or "\0" in name:
            raise SandboxFileError("the name is not one of a file in the data folder")
        return path


def _failed(error: OSError) -> SandboxFileError:
    return SandboxFileError(os.strerror(error.errno or 0))
