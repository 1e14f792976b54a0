"""A store of keys only; it can be made unreadable, and counts its reads."""

import asyncio
from collections.abc import Sequence

from msgspec.structs import replace

from antiphon.errors import NotFound, StoreUnavailable
from antiphon.store.base import ApiKey
from antiphon.store.signals import LocalSignals


class KeyStore:
    """Stores keys in a dict."""

    def __init__(self) -> None:
        self.signals = LocalSignals()
        self.stored: dict[str, ApiKey] = {}
        self.readable = True
        self.reads = 0
        self.seal_key = ""
        self._read = asyncio.Condition()

    async def add_key(self, key: ApiKey) -> None:
        self.stored[key.id] = key

    async def list_keys(self) -> Sequence[ApiKey]:
        self.reads += 1
        async with self._read:
            self._read.notify_all()
        if not self.readable:
            raise StoreUnavailable
        return list(self.stored.values())

    async def revoke_key(self, key_id: str, now: int) -> None:
        if key_id not in self.stored:
            raise NotFound
        self.stored[key_id] = replace(self.stored[key_id], revoked_at=now)

    async def delete_keys(self, key_ids: Sequence[str]) -> None:
        for key_id in key_ids:
            del self.stored[key_id]

    async def record_seal_key(self, fingerprint: str) -> str:
        self.seal_key = self.seal_key or fingerprint
        return self.seal_key

    async def replace_seal_key(self, fingerprint: str) -> None:
        self.seal_key = fingerprint

    async def wait_for_reads(self, more: int) -> None:
        """Wait until it was read this many more times."""
        wanted = self.reads + more
        async with asyncio.timeout(10), self._read:
            await self._read.wait_for(lambda: self.reads >= wanted)
