"""The port of files and uploads: their rows, and the objects of the blob store that the rows refer to.

An object is written before its row. So its key is recorded first, as unreferenced; the row that refers to it
takes the record away. An object whose record is due is deleted: nothing that a crash has left stays.
"""

from collections.abc import Sequence
from typing import Literal, Protocol

from msgspec import Struct

from antiphon.errors import InvalidRequest, NotFound

WRITE_TIMEOUT_SECONDS = 24 * 3600.0
"""An object must be complete and referred to within this time, or it is deleted."""
UPLOAD_ROW_SECONDS = 24 * 3600
"""How long the row of an expired or ended upload stays, so that later calls learn what became of it."""

UploadStatus = Literal["pending", "completed", "cancelled", "expired"]


class StoredFile(Struct, frozen=True, kw_only=True):
    """A file. `hash` is the SHA-256 of its content, `key` the object that holds it; lists omit the key."""

    id: str
    filename: str
    purpose: str
    media_type: str
    bytes: int
    hash: str
    created_at: int
    expires_at: int | None = None
    key: str = ""


class FilePage(Struct, frozen=True, kw_only=True):
    """The requested part of a list of files. `after` is an id; that file may be deleted meanwhile."""

    after: str | None = None
    limit: int = 10_000
    order: Literal["asc", "desc"] = "desc"
    purpose: str | None = None


class Upload(Struct, frozen=True, kw_only=True):
    """A file that is sent in parts. `file` is the id of the file that it became."""

    id: str
    filename: str
    purpose: str
    media_type: str
    bytes: int
    created_at: int
    expires_at: int
    status: UploadStatus = "pending"
    file_lifetime: int | None = None
    file: str | None = None


class UploadPart(Struct, frozen=True, kw_only=True):
    """A part of an upload, with the object that holds it."""

    id: str
    key: str
    bytes: int
    created_at: int


class FileQuota(Struct, frozen=True):
    """What one tenant may store."""

    files: int
    bytes: int


class FileStore(Protocol):
    """Files and uploads of all tenants. Calls that delete rows return the keys of objects to delete now;
    those keys are recorded, so that upkeep deletes the objects if the caller does not."""

    async def reserve_object(self, tenant: str, key: str, size: int, quota: FileQuota) -> int:
        """Record that an object will be written under this key, of about so many bytes.

        The result is how many bytes the tenant has stored. Raises `InvalidRequest` if the quota has no room
        for the object.
        """
        ...

    async def release_object(self, key: str) -> bool:
        """Have a reserved object deleted that is not needed. False: a row refers to it, so it stays."""
        ...

    async def due_objects(self, limit: int) -> Sequence[str]:
        """The keys of objects to delete."""
        ...

    async def forget_objects(self, keys: Sequence[str]) -> None:
        """These objects are deleted."""
        ...

    async def add_file(self, tenant: str, file: StoredFile, quota: FileQuota) -> Sequence[str]:
        """Save a file whose object is written. If its tenant has the same content already, the file refers to
        that, and the new object is to be deleted."""
        ...

    async def file(self, tenant: str, file_id: str) -> StoredFile:
        """Return one file."""
        ...

    async def list_files(self, tenant: str, page: FilePage) -> tuple[Sequence[StoredFile], bool]:
        """A part of the list, and whether more follows."""
        ...

    async def delete_file(self, tenant: str, file_id: str) -> Sequence[str]:
        """Delete a file."""
        ...

    async def add_upload(self, tenant: str, upload: Upload) -> None:
        """Save a new upload."""
        ...

    async def upload(self, tenant: str, upload_id: str) -> Upload:
        """Return one upload."""
        ...

    async def add_part(self, tenant: str, upload_id: str, part: UploadPart, quota: FileQuota) -> None:
        """Save a part whose object is written. Raises `InvalidRequest` unless the upload is pending."""
        ...

    async def parts(self, tenant: str, upload_id: str) -> Sequence[UploadPart]:
        """The parts of an upload."""
        ...

    async def complete_upload(
        self, tenant: str, upload_id: str, file: StoredFile, quota: FileQuota
    ) -> Sequence[str]:
        """Save the file of an upload in place of its parts. Raises `InvalidRequest` unless it is pending."""
        ...

    async def cancel_upload(self, tenant: str, upload_id: str) -> Sequence[str]:
        """Cancel an upload and delete its parts. Raises `InvalidRequest` unless it is pending."""
        ...


def file_not_found(file_id: str, param: str | None = None) -> NotFound:
    """The same error for unknown, foreign, deleted and expired files."""
    return NotFound(f"No such File object: {file_id}", param=param or "id", code="not_found")


def upload_not_found(upload_id: str) -> NotFound:
    """The same error for unknown and foreign uploads."""
    return NotFound(f"Upload with id '{upload_id}' not found.", param="upload_id", code="not_found")


def upload_not_pending(upload: Upload) -> InvalidRequest:
    """The error for work on an upload that has ended."""
    return InvalidRequest(
        f"Upload '{upload.id}' is {upload.status}, not pending. Create another upload.",
        param="upload_id",
        code=f"upload_{upload.status}",
    )


def too_many_files(quota: FileQuota) -> InvalidRequest:
    """The error of a tenant that has as many files as it may have."""
    message = f"The limit of {quota.files:,} files is reached. Delete files that you do not need."
    return InvalidRequest(message, param="file", code="file_quota_exceeded")


def too_many_bytes(quota: FileQuota) -> InvalidRequest:
    """The error of a tenant that stores as much as it may store."""
    message = (
        f"There is no room for this file: all files together may have {quota.bytes:,} bytes. "
        "Delete files that you do not need."
    )
    return InvalidRequest(message, param="file", code="file_quota_exceeded")
