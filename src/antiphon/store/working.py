"""Helpers of background work: shielded submission, concurrent coroutines, and following stored rows."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Sequence
from typing import Any, TypeVar

from antiphon.errors import StoreUnavailable
from antiphon.store.signals import Subscription

T = TypeVar("T")

MAX_ATTEMPTS = 4
"""The most claims of one piece of work. Work whose process died this often is failed."""
POLL_SECONDS = 0.5
"""A follower without a signal reads again after this time, because signals may get lost."""
HEARTBEAT_SECONDS = 10.0
"""A follower receives a heartbeat after this time without rows."""


class ShieldedTasks:
    """Runs coroutines to their end even if the caller is cancelled, as by a client that disconnects."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Wait for `work`. A cancellation ends the wait, not the work."""
        return await asyncio.shield(self._start(work))

    async def run_for(self, work: Coroutine[Any, Any, T], seconds: float) -> T:
        """The same, no longer than this: then it raises `TimeoutError`, and the work goes on."""
        return await asyncio.wait_for(asyncio.shield(self._start(work)), seconds)

    def _start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.create_task(work)
        self._tasks.add(task)  # the loop itself holds only weak references
        task.add_done_callback(self._tasks.discard)
        return task


async def run_until_first_ends(*work: Coroutine[Any, Any, None]) -> None:
    """Run coroutines concurrently until the first one ends, then cancel the others. Raises its exception."""
    tasks = [asyncio.create_task(each) for each in work]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def follow_rows(
    read: Callable[[], Awaitable[tuple[Sequence[T], bool]]],
    signal: Subscription,
    is_full: Callable[[Sequence[T]], bool] = lambda _rows: False,
) -> AsyncGenerator[Sequence[T], None]:
    """Yield the rows that `read` returns, until it reports the end. If they are a full page, there are more.

    It waits while the database is unavailable. After `HEARTBEAT_SECONDS` without rows it yields none, as a
    heartbeat.
    """
    loop = asyncio.get_running_loop()
    silent_since = loop.time()
    while True:
        try:
            rows, ended = await read()
        except StoreUnavailable:
            rows, ended = (), False
        if rows or loop.time() - silent_since > HEARTBEAT_SECONDS:
            yield rows
            silent_since = loop.time()
        if ended:
            return
        if not is_full(rows):
            await signal.wait(POLL_SECONDS)
