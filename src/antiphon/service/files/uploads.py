"""Uploads: large files in parts, in any order; completing one joins them."""

import asyncio
import hashlib
from collections.abc import AsyncIterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol
from weakref import WeakValueDictionary

from antiphon.caller import Caller
from antiphon.errors import InvalidRequest
from antiphon.protocol.files import CompleteUpload, NewFile, NewUpload
from antiphon.service.files.contents import ContentWriter
from antiphon.service.files.files import Files
from antiphon.store.files import StoredFile, Upload, UploadPart, upload_not_pending

LIFETIME_SECONDS = 3600
"""An upload must be completed within this time."""
MAX_PART_BYTES = 64 * 1024 * 1024
DEFAULT_MAX_UPLOAD_BYTES = 8 * 1024 * 1024 * 1024


class IncomingPart(Protocol):
    """A part that arrives."""

    @property
    def declared_bytes(self) -> int:
        """About how many bytes will arrive; 0 if that is not known."""
        ...

    def content(self) -> AsyncIterable[bytes]:
        """The content, in pieces of any size."""
        ...


@dataclass(frozen=True, slots=True)
class Uploads:
    """The operations on uploads. Their parts and files are stored like any file."""

    files: Files
    max_bytes: int = DEFAULT_MAX_UPLOAD_BYTES
    _completing: WeakValueDictionary[tuple[str, str], asyncio.Lock] = field(
        default_factory=WeakValueDictionary[tuple[str, str], asyncio.Lock]
    )
    """By tenant and upload."""

    async def create(self, caller: Caller, new: NewUpload) -> Upload:
        """A new upload without parts."""
        now = int(self.files.clock())
        upload = Upload(
            id=self.files.ids.new("upload"),
            filename=new.file.filename,
            purpose=new.file.purpose,
            media_type=new.file.media_type,
            bytes=new.bytes,
            created_at=now,
            expires_at=now + LIFETIME_SECONDS,
            file_lifetime=new.file.lifetime,
        )
        await self.files.store.add_upload(caller.tenant, upload)
        return upload

    async def add_part(self, caller: Caller, upload_id: str, incoming: IncomingPart) -> UploadPart:
        """Store a part while it arrives."""
        await self._pending(caller, upload_id)
        contents = self.files.contents
        expected = min(incoming.declared_bytes, MAX_PART_BYTES)
        async with contents.write(caller.tenant, MAX_PART_BYTES, expected) as writer:
            async for piece in incoming.content():
                await writer.write(piece)
            if not writer.size:
                raise InvalidRequest("The part is empty.", param="data", code="empty_file")
            await writer.finish()
            part = UploadPart(
                id=self.files.ids.new("part"),
                key=writer.key,
                bytes=writer.size,
                created_at=int(self.files.clock()),
            )
            await self.files.store.add_part(caller.tenant, upload_id, part, contents.quota)
        return part

    async def complete(
        self, caller: Caller, upload_id: str, wanted: CompleteUpload
    ) -> tuple[Upload, StoredFile]:
        """Join the parts. Completing an upload again returns what became of it: a client may have missed the
        first answer. At the same time it is joined once."""
        lock = self._completing.setdefault((caller.tenant, upload_id), asyncio.Lock())
        async with lock:
            return await self._complete(caller, upload_id, wanted)

    async def cancel(self, caller: Caller, upload_id: str) -> Upload:
        """Cancel an upload and delete its parts. Cancelling it again changes nothing."""
        upload = await self.files.store.upload(caller.tenant, upload_id)
        if upload.status == "cancelled":
            return upload
        await self.files.contents.delete(await self.files.store.cancel_upload(caller.tenant, upload_id))
        return await self.files.store.upload(caller.tenant, upload_id)

    async def _complete(
        self, caller: Caller, upload_id: str, wanted: CompleteUpload
    ) -> tuple[Upload, StoredFile]:
        store, contents = self.files.store, self.files.contents
        upload = await store.upload(caller.tenant, upload_id)
        if upload.status == "completed" and upload.file is not None:
            return upload, await store.file(caller.tenant, upload.file)
        if upload.status != "pending":
            raise upload_not_pending(upload)
        parts = _chosen(wanted.part_ids, await store.parts(caller.tenant, upload_id))
        _check_size(upload, parts)
        # The parts count for the quota already, and go when the file comes.
        async with contents.write(caller.tenant, upload.bytes, charged_bytes=upload.bytes) as writer:
            md5 = await self._join(parts, writer)
            if wanted.md5 is not None and md5 != wanted.md5:
                raise _other_md5(md5, wanted.md5)
            new = NewFile(
                filename=upload.filename,
                purpose=upload.purpose,
                media_type=upload.media_type,
                lifetime=upload.file_lifetime,
            )
            file = self.files.new_file(new, writer.key, writer.size, await writer.finish())
            unneeded = await store.complete_upload(caller.tenant, upload_id, file, contents.quota)
        await contents.delete(unneeded)
        return await store.upload(caller.tenant, upload_id), file

    async def _pending(self, caller: Caller, upload_id: str) -> Upload:
        upload = await self.files.store.upload(caller.tenant, upload_id)
        if upload.status != "pending":
            raise upload_not_pending(upload)
        return upload

    async def _join(self, parts: Sequence[UploadPart], writer: ContentWriter) -> str:
        """Copy the parts; the MD5 digest of them all."""
        digest = hashlib.md5(usedforsecurity=False)
        for part in parts:
            async for piece in self.files.contents.read(part.key, 0, part.bytes):
                await asyncio.to_thread(digest.update, piece)
                await writer.write(piece)
        return digest.hexdigest()


def _chosen(part_ids: Sequence[str], parts: Sequence[UploadPart]) -> list[UploadPart]:
    known = {part.id: part for part in parts}
    for number, part_id in enumerate(part_ids):
        if part_id not in known:
            message = f"Part '{part_id[:100]}' does not belong to this upload."
            raise InvalidRequest(message, param=f"part_ids[{number}]", code="invalid_value")
    return [known[part_id] for part_id in part_ids]


def _other_md5(found: str, wanted: str) -> InvalidRequest:
    message = f"The content has the MD5 digest {found}, not {wanted}. Check the parts and their order."
    return InvalidRequest(message, param="md5", code="md5_mismatch")


def _check_size(upload: Upload, parts: Sequence[UploadPart]) -> None:
    total = sum(part.bytes for part in parts)
    if total != upload.bytes:
        message = f"The parts have {total:,} bytes in all, but the upload was created for {upload.bytes:,}."
        raise InvalidRequest(message, param="part_ids", code="byte_count_mismatch")
