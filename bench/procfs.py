"""What Linux knows about processes: CPU time and memory of a session, and how busy everybody else is."""

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
    session: int
    seconds: float


def _read(pid: int) -> Process:
    # The name, in parentheses, may hold spaces; what follows it begins with field 3 of proc(5).
    fields = (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    return Process(pid, int(fields[3]), sum(int(ticks) for ticks in fields[11:15]) / TICKS)


def processes() -> Iterator[Process]:
    """Every process there is."""
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


def foreign_seconds(sessions: Collection[int]) -> float:
    """CPU time so far of all that is neither us nor one of the sessions, and what other guests took of ours.

    A child that ends hands its time to its parent, so short-lived processes do not get lost.
    """
    stolen = int((PROC / "stat").read_text().split(maxsplit=9)[8]) / TICKS
    ours = os.getpid()
    return stolen + sum(p.seconds for p in processes() if p.pid != ours and p.session not in sessions)
