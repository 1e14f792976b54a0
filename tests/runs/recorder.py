"""Work that tests can watch and steer."""

import asyncio
from collections import Counter
from collections.abc import Callable

DEADLOCK = 60.0
"""Seconds after which a test no longer waits for something that does not happen."""


class Recorder:
    """Counts what it is asked to do; work on an id goes on until the test lets it end."""

    def __init__(self) -> None:
        self.starts: Counter[str] = Counter()
        self.cancelled: set[str] = set()
        self.ended: set[str] = set()
        self.loops: set[asyncio.AbstractEventLoop] = set()
        self._released: set[str] = set()
        self._changed = asyncio.Condition()

    async def work(self, tenant: str, response_id: str) -> None:
        """The work."""
        assert tenant == "tenant"
        self.loops.add(asyncio.get_running_loop())
        self.starts[response_id] += 1
        await self._tell()
        try:
            await self._until(lambda: response_id in self._released)
        except asyncio.CancelledError:
            self.cancelled.add(response_id)
            raise
        self.ended.add(response_id)
        await self._tell()

    async def started(self, *response_ids: str, times: int = 1) -> None:
        """Wait until work on all of them has started so often."""
        await self._soon(lambda: all(self.starts[response_id] >= times for response_id in response_ids))

    async def release(self, *response_ids: str) -> None:
        """Let work on them end, and wait for it."""
        self._released.update(response_ids)
        await self._tell()
        await self._soon(lambda: self.ended.issuperset(response_ids))

    async def _soon(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(DEADLOCK):
            await self._until(condition)

    async def _until(self, condition: Callable[[], bool]) -> None:
        async with self._changed:
            await self._changed.wait_for(condition)

    async def _tell(self) -> None:
        async with self._changed:
            self._changed.notify_all()
