"""`FileStore` on a SQL database: every call is one script, run as one transaction."""

from collections.abc import Sequence

from antiphon.protocol.ids import Clock
from antiphon.store import file_scripts, upload_scripts
from antiphon.store.database import Database
from antiphon.store.files import FilePage, FileQuota, StoredFile, Upload, UploadPart


class SqlFiles:
    """See `FileStore`."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._db = database
        self._clock = clock

    def _now(self) -> int:
        return int(self._clock())

    async def reserve_object(self, tenant: str, key: str, size: int, quota: FileQuota) -> int:
        """Record an object that will be written; the bytes that are stored."""
        return await self._db.write(file_scripts.reserve(tenant, key, size, quota))

    async def release_object(self, key: str) -> bool:
        """Have an object deleted that is not needed."""
        return await self._db.write(file_scripts.release(key), durable=False)

    async def due_objects(self, limit: int) -> Sequence[str]:
        """The keys of objects to delete."""
        return await self._db.read(file_scripts.due(limit))

    async def forget_objects(self, keys: Sequence[str]) -> None:
        """These objects are deleted."""
        await self._db.write(file_scripts.forget(keys), durable=False)

    async def add_file(self, tenant: str, file: StoredFile, quota: FileQuota) -> Sequence[str]:
        """Save a file whose object is written."""
        return await self._db.write(file_scripts.add(tenant, file, quota))

    async def file(self, tenant: str, file_id: str) -> StoredFile:
        """Return one file."""
        return await self._db.read(file_scripts.find(tenant, file_id, self._now()))

    async def list_files(self, tenant: str, page: FilePage) -> tuple[Sequence[StoredFile], bool]:
        """A part of the list, and whether more follows."""
        return await self._db.read(file_scripts.newest(tenant, page, self._now()))

    async def delete_file(self, tenant: str, file_id: str) -> Sequence[str]:
        """Delete a file. It may be in a thousand vector stores."""
        return await self._db.write(file_scripts.delete(tenant, file_id, self._now()), large=True)

    async def add_upload(self, tenant: str, upload: Upload) -> None:
        """Save a new upload."""
        await self._db.write(upload_scripts.add(tenant, upload))

    async def upload(self, tenant: str, upload_id: str) -> Upload:
        """Return one upload."""
        return await self._db.read(upload_scripts.find(tenant, upload_id, self._now()))

    async def add_part(self, tenant: str, upload_id: str, part: UploadPart, quota: FileQuota) -> None:
        """Save a part whose object is written."""
        await self._db.write(upload_scripts.add_part(tenant, upload_id, part, quota, self._now()))

    async def parts(self, tenant: str, upload_id: str) -> Sequence[UploadPart]:
        """The parts of an upload."""
        return await self._db.read(upload_scripts.parts(tenant, upload_id))

    async def complete_upload(
        self, tenant: str, upload_id: str, file: StoredFile, quota: FileQuota
    ) -> Sequence[str]:
        """Save the file of an upload in place of its parts."""
        return await self._db.write(upload_scripts.complete(tenant, upload_id, file, quota, self._now()))

    async def cancel_upload(self, tenant: str, upload_id: str) -> Sequence[str]:
        """Cancel an upload and delete its parts."""
        return await self._db.write(upload_scripts.cancel(tenant, upload_id, self._now()))
