"""How many requests start in one iteration of the event loop, and in which order.

To start a request, its body is decoded and checked: up to tens of milliseconds that cannot be interrupted. If
all requests that have arrived started in one iteration, everybody would wait for all of them. So a few start,
and the others wait for the next iteration, where tenants take turns.
"""

import asyncio
import time
from collections import deque

MAX_STARTS = 4
"""In one iteration."""
ITERATION_SECONDS = 0.003
"""While iterations take longer than this, fewer requests start in the next one."""


class StartQueue:
    """The requests of a process that wait for their start, by tenant."""

    def __init__(self) -> None:
        self._started = 0
        """Since the last turn."""
        self._max_starts = MAX_STARTS
        self._served: set[str] = set()
        """The tenants who have started a request in this turn, if it came when that number was reached or
        had to wait."""
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        """The first tenant is next."""
        self._turn_in: asyncio.AbstractEventLoop | None = None
        """The event loop that will call for the next turn."""
        self._turn_at = 0.0
        """When the next turn was scheduled."""

    def start_now(self, tenant: str) -> bool:
        """Whether a request of this tenant may start at once. If not, let it `wait`."""
        self._started += 1
        if self._started < self._max_starts:
            return True
        if self._started > self._max_starts:
            return self._is_first(tenant)
        self._expect_turn()
        return True

    def _is_first(self, tenant: str) -> bool:
        """Whether the tenant has started no request in this turn, and none waits: nobody pays for the
        expensive requests of another."""
        if tenant in self._served or tenant in self._waiting or len(self._served) >= MAX_STARTS:
            return False
        self._served.add(tenant)
        return True

    async def wait(self, tenant: str) -> None:
        """Wait until a request of this tenant may start."""
        waiter = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(tenant, deque()).append(waiter)
        self._expect_turn()
        await waiter

    def _expect_turn(self) -> None:
        loop = asyncio.get_running_loop()
        if loop is not self._turn_in:  # one that was closed does not call any more
            self._turn_in = loop
            self._turn_at = time.perf_counter()
            loop.call_soon(self._take_turn)

    def _take_turn(self) -> None:
        """Let requests start, if any wait. This is called in every iteration while there are some: behind
        those that have started in the turn before."""
        share = ITERATION_SECONDS / max(time.perf_counter() - self._turn_at, 1e-6)
        starts = int(self._max_starts * min(2.0, share))
        self._max_starts = starts = min(MAX_STARTS, max(1, starts))
        self._turn_in = None
        self._served.clear()
        if not self._waiting:
            self._started = 0
            return
        for _ in range(min(MAX_STARTS, max(starts, len(self._waiting)))):
            self._start_next()
        self._started = starts + 1
        self._expect_turn()

    def _start_next(self) -> None:
        """Let the first request of the first tenant start; the tenant is the last one then."""
        while self._waiting:
            tenant = next(iter(self._waiting))
            queue = self._waiting.pop(tenant)
            waiter = queue.popleft()
            self._served.add(tenant)
            if queue:
                self._waiting[tenant] = queue
            if not waiter.done():  # it was not cancelled
                waiter.set_result(None)
                return
