"""The child process: reads jobs from standard input, and writes their results to standard output.

A job that exceeds a limit ends the process: by a signal at the limit of CPU time, by an abort where a library
gets no more memory. The parent starts another one.
"""

import importlib
import os
import resource
import sys
from collections.abc import Callable
from typing import BinaryIO

import msgspec
from msgspec import Struct

from antiphon.isolated.frames import HEADER, Failure, Job, Success

NICENESS = 19
"""The event loop of the parent goes first."""
_RESULTS = msgspec.msgpack.Encoder()
_JOBS = msgspec.msgpack.Decoder(Job)


class Limits(Struct, frozen=True):
    """`cpu_seconds` is per job."""

    cpu_seconds: int
    memory_bytes: int


def main(limits: Limits) -> None:
    """Do jobs until standard input ends."""
    # A group, because an interrupt from the keyboard is for the parent. Not a session: Linux shares CPU time
    # equally among sessions, if it groups by them, and the niceness counts within one.
    os.setpgid(0, 0)
    os.nice(NICENESS)
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_DATA, limits.memory_bytes)
    jobs, results = sys.stdin.buffer, sys.stdout.buffer
    while (frame := _read(jobs)) is not None:
        job = _JOBS.decode(frame)
        payload = jobs.read(job.payload_bytes)
        used = resource.getrusage(resource.RUSAGE_SELF)
        _limit(resource.RLIMIT_CPU, int(used.ru_utime + used.ru_stime) + 1 + limits.cpu_seconds)
        result = _RESULTS.encode(_done(job.function, payload))
        del payload
        results.write(HEADER.pack(len(result)))
        results.write(result)
        results.flush()


def _done(function: str, payload: bytes) -> Success | Failure:
    try:
        return Success(memoryview(_function(function)(payload)))
    except MemoryError:
        return Failure("memory")
    except Exception as error:  # noqa: BLE001 -- the parent logs it
        return Failure("error", f"{type(error).__name__}: {error}"[:500])


def _function(name: str) -> Callable[[bytes], bytes]:
    module, _, function = name.partition(":")
    return getattr(importlib.import_module(module), function)


def _read(jobs: BinaryIO) -> bytes | None:
    """The next frame; None at the end."""
    header = jobs.read(HEADER.size)
    return jobs.read(HEADER.unpack(header)[0]) if len(header) == HEADER.size else None


def _limit(which: int, value: int) -> None:
    """Lower the soft limit: the hard one can be lowered only once."""
    hard = resource.getrlimit(which)[1]
    resource.setrlimit(which, (value if hard == resource.RLIM_INFINITY else min(value, hard), hard))


if __name__ == "__main__":
    main(Limits(int(sys.argv[1]), int(sys.argv[2])))
