"""How much one row of models may do: so many turns at once, so many within a minute."""

import asyncio
from collections import deque

from msgspec import Struct

from antiphon.errors import BackendBusy
from antiphon.protocol.ids import Clock

MINUTE = 60.0
SOON = 2.0
"""Seconds after which it is worth coming back when all places were taken."""


class Limits(Struct, frozen=True):
    """What the operator allows; None: as much as comes."""

    max_concurrent: int | None = None
    queue_timeout: float = 30.0
    """Seconds that a turn waits in line."""
    requests_per_minute: int | None = None

    @property
    def any(self) -> bool:
        """Whether there is a limit at all."""
        return self.max_concurrent is not None or self.requests_per_minute is not None


class ConcurrencyLimit:
    """The turns of one row. Who enters must leave."""

    def __init__(self, limits: Limits, clock: Clock) -> None:
        self.limits = limits
        self.running = 0
        self.waiting = 0
        self._clock = clock
        self._places = asyncio.Semaphore(limits.max_concurrent) if limits.max_concurrent else None
        self._begun = deque[float](maxlen=limits.requests_per_minute)

    async def enter(self, model: str) -> None:
        """Wait in line; raise `BackendBusy` when that takes too long, or when this minute is used up."""
        if self._places is not None:
            await self._place(self._places, model)
        try:
            self._count(model)
        except BackendBusy:
            self._release()
            raise
        self.running += 1

    def leave(self) -> None:
        """Make place for the next one."""
        self.running -= 1
        self._release()

    async def _place(self, places: asyncio.Semaphore, model: str) -> None:
        if not places.locked():
            await places.acquire()
            return
        self.waiting += 1
        try:
            async with asyncio.timeout(self.limits.queue_timeout):
                await places.acquire()
        except TimeoutError:
            raise BackendBusy(
                f"The model '{model}' is at its limit of {self.limits.max_concurrent} turns at once "
                f"(max_concurrent), and none ended within {self.limits.queue_timeout:g} s. "
                "Try again later, or ask another model.",
                retry_after=SOON,
            ) from None
        finally:
            self.waiting -= 1

    def _count(self, model: str) -> None:
        allowed = self.limits.requests_per_minute
        if allowed is None:
            return
        now = self._clock()
        if len(self._begun) == allowed and now - self._begun[0] < MINUTE:
            wait = MINUTE - (now - self._begun[0])
            raise BackendBusy(
                f"The model '{model}' is at its limit of {allowed} turns per minute (requests_per_minute). "
                f"Try again in {wait:.0f} s, or ask another model.",
                retry_after=wait,
            )
        self._begun.append(now)

    def _release(self) -> None:
        if self._places is not None:
            self._places.release()
