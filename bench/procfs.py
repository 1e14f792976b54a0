"""Data of /proc: CPU time and memory of a session, and the load of other processes."""

import os
import time
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

PROC = Path("/proc")
TICKS = os.sysconf("SC_CLK_TCK")


class Process(NamedTuple):
    """One process; its CPU time includes that of its children that have ended."""

    pid: int
    parent: int
    session: int
    seconds: float


def _read(pid: int) -> Process:
    # The name, in parentheses, may contain spaces; field 3 of proc(5) follows it.
    fields = (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    return Process(pid, int(fields[1]), int(fields[3]), sum(int(ticks) for ticks in fields[11:15]) / TICKS)


def processes() -> Iterator[Process]:
    """All processes."""
    for entry in PROC.iterdir():
        if entry.name.isdecimal():
            with suppress(OSError):  # ended meanwhile
                yield _read(int(entry.name))


def process_seconds(pid: int) -> float:
    """CPU time of a running process so far, to the nanosecond; see clock_getcpuclockid(3)."""
    return time.clock_gettime((~pid << 3) | 2)


def cpu_seconds(session: int) -> float:
    """CPU time so far of the running processes of a session."""
    total = 0.0
    for process in processes():
        if process.session == session:
            with suppress(OSError):
                total += process_seconds(process.pid)
    return total


def memory_mb(session: int) -> float:
    """Proportional set size of a session, in MB of 2**20 bytes."""
    total = 0
    for process in processes():
        if process.session == session:
            with suppress(OSError):
                rollup = (PROC / str(process.pid) / "smaps_rollup").read_text()
                total += sum(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:"))
    return total / 1024


def resident_mb(pid: int) -> float:
    """Resident set size of a process and its descendants, in MB of 2**20 bytes; cheaper to read than the
    proportional one. A child that does not run its program yet has the memory of its parent, and is left
    out."""
    known = {process.pid: process for process in processes()}
    family, pages = {pid}, 0
    for process in sorted(known.values()):  # a parent is older than its children
        if process.parent in family and _command(process.pid) != _command(process.parent):
            family.add(process.pid)
    for member in family:
        with suppress(OSError):
            pages += int((PROC / str(member) / "statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def _command(pid: int) -> bytes:
    with suppress(OSError):
        return (PROC / str(pid) / "cmdline").read_bytes()
    return b""


def foreign_seconds(sessions: Collection[int]) -> float:
    """CPU time of all processes except this one and the sessions, plus the time stolen by other guests.

    The time of an ended child is added to its parent, so short-lived processes are counted.
    """
    stolen = int((PROC / "stat").read_text().split(maxsplit=9)[8]) / TICKS
    ours = os.getpid()
    return stolen + sum(p.seconds for p in processes() if p.pid != ours and p.session not in sessions)
