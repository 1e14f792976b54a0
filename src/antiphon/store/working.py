"""What all work in the background has in common: it is handed over whole, ends with whatever ends first, and
is followed as it is stored."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Sequence
from typing import Any, TypeVar

from antiphon.errors import StoreUnavailable
from antiphon.store.signals import Subscription

T = TypeVar("T")

MAX_ATTEMPTS = 4
"""Claims after which work that brings down its process again and again is given up."""
POLL = 0.5
"""Seconds after which a follower looks by itself: signals may get lost."""
HEARTBEAT = 10.0
"""Seconds of silence after which a follower is sent a heartbeat."""


class HandOver:
    """Hands work over in one piece: a client that leaves in the middle leaves no half of it behind."""

    def __init__(self) -> None:
        self._under_way: set[asyncio.Future[None]] = set()

    async def do(self, work: Coroutine[Any, Any, None]) -> None:
        """Do it to its end, even if whoever waits is cancelled."""
        task = asyncio.ensure_future(work)
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        await asyncio.shield(task)


async def until_one_ends(*work: Coroutine[Any, Any, None]) -> None:
    """Do all of it at once until something ends; what that raises is raised, and the rest is cancelled."""
    tasks = [asyncio.create_task(each) for each in work]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def as_stored(
    look: Callable[[], Awaitable[tuple[Sequence[T], bool]]], more: Subscription
) -> AsyncGenerator[Sequence[T], None]:
    """What `look` finds, again and again, until it says that this was all. A database that is away is waited
    for. Nothing, after some silence, says that somebody is still at work."""
    loop = asyncio.get_running_loop()
    silent_since = loop.time()
    while True:
        try:
            rows, ended = await look()
        except StoreUnavailable:
            rows, ended = (), False
        if rows or loop.time() - silent_since > HEARTBEAT:
            yield rows
            silent_since = loop.time()
        if ended:
            return
        await more.wait(POLL)
