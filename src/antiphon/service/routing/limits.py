"""Limits of one row of models: concurrent turns, in all and of one tenant, and turns per minute.

Turns that wait start in the order of their arrival, but tenants take turns: a free slot goes to the tenant
with the fewest running turns, so that one with many requests does not keep the others waiting behind all of
them.
"""

import asyncio
from collections import Counter, deque

from msgspec import Struct

from antiphon.errors import BackendBusy
from antiphon.protocol.ids import Clock

MINUTE_SECONDS = 60.0
BUSY_RETRY_AFTER_SECONDS = 2.0
"""The Retry-After of clients when a limit of concurrent turns is reached."""


class Limits(Struct, frozen=True):
    """The configured limits; None: unlimited."""

    max_concurrent: int | None = None
    max_concurrent_per_tenant: int | None = None
    queue_timeout: float = 30.0
    """Seconds that a turn waits for its start."""
    requests_per_minute: int | None = None

    @property
    def any(self) -> bool:
        """Whether anything is limited."""
        bounds = (self.max_concurrent, self.max_concurrent_per_tenant, self.requests_per_minute)
        return bounds != (None, None, None)


class ConcurrencyLimit:
    """The running turns of one row. Pair every `enter` with `leave`."""

    def __init__(self, limits: Limits, clock: Clock) -> None:
        self.limits = limits
        self._clock = clock
        self._running = Counter[str]()
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        """By tenant. A tenant is here while a turn of it waits; the one that came first is first."""
        self._started = deque[float](maxlen=limits.requests_per_minute)

    @property
    def running(self) -> int:
        """Turns that have a slot."""
        return self._running.total()

    @property
    def waiting(self) -> int:
        """Turns that wait for one."""
        return sum(map(len, self._waiting.values()))

    async def enter(self, model: str, tenant: str) -> None:
        """Wait for a free slot. Raises `BackendBusy` after the timeout, or at the limit per minute."""
        if tenant not in self._waiting and self._has_room(tenant):
            self._running[tenant] += 1
        else:
            await self._wait(model, tenant)
        try:
            self._count(model)
        except BackendBusy:
            self.leave(tenant)
            raise

    def leave(self, tenant: str) -> None:
        """A turn of this tenant has ended."""
        self._running[tenant] -= 1
        if not self._running[tenant]:
            del self._running[tenant]
        self._start_waiting()

    def _has_room(self, tenant: str) -> bool:
        most, most_of_tenant = self.limits.max_concurrent, self.limits.max_concurrent_per_tenant
        if most_of_tenant is not None and self._running[tenant] >= most_of_tenant:
            return False
        return most is None or self.running < most

    async def _wait(self, model: str, tenant: str) -> None:
        started = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(tenant, deque()).append(started)
        try:
            async with asyncio.timeout(self.limits.queue_timeout):
                await started
        except BaseException as error:
            if started.done() and not started.cancelled():
                self.leave(tenant)  # it was given a slot in the same moment
            else:
                self._forget(tenant, started)
            if isinstance(error, TimeoutError):
                raise self._busy(model, tenant) from None
            raise

    def _forget(self, tenant: str, started: "asyncio.Future[None]") -> None:
        queue = self._waiting[tenant]
        queue.remove(started)
        if not queue:
            del self._waiting[tenant]

    def _start_waiting(self) -> None:
        """Give free slots away."""
        while ready := [tenant for tenant in self._waiting if self._has_room(tenant)]:
            tenant = min(ready, key=self._running.__getitem__)
            queue = self._waiting.pop(tenant)
            started = queue.popleft()
            if queue:
                self._waiting[tenant] = queue  # behind the others
            self._running[tenant] += 1
            started.set_result(None)

    def _busy(self, model: str, tenant: str) -> BackendBusy:
        limits = self.limits
        of_tenant = limits.max_concurrent_per_tenant
        if of_tenant is not None and self._running[tenant] >= of_tenant:
            limit = f"{of_tenant} turns of one tenant at once (max_concurrent_per_tenant)"
        else:
            limit = f"{limits.max_concurrent} turns at once (max_concurrent)"
        return BackendBusy(
            f"The model '{model}' is at its limit of {limit}, and none ended within "
            f"{limits.queue_timeout:g} s. Try again later, or use another model.",
            retry_after=BUSY_RETRY_AFTER_SECONDS,
        )

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
