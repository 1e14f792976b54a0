"""How many bytes of files and histories are in memory at once: while they are read, and while models are sent
them.

Requests name them by ids and URLs, so their bodies are small: the limits of bodies do not apply to them.
"""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import NamedTuple, Self

from antiphon.errors import Overloaded
from antiphon.memory_use import resident_bytes

MAX_READ_BYTES = 256 * 1024 * 1024
"""Of files that are being read, of all tenants; one may use a quarter of it."""
TENANT_SHARE = 4
SMALL_BYTES = 64 * 1024
DEFAULT_HELD_BYTES = 512 * 1024 * 1024
COPIES = 2
"""How often content is in memory again when a model is sent it: encoded, and joined."""
MEMORY_SHARE = 0.8
"""Of the ceiling of the process: running answers and child processes grow, too."""


class _Waiting(NamedTuple):
    tenant: str
    size: int
    granted: asyncio.Future[None]


class ReadingRoom:
    """Files that are being read. Who finds no room waits; the first file of a tenant needs none of its share,
    and the first of all is always read."""

    def __init__(self, max_bytes: int = MAX_READ_BYTES) -> None:
        self._max_bytes = max_bytes
        self._tenants: Counter[str] = Counter()
        self._bytes = 0
        self._waiting: deque[_Waiting] = deque()

    @asynccontextmanager
    async def taken(self, tenant: str, size: int) -> AsyncGenerator[None, None]:
        """Wait for room for a file, and take it. A small one is not counted."""
        size = 0 if size <= SMALL_BYTES else size
        if not size:
            pass
        elif self._waiting or not self._fits(tenant, size):
            waiting = _Waiting(tenant, size, asyncio.get_running_loop().create_future())
            self._waiting.append(waiting)
            self._grant()
            try:
                await waiting.granted
            except asyncio.CancelledError:
                if waiting.granted.cancelled():  # it may have been dropped already
                    with suppress(ValueError):
                        self._waiting.remove(waiting)
                    self._grant()
                else:
                    self._give_back(tenant, size)
                raise
        else:
            self._take(tenant, size)
        try:
            yield
        finally:
            if size:
                self._give_back(tenant, size)

    def _fits(self, tenant: str, size: int) -> bool:
        if self._has_share(tenant, size):
            return not self._bytes or self._bytes + size <= self._max_bytes
        return False

    def _has_share(self, tenant: str, size: int) -> bool:
        used = self._tenants[tenant]
        return not used or used + size <= self._max_bytes // TENANT_SHARE

    def _take(self, tenant: str, size: int) -> None:
        self._tenants[tenant] += size
        self._bytes += size

    def _give_back(self, tenant: str, size: int) -> None:
        self._tenants[tenant] -= size
        self._bytes -= size
        if not self._tenants[tenant]:
            del self._tenants[tenant]
        self._grant()

    def _grant(self) -> None:
        """Let those read who come first. One who waits for its own share delays nobody else; one who waits
        for the share of all does, or small files would go before a large one for ever."""
        still: deque[_Waiting] = deque()
        while self._waiting:
            waiting = self._waiting.popleft()
            if waiting.granted.done():
                continue
            if self._fits(waiting.tenant, waiting.size):
                self._take(waiting.tenant, waiting.size)
                waiting.granted.set_result(None)
            elif self._has_share(waiting.tenant, waiting.size):
                still.append(waiting)
                break
            else:
                still.append(waiting)
        self._waiting.extendleft(reversed(still))


class SentContent:
    """The bytes of files and long histories that models are sent, of all tenants; one may use half of them.

    With `max_memory_bytes`, there is no room either if the process would have more than a share of that.
    """

    def __init__(self, max_bytes: int = DEFAULT_HELD_BYTES, max_memory_bytes: int = 0) -> None:
        self._max_bytes = max_bytes
        self._max_memory = max_memory_bytes * MEMORY_SHARE
        self._tenants: Counter[str] = Counter()

    @property
    def total(self) -> int:
        """The bytes of all tenants."""
        return self._tenants.total()

    def hold(self, tenant: str) -> "HeldContent":
        """The content of one response; none yet."""
        return HeldContent(self, tenant)

    def reserve(self, tenant: str, size: int, own: int) -> None:
        """Raise `Overloaded` if there is no room for so many more bytes of a response that holds `own`. If no
        other one of the tenant holds any, it may hold more than half."""
        used = self._tenants[tenant]
        is_beyond_half = used > own and used + size > self._max_bytes // 2
        if is_beyond_half or self.total + size > self._max_bytes:
            message = "Too many large files and histories are being sent to models. Try again in a moment."
            raise Overloaded(message)
        if self._max_memory and resident_bytes() + COPIES * (own + size) > self._max_memory:
            raise Overloaded("The server has too little memory for this request. Try again in a moment.")
        self._tenants[tenant] += size

    def release(self, tenant: str, size: int) -> None:
        """Give bytes back."""
        self._tenants[tenant] -= size
        if not self._tenants[tenant]:
            del self._tenants[tenant]


class HeldContent:
    """The bytes of files and of the history that the turns of a response send, until the last has ended."""

    __slots__ = ("_sent", "_tenant", "size")

    def __init__(self, sent: SentContent, tenant: str) -> None:
        self._sent = sent
        self._tenant = tenant
        self.size = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def add(self, size: int) -> None:
        """Hold so many bytes more. Raises `Overloaded`."""
        self._sent.reserve(self._tenant, size, self.size)
        self.size += size

    def release(self, kept: int = 0) -> None:
        """Give all but so many bytes back."""
        if self.size > kept:
            self._sent.release(self._tenant, self.size - kept)
            self.size = kept
