"""`TurnSlot`: one turn of a backend. It waits for its start, applies deadlines and updates the circuit."""

import asyncio
import math
from collections import deque
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from time import monotonic
from types import TracebackType
from typing import Self

from msgspec import Struct

from antiphon.backends.base import PreparedTurn
from antiphon.errors import BackendError, BackendTimeout
from antiphon.service.routing.circuits import Circuits, Key
from antiphon.service.routing.limits import ConcurrencyLimit
from antiphon.service.routing.refused_images import RefusedImages
from antiphon.turn.chunks import Chunk, Failed, Heartbeat

RECENT_TURNS = 500
"""Turns whose times are in the percentiles of an upstream."""

Batches = AsyncGenerator[Sequence[Chunk], None]


class TurnDeadlines(Struct, frozen=True):
    """Deadlines of a row in seconds, where they are shorter than those of its upstream."""

    first_byte: float = math.inf
    """Until the first output of a stream, including retries."""
    answer: float = math.inf
    """Until the first output without a stream, including retries."""
    total: float = math.inf

    @property
    def any(self) -> bool:
        """Whether any deadline is set."""
        return min(self.first_byte, self.answer, self.total) < math.inf


class TurnCount:
    """The number of running turns of a backend. A removed backend is closed when it is zero."""

    def __init__(self) -> None:
        self.turns = 0
        self.begun = 0
        """Turns so far."""
        self.failed = 0
        """Those that failed before their first output."""
        self._first_output_seconds = deque[float](maxlen=RECENT_TURNS)
        self._idle: asyncio.Event | None = None

    def enter(self) -> None:
        """Count the start of a turn."""
        self.turns += 1
        self.begun += 1

    def answered(self, seconds: float) -> None:
        """A turn has its first output, so long after its start."""
        self._first_output_seconds.append(seconds)

    def first_output_percentiles(self) -> tuple[int | None, int | None, int | None]:
        """Milliseconds to the first output of recent turns: percentiles 50, 95 and 99."""
        times = sorted(self._first_output_seconds)
        if not times:
            return None, None, None
        p50, p95, p99 = (round(1000 * times[(len(times) * each - 1) // 100]) for each in (50, 95, 99))
        return p50, p95, p99

    def leave(self) -> None:
        """Count the end of a turn."""
        self.turns -= 1
        if not self.turns and self._idle is not None:
            self._idle.set()

    async def ended(self) -> None:
        """Wait until no turn is running."""
        while self.turns:
            self._idle = asyncio.Event()
            await self._idle.wait()


@dataclass(frozen=True, slots=True)
class RouteGuards:
    """The circuit, the limits and the deadlines that apply to every turn of a route."""

    key: Key
    circuits: Circuits
    turns: TurnCount
    refused_images: RefusedImages
    concurrency: ConcurrencyLimit | None = None
    deadlines: TurnDeadlines | None = None


class TurnSlot:
    """One turn, as a context manager, entered after `wait` unless it is `free`. An error that leaves the
    context before `answered` counts as a failure of the backend. Without guards, the slot does nothing."""

    __slots__ = ("_answered", "_entered_at", "_guards", "_tenant", "total_seconds")

    def __init__(self, guards: RouteGuards | None, tenant: str, total_seconds: float = math.inf) -> None:
        self.total_seconds = total_seconds
        """How long the turn may take."""
        self._guards = guards
        self._tenant = tenant
        self._answered = False
        self._entered_at = 0.0

    @property
    def free(self) -> bool:
        """Whether the turn can start at once."""
        guards = self._guards
        return guards is None or (guards.concurrency is None and not guards.circuits.any_failing)

    async def wait(self) -> None:
        """Wait until the turn can start. Raises `BackendBusy` or `BackendPaused`."""
        if self._guards is not None and not self.free:
            await _enter(self._guards, self._tenant)

    def __enter__(self) -> Self:
        if self._guards is not None:
            self._guards.turns.enter()
            self._entered_at = monotonic()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        guards = self._guards
        if guards is None:
            return
        guards.turns.leave()
        if guards.concurrency is not None:
            guards.concurrency.leave(self._tenant)
        if self._answered:
            return
        if error is None:
            self.answered()
        elif isinstance(error, BackendError):
            guards.turns.failed += 1
            guards.circuits.failed(guards.key, error, self._tenant)
            guards.refused_images.learn(guards.key, error)
        else:
            guards.circuits.abandoned(guards.key, self._tenant)

    def answered(self) -> None:
        """The backend produced output, so later errors do not count as its failure."""
        self._answered = True
        guards = self._guards
        if guards is not None:
            guards.turns.answered(monotonic() - self._entered_at)
            if guards.circuits.any_failing:
                guards.circuits.answered(guards.key)

    def chunks(self, prepared: PreparedTurn, *, streamed: bool) -> Batches:
        """Run the turn like `prepared.chunks()`, within the deadlines of the route."""
        deadlines = self._guards.deadlines if self._guards is not None else None
        if self._guards is None or deadlines is None:
            return prepared.chunks()
        first_seconds = deadlines.first_byte if streamed else deadlines.answer
        return _within(prepared.chunks(), first_seconds, deadlines.total, self._guards.key)


async def _enter(guards: RouteGuards, tenant: str) -> None:
    guards.circuits.check(guards.key, tenant)  # no turn waits for a paused backend
    if guards.concurrency is None:
        return guards.circuits.admit(guards.key, tenant)
    await guards.concurrency.enter(guards.key.model, tenant)
    try:
        guards.circuits.admit(guards.key, tenant)
    except BaseException:
        guards.concurrency.leave(tenant)
        raise


async def _within(batches: Batches, first_seconds: float, total_seconds: float, key: Key) -> Batches:
    """These batches. A deadline raises before the first output, and ends with `Failed` after it."""
    loop = asyncio.get_running_loop()
    now = loop.time()
    first_by, end = now + first_seconds, now + total_seconds
    started = False
    try:
        while True:
            by = end if started else min(first_by, end)
            batch = await _next(batches, by) if loop.time() < end else _Late()
            if batch is None:
                return
            if isinstance(batch, _Late):
                late = _late(key, first_seconds if by < end else total_seconds, started=by >= end)
                if not started:
                    raise late
                yield [Failed(late)]
                return
            started = started or type(batch[0]) is not Heartbeat
            yield batch
    finally:
        await batches.aclose()


class _Late:
    """A deadline has passed."""


async def _next(batches: Batches, by: float) -> Sequence[Chunk] | _Late | None:
    """The next batch, or `_Late`; None after the last batch."""
    deadline = asyncio.timeout_at(by if by < math.inf else None)
    try:
        async with deadline:
            return await anext(batches, None)
    except TimeoutError:
        if not deadline.expired():
            raise
        return _Late()


def _late(key: Key, seconds: float, *, started: bool) -> BackendTimeout:
    backend, model, _ = key
    if started:
        return BackendTimeout(f"The model '{model}' of '{backend}' took longer than {seconds:g} s.")
    return BackendTimeout(
        f"The model '{model}' of '{backend}' did not start its answer within {seconds:g} s."
    )
