"""Work on many items that would hold the event loop for tens of milliseconds."""

import asyncio
from collections.abc import Callable
from typing import TypeVar
from weakref import WeakValueDictionary

T = TypeVar("T")

SHORT_BODY_BYTES = 16 * 1024
MANY_ITEMS = 300
"""Up to so many items cost a millisecond or less: nobody need get a turn between."""
THREAD_ITEMS = 5000
"""More are worked on in a thread, which takes turns with the event loop every few milliseconds."""


async def let_others_run(items: int) -> None:
    """Let others have their turn after work on many items."""
    if items > MANY_ITEMS:
        await asyncio.sleep(0)


def objects_in(body: object) -> int:
    """At most so many JSON objects are in a body; 0 for a short one, whose objects do not matter. A body
    without its long texts has few."""
    if not isinstance(body, bytes) or len(body) <= SHORT_BODY_BYTES:
        return 0
    return body.count(b"{")


class LongWork:
    """Runs functions of immutable values. Those on very many items run in a thread, one at a time, tenants in
    turn: several threads would take the time of the event loop."""

    def __init__(self) -> None:
        self._tenants: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._thread = asyncio.Lock()

    async def run(self, tenant: str, items: int, work: Callable[[], T]) -> T:
        """The result of work on so many items."""
        if items <= THREAD_ITEMS:
            await let_others_run(items)
            return work()
        async with self._tenants.setdefault(tenant, asyncio.Lock()), self._thread:
            return await asyncio.to_thread(work)
