"""The resident memory of this process and of others, and giving freed memory back to the system."""

import ctypes
import os
from contextlib import suppress
from pathlib import Path

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def resident_bytes(pid: int | str = "self") -> int:
    """The resident memory of a process; 0 if it has ended, or where the system does not tell."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_bytes().split()[1]) * _PAGE_BYTES
    except OSError:
        return 0


def children_bytes() -> int:
    """The resident memory of the processes that this one has started."""
    children: list[str] = []
    with suppress(OSError):
        for thread in os.listdir("/proc/self/task"):
            with suppress(OSError):  # the thread has ended meanwhile
                children += Path(f"/proc/self/task/{thread}/children").read_text().split()
    return sum(map(resident_bytes, children))


def give_memory_back() -> None:
    """Let the C library return what was freed."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
