"""A run of the fuzzer: mutated files of every format through `DocumentReader`, and a tally for each."""

import asyncio
import logging
import random
import re
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from antiphon.documents.document import Unreadable
from antiphon.documents.reader import DocumentReader
from antiphon.isolated.pool import IsolatedPool, PoolLimits
from tests.fuzz.documents.mutations import file_name, mutated
from tests.fuzz.documents.samples import FUZZED

LIMITS = PoolLimits(processes=2, cpu_seconds=5, wall_seconds=60.0, memory_bytes=512 * 2**20)
GRACE_SECONDS = 5.0
"""Beyond the limit of wall time: to end a child and to start the next one."""
MAPPED_BYTES = 128 * 2**20
"""What a child may have resident beyond its limit: code of libraries is not counted there."""
DRAWN_SHARE = 0.3
"""How many of the PDF files are drawn instead."""
MAX_MESSAGE_CHARS = 400
_EXCEEDED = {"too much time": "time", "too much memory": "memory", "parser crash": "crash"}
_PEAK = re.compile(r"VmHWM:\s+(\d+) kB")


@dataclass
class Tally:
    """The outcomes of the files that were made of one sample."""

    texts: int = 0
    rejected: int = 0
    exceeded: Counter[str] = field(default_factory=Counter[str])
    slowest_seconds: float = 0.0
    faults: list[str] = field(default_factory=list[str])

    @property
    def inputs(self) -> int:
        return self.texts + self.rejected + self.exceeded.total() + len(self.faults)


@dataclass
class FuzzResult:
    """All tallies, and the most memory that a child has used."""

    tallies: dict[str, Tally]
    peak_bytes: int = 0
    logged: list[str] = field(default_factory=list[str])

    @property
    def faults(self) -> list[str]:
        """Everything that must not happen."""
        found = [fault for tally in self.tallies.values() for fault in tally.faults] + self.logged
        if self.peak_bytes > LIMITS.memory_bytes + MAPPED_BYTES:
            found.append(f"a child had {self.peak_bytes:,} bytes")
        return found


class _Log(logging.Handler):
    def __init__(self, lines: list[str]) -> None:
        super().__init__(logging.ERROR)
        self._lines = lines

    def emit(self, record: logging.LogRecord) -> None:
        self._lines.append(record.getMessage())


async def fuzz(seed: int, inputs: int, names: Sequence[str] = (), keep: Path | None = None) -> FuzzResult:
    """Read so many mutated files, two at a time. Those that exceed a limit or cause a fault go to `keep`."""
    result = FuzzResult({name: Tally() for name in names or FUZZED})
    log = _Log(result.logged)
    logging.getLogger("antiphon").addHandler(log)
    pool = IsolatedPool(LIMITS)
    watching = asyncio.create_task(_watch_memory(result))
    chances = [random.Random(f"{seed} {worker}") for worker in range(LIMITS.processes)]
    shares = [range(worker, inputs, LIMITS.processes) for worker in range(LIMITS.processes)]
    try:
        workers = [_Worker(DocumentReader(pool), result, chance, keep) for chance in chances]
        await asyncio.gather(*(worker.run(share) for worker, share in zip(workers, shares, strict=True)))
    finally:
        watching.cancel()
        await pool.aclose()
        logging.getLogger("antiphon").removeHandler(log)
    return result


class _Worker:
    def __init__(
        self, reader: DocumentReader, result: FuzzResult, chance: random.Random, keep: Path | None
    ) -> None:
        self._reader = reader
        self._result = result
        self._chance = chance
        self._keep = keep

    async def run(self, numbers: range) -> None:
        names = list(self._result.tallies)
        for number in numbers:
            name = names[number // LIMITS.processes % len(names)]
            data = mutated(FUZZED[name], self._chance)
            tally = self._result.tallies[name]
            started = time.monotonic()
            known = tally.exceeded.total() + len(tally.faults)
            await self._read(name, data, tally)
            seconds = time.monotonic() - started
            tally.slowest_seconds = max(tally.slowest_seconds, seconds)
            if seconds > LIMITS.wall_seconds + GRACE_SECONDS:
                tally.faults.append(f"{name} {number}: took {seconds:.1f} s")
            if self._keep is not None and tally.exceeded.total() + len(tally.faults) > known:
                await asyncio.to_thread((self._keep / f"{number}-{name}").write_bytes, data)

    async def _read(self, name: str, data: bytes, tally: Tally) -> None:
        """Read or draw one file, and judge the outcome."""
        tenant = str(id(self))
        try:
            if name.endswith(".pdf") and self._chance.random() < DRAWN_SHARE:
                await self._reader.draw(tenant, data, [1, 2])
                has_text = True
            else:
                document = await self._reader.read(tenant, data, file_name(name, self._chance))
                has_text = bool(document.text.strip()) and bool(document.text.encode())
        except Unreadable as error:
            _count_rejected(name, error.message, tally)
        except Exception as error:  # noqa: BLE001 -- every other exception is a fault
            tally.faults.append(f"{name}: {type(error).__name__}: {error}")
        else:
            tally.texts += has_text
            if not has_text:
                tally.faults.append(f"{name}: read, and empty")


def _count_rejected(name: str, message: str, tally: Tally) -> None:
    exceeded = next((limit for text, limit in _EXCEEDED.items() if text in message), None)
    if not message.endswith((".", ")")) or len(message) > MAX_MESSAGE_CHARS:
        tally.faults.append(f"{name}: an unclear message: {message[:1000]}")
    elif exceeded is not None:
        tally.exceeded[exceeded] += 1
    else:
        tally.rejected += 1


async def _watch_memory(result: FuzzResult) -> None:
    """Look at the peaks of the children, 20 times per second."""
    while True:
        result.peak_bytes = max(result.peak_bytes, *map(_peak_bytes, _children()), 0)
        await asyncio.sleep(0.05)


def _children() -> list[str]:
    """The processes that this one has started. A thread may have ended meanwhile."""
    found: list[str] = []
    for file in Path("/proc/self/task").glob("*/children"):
        with suppress(OSError):
            found += file.read_text().split()
    return found


def _peak_bytes(pid: str) -> int:
    """The most memory that a process has had resident; 0 if it has ended."""
    try:
        peak = _PEAK.search(Path(f"/proc/{pid}/status").read_text())
    except OSError:
        return 0
    return int(peak[1]) * 1024 if peak else 0


def markdown(result: FuzzResult) -> str:
    """The result as a table."""
    lines = [
        "| file | inputs | text | rejected | beyond a limit | slowest | faults |",
        "|---|---|---|---|---|---|---|",
    ]
    total = Tally()
    for name, tally in result.tallies.items():
        lines.append(_row(f"`{name}`", tally))
        total.texts += tally.texts
        total.rejected += tally.rejected
        total.exceeded += tally.exceeded
        total.slowest_seconds = max(total.slowest_seconds, tally.slowest_seconds)
        total.faults += tally.faults
    lines.append(_row("all", total))
    return "\n".join([*lines, "", f"Most memory of a child: {result.peak_bytes / 2**20:.0f} MB."])


def _row(name: str, tally: Tally) -> str:
    exceeded = ", ".join(f"{count} × {limit}" for limit, count in tally.exceeded.items()) or "0"
    counts = (f"{tally.inputs:,}", f"{tally.texts:,}", f"{tally.rejected:,}", exceeded)
    return "| " + " | ".join((name, *counts, f"{tally.slowest_seconds:.1f} s", str(len(tally.faults)))) + " |"
