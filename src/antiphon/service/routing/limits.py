"""Limits of one row of models: concurrent turns, and turns per minute."""

import asyncio
from collections import deque

from msgspec import Struct

from antiphon.errors import BackendBusy
from antiphon.protocol.ids import Clock

MINUTE_SECONDS = 60.0
BUSY_RETRY_AFTER_SECONDS = 2.0
"""The Retry-After of clients when the limit of concurrent turns is reached."""


class Limits(Struct, frozen=True):
    """The configured limits; None: unlimited."""

    max_concurrent: int | None = None
    queue_timeout: float = 30.0
    """Seconds that a turn waits for its start."""
    requests_per_minute: int | None = None

    @property
    def any(self) -> bool:
        """Whether anything is limited."""
        return self.max_concurrent is not None or self.requests_per_minute is not None


class ConcurrencyLimit:
    """The running turns of one row. Pair every `enter` with `leave`."""

    def __init__(self, limits: Limits, clock: Clock) -> None:
        self.limits = limits
        self.running = 0
        self.waiting = 0
        self._clock = clock
        self._slots = asyncio.Semaphore(limits.max_concurrent) if limits.max_concurrent else None
        self._started = deque[float](maxlen=limits.requests_per_minute)

    async def enter(self, model: str) -> None:
        """Wait for a free slot. Raises `BackendBusy` after the timeout, or at the limit per minute."""
        if self._slots is not None:
            await self._acquire(self._slots, model)
        try:
            self._count(model)
        except BackendBusy:
            self._release()
            raise
        self.running += 1

    def leave(self) -> None:
        self.running -= 1
        self._release()

    async def _acquire(self, slots: asyncio.Semaphore, model: str) -> None:
        if not slots.locked():
            await slots.acquire()
            return
        self.waiting += 1
        try:
            async with asyncio.timeout(self.limits.queue_timeout):
                await slots.acquire()
        except TimeoutError:
            raise BackendBusy(
                f"The model '{model}' is at its limit of {self.limits.max_concurrent} turns at once "
                f"(max_concurrent), and none ended within {self.limits.queue_timeout:g} s. "
                "Try again later, or use another model.",
                retry_after=BUSY_RETRY_AFTER_SECONDS,
            ) from None
        finally:
            self.waiting -= 1

    def _count(self, model: str) -> None:
        allowed = self.limits.requests_per_minute
        if allowed is None:
            return
        now = self._clock()
        if len(self._started) == allowed and now - self._started[0] < MINUTE_SECONDS:
            wait = MINUTE_SECONDS - (now - self._started[0])
            raise BackendBusy(
                f"The model '{model}' is at its limit of {allowed} turns per minute (requests_per_minute). "
                f"Try again in {wait:.0f} s, or use another model.",
                retry_after=wait,
            )
        self._started.append(now)

    def _release(self) -> None:
        if self._slots is not None:
            self._slots.release()
