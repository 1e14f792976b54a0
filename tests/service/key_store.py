"""A store of keys alone; it can be unreadable, and tells when it was read."""

import asyncio
from collections.abc import Sequence

from msgspec.structs import replace

from antiphon.errors import NotFound, StoreUnavailable
from antiphon.store.base import ApiKey
from antiphon.store.signals import LocalSignals


class KeyStore:
    """Keeps keys in a dict."""

    def __init__(self) -> None:
        self.signals = LocalSignals()
        self.kept: dict[str, ApiKey] = {}
        self.readable = True
        self.reads = 0
        self._read = asyncio.Condition()

    async def add_key(self, key: ApiKey) -> None:
        self.kept[key.id] = key

    async def list_keys(self) -> Sequence[ApiKey]:
        self.reads += 1
        async with self._read:
            self._read.notify_all()
        if not self.readable:
            raise StoreUnavailable
        return list(self.kept.values())

    async def revoke_key(self, key_id: str, now: int) -> None:
        if key_id not in self.kept:
            raise NotFound
        self.kept[key_id] = replace(self.kept[key_id], revoked_at=now)

    async def wait_for_reads(self, more: int) -> None:
        """Until it was read so many times more."""
        wanted = self.reads + more
        async with asyncio.timeout(10), self._read:
            await self._read.wait_for(lambda: self.reads >= wanted)
