"""The indexes of the stores that were searched last, within a bound that includes those being loaded."""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from antiphon.store.chunk_index import ChunkIndex

StoreKey = tuple[str, str]
"""A tenant and the id of a store."""


class IndexCache:
    """Keeps indexes within `max_bytes`. An index that needs more than that alone is kept alone."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self._indexes: OrderedDict[StoreKey, ChunkIndex] = OrderedDict()
        """The one that was not used for the longest time is first."""
        self._loading: dict[StoreKey, int] = {}
        """The bytes that are reserved."""
        self._queue = asyncio.Lock()
        """Whoever waits for room: in the order of coming, so that a large index gets room, too."""
        self._loaded = asyncio.Event()

    @property
    def memory_bytes(self) -> int:
        """About what the kept indexes need."""
        return sum(index.memory_bytes for index in self._indexes.values())

    def get(self, key: StoreKey) -> ChunkIndex | None:
        """The index of a store, if it is kept; it was used now."""
        if key in self._indexes:
            self._indexes.move_to_end(key)
        return self._indexes.get(key)

    def keep(self, key: StoreKey, index: ChunkIndex) -> None:
        """Keep an index for which room is reserved."""
        self._indexes[key] = index
        self._indexes.move_to_end(key)

    def drop(self, key: StoreKey) -> None:
        """Forget the index of a store."""
        self._indexes.pop(key, None)

    def has_room_beside_others(self, key: StoreKey, size: int) -> bool:
        """Whether so many bytes fit without displacing other indexes."""
        return self._used_by_others(key) + size <= self.max_bytes

    @asynccontextmanager
    async def room(self, key: StoreKey, size: int) -> AsyncGenerator[None, None]:
        """Reserve bytes while the index of a store is loaded, which takes the place of its former one.

        Indexes that were not used for the longest time are displaced. If that is not enough, this waits for
        those that are being loaded.
        """
        async with self._queue:
            while self._loading and sum(self._loading.values()) + size > self.max_bytes:
                self._loaded.clear()
                await self._loaded.wait()
            self._loading[key] = size
        try:
            self._displace(key, size)
            yield
        finally:
            del self._loading[key]
            self._loaded.set()

    def _displace(self, key: StoreKey, size: int) -> None:
        for other in list(self._indexes):
            if self.has_room_beside_others(key, size):
                return
            if other != key:
                del self._indexes[other]

    def _used_by_others(self, key: StoreKey) -> int:
        """The bytes that other stores use. One that is being loaded counts once, with its former index."""
        kept = {other: index.memory_bytes for other, index in self._indexes.items()}
        sizes = {
            other: max(kept.get(other, 0), self._loading.get(other, 0)) for other in kept | self._loading
        }
        return sum(size for other, size in sizes.items() if other != key)
