"""Signals wake waiters. They carry no data and may get lost, so waiters read the database.

Topics: ``events:ID`` (more events of a response), ``ended:ID`` (a run was cancelled), ``runs`` (work without
an owner), ``keys`` (keys were changed).
"""

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Protocol


class Signals(Protocol):
    """Wakes waiters, in this process and, where the store is shared, in all others."""

    def publish(self, topic: str) -> None:
        """Wake all subscribers of the topic. Never blocks; consecutive signals may be merged."""
        ...

    def subscribe(self, topic: str) -> "Subscription":
        """Subscribe to a topic; use the result as a context manager."""
        ...


class Subscription:
    """One waiter. A signal between two waits is not lost: the next `wait` returns at once."""

    def __init__(
        self, enter: Callable[["Subscription"], None], leave: Callable[["Subscription"], None]
    ) -> None:
        self._enter = enter
        self._leave = leave
        self._woken = asyncio.Event()

    def __enter__(self) -> "Subscription":
        self._enter(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leave(self)

    def wake(self) -> None:
        """End the current wait, or the next one."""
        self._woken.set()

    async def wait(self, seconds: float) -> bool:
        """Wait for a signal; False on timeout. Read the database in both cases: signals may get lost."""
        try:
            async with asyncio.timeout(seconds):
                await self._woken.wait()
        except TimeoutError:
            return False
        self._woken.clear()
        return True


class LocalSignals:
    """Signals within one process."""

    def __init__(self) -> None:
        self._topics: dict[str, set[Subscription]] = {}

    def publish(self, topic: str) -> None:
        """Wake the waiters of this process."""
        for subscription in self._topics.get(topic, ()):
            subscription.wake()

    def subscribe(self, topic: str) -> Subscription:
        """Subscribe to a topic."""

        def enter(subscription: Subscription) -> None:
            self._topics.setdefault(topic, set()).add(subscription)

        def leave(subscription: Subscription) -> None:
            waiters = self._topics.get(topic, set())
            waiters.discard(subscription)
            if not waiters:
                self._topics.pop(topic, None)

        return Subscription(enter, leave)
