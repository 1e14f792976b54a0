"""`TurnSlot`: one turn of a backend, from waiting for its place to what is learnt from how it went."""

import asyncio
import math
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from msgspec import Struct

from antiphon.backends.base import PreparedTurn
from antiphon.errors import BackendError, BackendTimeout
from antiphon.service.routing.circuits import Circuits, Key
from antiphon.service.routing.limits import ConcurrencyLimit
from antiphon.turn.chunks import Chunk, Failed, Heartbeat

Batches = AsyncGenerator[Sequence[Chunk], None]


class TurnDeadlines(Struct, frozen=True):
    """Seconds that a row gives a turn, where that is less than what its upstream gives."""

    first_byte: float = math.inf
    """Until the first word of a stream, all tries together."""
    answer: float = math.inf
    """The same for an answer that is not streamed."""
    total: float = math.inf

    @property
    def any(self) -> bool:
        """Whether there is one at all."""
        return min(self.first_byte, self.answer, self.total) < math.inf


class TurnCount:
    """How many turns a backend has under way. One that is not needed any more ends with the last of them."""

    def __init__(self) -> None:
        self.turns = 0
        self._idle: asyncio.Event | None = None

    def leave(self) -> None:
        """One less."""
        self.turns -= 1
        if not self.turns and self._idle is not None:
            self._idle.set()

    async def ended(self) -> None:
        """Return when there is none."""
        while self.turns:
            self._idle = asyncio.Event()
            await self._idle.wait()


@dataclass(frozen=True, slots=True)
class RouteGuards:
    """What every turn of a route passes."""

    key: Key
    circuits: Circuits
    use: TurnCount
    lane: ConcurrencyLimit | None = None
    deadlines: TurnDeadlines | None = None


class TurnSlot:
    """One turn. Entering waits for a place and raises `BackendBusy` or `BackendPaused` if there is none; an
    error that leaves it before `answered` counts against the backend. Without a gate it does nothing."""

    __slots__ = ("_answered", "_gate")

    def __init__(self, gate: RouteGuards | None) -> None:
        self._gate = gate
        self._answered = False

    async def __aenter__(self) -> Self:
        gate = self._gate
        if gate is not None:
            if gate.lane is not None or gate.circuits.troubled:
                await _enter(gate)
            gate.use.turns += 1
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        gate = self._gate
        if gate is None:
            return
        gate.use.leave()
        if gate.lane is not None:
            gate.lane.leave()
        if self._answered:
            return
        if error is None:
            self.answered()
        elif isinstance(error, BackendError):
            gate.circuits.failed(gate.key, error)
        else:
            gate.circuits.left(gate.key)

    def answered(self) -> None:
        """The backend has said something: it is well, whatever comes after."""
        self._answered = True
        if self._gate is not None and self._gate.circuits.troubled:
            self._gate.circuits.answered(self._gate.key)

    def chunks(self, prepared: PreparedTurn, *, streamed: bool) -> Batches:
        """Run the turn within the deadlines of its route, as `prepared.chunks()` does."""
        deadlines = self._gate.deadlines if self._gate is not None else None
        if self._gate is None or deadlines is None:
            return prepared.chunks()
        patience = deadlines.first_byte if streamed else deadlines.answer
        return _within(prepared.chunks(), patience, deadlines.total, self._gate.key)


async def _enter(gate: RouteGuards) -> None:
    gate.circuits.check(gate.key)  # nobody stands in line for a backend that is left alone
    if gate.lane is None:
        return gate.circuits.admit(gate.key)
    await gate.lane.enter(gate.key.model)
    try:
        gate.circuits.admit(gate.key)
    except BaseException:
        gate.lane.leave()
        raise


async def _within(batches: Batches, patience: float, total: float, key: Key) -> Batches:
    """These batches; when a deadline passes, the error that the port asks for."""
    now = asyncio.get_running_loop().time()
    first_by, end = now + patience, now + total
    said = False
    try:
        while True:
            by = end if said else min(first_by, end)
            batch = await _next(batches, by)
            if batch is None:
                return
            if isinstance(batch, _Late):
                late = _late(key, patience if by < end else total, begun=by >= end)
                if not said:
                    raise late
                yield [Failed(late)]
                return
            said = said or type(batch[0]) is not Heartbeat
            yield batch
    finally:
        await batches.aclose()


class _Late:
    """Nothing came in time."""


async def _next(batches: Batches, by: float) -> Sequence[Chunk] | _Late | None:
    """The next batch, or that it is late; None after the last."""
    deadline = asyncio.timeout_at(by if by < math.inf else None)
    try:
        async with deadline:
            return await anext(batches, None)
    except TimeoutError:
        if not deadline.expired():
            raise
        return _Late()


def _late(key: Key, seconds: float, *, begun: bool) -> BackendTimeout:
    backend, model, _ = key
    if begun:
        return BackendTimeout(f"The model '{model}' of '{backend}' took longer than {seconds:g} s.")
    return BackendTimeout(
        f"The model '{model}' of '{backend}' did not begin its answer within {seconds:g} s."
    )
