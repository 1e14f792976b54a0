"""One process works in the background on an SQLite file, and no other.

The lock is the kernel's: it goes with the process, however that ends. So whoever gets it knows that what was
left unfinished is nobody's.
"""

import asyncio
from pathlib import Path
from typing import IO

from antiphon.errors import Unavailable
from antiphon.runs.base import Engine

try:
    import fcntl
except ImportError:  # Windows has no such lock; there, one server per file is the operator's promise.
    fcntl = None

LOOK = 1.0
"""Seconds between two looks whether the lock is free."""


def lock_path(store: Path) -> Path:
    """The lock file of an SQLite store."""
    return store.with_name(f"{store.name}.lock")


class SoleEngine:
    """An engine that works only while this process holds the lock file."""

    def __init__(self, engine: Engine, lock: Path) -> None:
        self._engine = engine
        self._path = lock
        self._lock: IO[bytes] | None = None

    @property
    def owner(self) -> str:
        """The name of this process."""
        return self._engine.owner

    def acquire(self) -> bool:
        """Become the one that works; False if another process is."""
        if self._lock is not None:
            return True
        file = self._path.open("ab")
        try:
            if fcntl is not None:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            return False
        self._lock = file
        return True

    async def acquired(self) -> None:
        """Return when this process is the one that works."""
        while not self.acquire():  # noqa: ASYNC110 -- the kernel tells nobody when a lock is free
            await asyncio.sleep(LOOK)

    async def submit(self, tenant: str, response_id: str) -> None:
        """Have a response made here."""
        if not self.acquire():
            raise Unavailable(
                "Another process works in the background on this SQLite file. Ask that one, "
                "or share a PostgreSQL store."
            )
        await self._engine.submit(tenant, response_id)

    async def stop(self, tenant: str, response_id: str) -> None:
        """Stop work on a response."""
        await self._engine.stop(tenant, response_id)

    async def aclose(self) -> None:
        """Stop everything; another process may work now."""
        await self._engine.aclose()
        if self._lock is not None:
            self._lock.close()
