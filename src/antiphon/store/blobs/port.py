"""The port of blob stores: objects of bytes under keys, written once, read in ranges.

The callers choose the keys, which are random: an object is never overwritten, and nobody reads one that is
not complete.
"""

from collections.abc import AsyncGenerator, Sequence
from typing import Protocol

PIECE_BYTES = 1024 * 1024
"""About how much is written or read at once: what one transfer holds in memory."""


class BlobWriter(Protocol):
    """An object that is being written. End it with `commit` or `abort`."""

    async def write(self, pieces: Sequence[bytes]) -> None:
        """Append pieces of any size. Raises `StoreFull` or `StoreUnavailable`."""
        ...

    async def commit(self) -> None:
        """The object is complete; when this returns, a crash does not lose it."""
        ...

    async def abort(self) -> None:
        """Leave nothing behind."""
        ...


class BlobStore(Protocol):
    """Objects. Failures of the store itself are `StoreUnavailable` or `StoreFull`."""

    async def create(self, key: str) -> BlobWriter:
        """Begin an object."""
        ...

    def read(self, key: str, start: int, end: int) -> AsyncGenerator[bytes, None]:
        """The bytes [start, end) of an object, in pieces. Raises `StoreUnavailable` if it does not exist or
        is shorter."""
        ...

    async def delete(self, keys: Sequence[str]) -> None:
        """Delete objects, complete or not. Those that do not exist are ignored."""
        ...
