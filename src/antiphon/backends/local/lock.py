"""A lock between processes, held on a file. The system lets it go when the process ends, however it ends."""

import contextlib
import os
import sys
import time
from collections.abc import Callable, Generator
from pathlib import Path

_PAUSE = 0.1


@contextlib.contextmanager
def locked(path: Path, waiting: Callable[[], None]) -> Generator[None, None, None]:
    """Hold the lock at `path`. `waiting` is called again and again while another holds it; it may raise."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        while not _try_lock(handle):
            waiting()
            time.sleep(_PAUSE)
        yield
    finally:
        os.close(handle)


if sys.platform == "win32":
    import msvcrt

    def _try_lock(handle: int) -> bool:
        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True
else:
    import fcntl

    def _try_lock(handle: int) -> bool:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
