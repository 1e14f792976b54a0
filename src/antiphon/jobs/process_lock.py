"""One process works on the jobs of an SQLite file. The kernel releases the lock when the process ends. So the
process that acquires it knows that all unfinished work is abandoned."""

from pathlib import Path
from typing import IO

try:
    import fcntl
except ImportError:  # Windows has no such lock; there, the operator has to start one server per file.
    fcntl = None


def lock_path(store: Path) -> Path:
    """The lock file of an SQLite store."""
    return store.with_name(f"{store.name}.lock")


class ProcessLock:
    """The right of this process to work on the jobs of a file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: IO[bytes] | None = None

    def acquire(self) -> bool:
        """Take the lock; False if another process holds it."""
        if self._file is not None:
            return True
        self._path.touch(mode=0o600)
        file = self._path.open("ab")
        try:
            if fcntl is not None:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            return False
        self._file = file
        return True

    def release(self) -> None:
        """Let another process take it."""
        if self._file is not None:
            self._file.close()
            self._file = None
