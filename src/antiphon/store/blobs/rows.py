"""The blob store in the database itself, as rows of pieces: for replicas that share only a database."""

from collections.abc import AsyncGenerator, Sequence

from antiphon.errors import StoreUnavailable
from antiphon.store.blobs.port import PIECE_BYTES
from antiphon.store.database import Database, Script, Statement


class RowBlobs:
    """See `BlobStore`.

    Pieces are not durable by themselves: the transaction of the row that refers to them is, and what was
    committed before it is then on disk as well.
    """

    def __init__(self, database: Database) -> None:
        self._db = database

    async def create(self, key: str) -> "RowWriter":
        """Begin an object."""
        return RowWriter(self._db, key)

    async def read(self, key: str, start: int, end: int) -> AsyncGenerator[bytes, None]:
        """The bytes [start, end) of an object."""
        while start < end:
            number, offset = divmod(start, PIECE_BYTES)
            piece = await self._db.read(_piece(key, number))
            part = piece[offset : offset + end - start]
            if not part:
                raise StoreUnavailable("The content of this file is not in the database.")
            yield part
            start += len(part)

    async def delete(self, keys: Sequence[str]) -> None:
        """Delete objects, one per transaction: each may be large."""
        for key in keys:
            await self._db.write(_run("delete_object", key), durable=False)


class RowWriter:
    """See `BlobWriter`. Every row but the last has `PIECE_BYTES`, so that a range is found by its numbers."""

    def __init__(self, database: Database, key: str) -> None:
        self._db = database
        self._key = key
        self._number = 0
        self._rest = b""

    async def write(self, pieces: Sequence[bytes]) -> None:
        """Append pieces."""
        content = b"".join((self._rest, *pieces))
        end = len(content) - len(content) % PIECE_BYTES
        self._rest = content[end:]
        for start in range(0, end, PIECE_BYTES):
            await self._add(content[start : start + PIECE_BYTES])

    async def commit(self) -> None:
        """Add the last row."""
        if self._rest:
            await self._add(self._rest)

    async def abort(self) -> None:
        """Delete the rows."""
        if self._number:
            await self._db.write(_run("delete_object", self._key), durable=False)

    async def _add(self, data: bytes) -> None:
        await self._db.write(_run("add_object_piece", self._key, self._number, data), durable=False)
        self._number += 1


def _run(name: str, *args: object) -> Script[None]:
    yield Statement(name, args)


def _piece(key: str, number: int) -> Script[bytes]:
    rows = yield Statement("object_piece", (key, number))
    return bytes(rows[0][0]) if rows else b""
