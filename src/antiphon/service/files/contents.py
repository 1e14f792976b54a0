"""The content of files: written to the blob store while it arrives, and deleted from it."""

import asyncio
import hashlib
import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from antiphon.errors import AntiphonError, BodyTooLarge
from antiphon.service.files.pending import PendingBytes, WriteAllowance
from antiphon.store.blobs.port import PIECE_BYTES, BlobStore, BlobWriter
from antiphon.store.files import FileQuota, FileStore

logger = logging.getLogger(__name__)

INLINE_BYTES = 64 * 1024
"""Up to this size a hash is computed at once: a thread would cost more."""
MAX_PENDING_PIECES = 256
"""Small pieces are written earlier: each of them costs more memory than its bytes."""
TENANT_DIGITS = 16


@dataclass(frozen=True, slots=True)
class Contents:
    """Writes, reads and deletes objects. The rows that refer to them are the callers' concern."""

    store: FileStore
    blobs: BlobStore
    quota: FileQuota
    entropy: Callable[[int], bytes]
    pending: PendingBytes = field(default_factory=PendingBytes)

    @asynccontextmanager
    async def write(
        self, tenant: str, max_bytes: int, expected_bytes: int = 0, charged_bytes: int = 0
    ) -> AsyncGenerator["ContentWriter", None]:
        """A new object. Unless a row refers to it at the end of the context, it is deleted.

        It must fit into the quota of the tenant, together with what else is being written: `expected_bytes`
        at once, and the rest when it arrives. `charged_bytes` of it count for the quota already.
        """
        key, usage = self._new_key(tenant), self.pending.of(tenant)
        usage.stored = await self.store.reserve_object(tenant, key, expected_bytes, self.quota)
        allowance = WriteAllowance(usage, self.quota, charged_bytes)
        writer = None
        try:
            allowance.cover(expected_bytes)
            writer = ContentWriter(key, await self.blobs.create(key), max_bytes, allowance)
            yield writer
        except BaseException:
            await self._discard(key, writer)
            raise
        finally:
            allowance.end()

    def read(self, key: str, start: int, end: int) -> AsyncGenerator[bytes, None]:
        """The bytes [start, end) of an object."""
        return self.blobs.read(key, start, end)

    async def delete(self, keys: Sequence[str]) -> None:
        """Delete objects that no row refers to. If this fails, upkeep does it."""
        if not keys:
            return
        try:
            await self.blobs.delete(keys)
            await self.store.forget_objects(keys)
        except AntiphonError as error:
            logger.warning("%d objects of files are deleted later: %s", len(keys), error.message)

    async def _discard(self, key: str, writer: "ContentWriter | None") -> None:
        """Leave nothing of an object behind, unless a row refers to it: a transaction may have succeeded
        whose caller was cancelled."""
        try:
            if writer is not None:
                await writer.abort()
            is_unreferenced = await self.store.release_object(key)
        except AntiphonError as error:
            logger.warning("an incomplete file is deleted later: %s", error.message)
            return
        if is_unreferenced:
            await self.delete([key])

    def _new_key(self, tenant: str) -> str:
        folder = hashlib.sha256(tenant.encode()).hexdigest()[:TENANT_DIGITS]
        name = self.entropy(16).hex()
        return f"{folder}/{name[:2]}/{name[2:]}"


class ContentWriter:
    """Collects pieces of any size. They are hashed and written in threads, while the next ones arrive."""

    def __init__(self, key: str, blob: BlobWriter, max_bytes: int, allowance: WriteAllowance) -> None:
        self.key = key
        self.size = 0
        self._blob: BlobWriter | None = blob
        self._max_bytes = max_bytes
        self._allowance = allowance
        self._hash = hashlib.sha256()
        self._pending: list[bytes] = []
        self._pending_bytes = 0
        self._flushing: asyncio.Task[None] | None = None

    async def write(self, piece: bytes) -> None:
        """Append a piece. Raises `BodyTooLarge` beyond the limit, and `InvalidRequest` beyond the quota."""
        self.size += len(piece)
        if self.size > self._max_bytes:
            raise BodyTooLarge(f"The file is too large; the limit is {self._max_bytes:,} bytes.")
        self._allowance.cover(self.size)
        self._pending.append(piece)
        self._pending_bytes += len(piece)
        if self._pending_bytes >= PIECE_BYTES or len(self._pending) >= MAX_PENDING_PIECES:
            await self._flush()

    async def finish(self) -> str:
        """Complete the object; returns the SHA-256 of its content."""
        await self._flush()
        await self._flushed()
        blob = self._blob
        assert blob is not None
        await blob.commit()
        self._blob = None
        self._allowance.settle()
        return self._hash.hexdigest()

    async def abort(self) -> None:
        """Delete what is written, unless the object is complete."""
        with suppress(AntiphonError):  # which may be the reason
            await self._flushed()
        blob, self._blob = self._blob, None
        if blob is not None:
            await blob.abort()

    async def _flush(self) -> None:
        pieces, self._pending, self._pending_bytes = self._pending, [], 0
        await self._flushed()
        self._flushing = asyncio.create_task(self._hash_and_write(pieces))

    async def _flushed(self) -> None:
        """Wait for the pieces that are being written; a thread cannot be cancelled."""
        if self._flushing is not None:
            await asyncio.shield(self._flushing)
            self._flushing = None

    async def _hash_and_write(self, pieces: Sequence[bytes]) -> None:
        assert self._blob is not None
        if sum(map(len, pieces)) > INLINE_BYTES:
            await asyncio.to_thread(self._add_to_hash, pieces)
        else:
            self._add_to_hash(pieces)
        await self._blob.write(pieces if len(pieces) < MAX_PENDING_PIECES else [b"".join(pieces)])

    def _add_to_hash(self, pieces: Sequence[bytes]) -> None:
        for piece in pieces:
            self._hash.update(piece)
