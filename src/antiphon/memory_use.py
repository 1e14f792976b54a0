"""The resident memory of this process and of others, and giving freed memory back to the system."""

import ctypes
import os
from contextlib import suppress
from pathlib import Path

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_MEASURED: dict[int, int] = {}


def resident_bytes(pid: int | str = "self") -> int:
    """The resident memory of a process; 0 if it has ended, or where the system does not tell."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_bytes().split()[1]) * _PAGE_BYTES
    except OSError:
        return 0


def children_bytes() -> int:
    """The memory of the processes that this one has started: what was measured of them, otherwise their
    resident memory."""
    children: list[int] = []
    with suppress(OSError):
        for thread in os.listdir("/proc/self/task"):
            with suppress(OSError):  # the thread has ended meanwhile
                children += map(int, Path(f"/proc/self/task/{thread}/children").read_text().split())
    return sum(_MEASURED[pid] if pid in _MEASURED else resident_bytes(pid) for pid in children)


def record_measured(pid: int, size_bytes: int) -> None:
    """What a child uses with its own children and its files in memory, measured by who watches it: that takes
    too long to be done whenever the memory of all children is asked for."""
    _MEASURED[pid] = size_bytes


def forget_measured(pid: int) -> None:
    """The child has ended."""
    _MEASURED.pop(pid, None)


def give_memory_back() -> None:
    """Let the C library return what was freed."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
