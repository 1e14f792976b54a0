"""Scripts of uploads: parts, which become one file or are deleted."""

from collections import Counter
from collections.abc import Sequence

from msgspec.structs import replace

from antiphon.store import file_scripts
from antiphon.store.database import Row, Script, Statement
from antiphon.store.files import (
    UPLOAD_ROW_SECONDS,
    FileQuota,
    StoredFile,
    Upload,
    UploadPart,
    UploadStatus,
    upload_not_found,
    upload_not_pending,
)


def add(tenant: str, upload: Upload) -> Script[None]:
    """Save a new upload."""
    row = (
        *(tenant, upload.id, upload.filename, upload.purpose, upload.media_type, upload.bytes),
        *(upload.created_at, upload.expires_at, upload.file_lifetime),
    )
    yield Statement("add_upload", row)


def find(tenant: str, upload_id: str, now: int) -> Script[Upload]:
    """Return one upload."""
    rows = yield Statement("find_upload", (tenant, upload_id))
    if not rows:
        raise upload_not_found(upload_id)
    upload = _upload(rows[0])
    if upload.status == "pending" and upload.expires_at <= now:
        return replace(upload, status="expired")
    return upload


def add_part(tenant: str, upload_id: str, part: UploadPart, quota: FileQuota, now: int) -> Script[None]:
    """Save a part of a pending upload."""
    yield from _lock(tenant, upload_id, now)
    yield from file_scripts.refer(part.key)
    yield Statement("add_part", (tenant, upload_id, part.id, part.key, part.bytes, part.created_at))
    yield from file_scripts.charge(tenant, 0, part.bytes, quota)


def parts(tenant: str, upload_id: str) -> Script[list[UploadPart]]:
    """The parts of an upload."""
    rows = yield Statement("parts_of_upload", (tenant, upload_id))
    return [UploadPart(id=name, key=key, bytes=size, created_at=at) for name, key, size, at in rows]


def complete(tenant: str, upload_id: str, file: StoredFile, quota: FileQuota, now: int) -> Script[list[str]]:
    """Save the file of a pending upload in place of its parts; the keys of objects that are not needed."""
    yield from _lock(tenant, upload_id, now)
    keys, freed = yield from _end(tenant, upload_id, "completed", file.id)
    unneeded, size = yield from file_scripts.add_uncharged(tenant, file)
    if freed:
        yield from file_scripts.give_back(tenant, 0, freed)
    yield from file_scripts.charge(tenant, 1, size, quota)
    return keys + unneeded


def cancel(tenant: str, upload_id: str, now: int) -> Script[list[str]]:
    """Cancel a pending upload; the keys of objects that are not needed."""
    yield from _lock(tenant, upload_id, now)
    keys, freed = yield from _end(tenant, upload_id, "cancelled", None)
    if freed:
        yield from file_scripts.give_back(tenant, 0, freed)
    return keys


def sweep(now: int) -> Script[int]:
    """Erase the parts of expired uploads, and old uploads; how many."""
    limit = file_scripts.MAX_BATCH_FILES
    lapsed = yield Statement("lapsed_uploads", (now, limit))
    freed: Counter[str] = Counter()
    for tenant, upload_id in lapsed:
        _, size = yield from _remove_parts(tenant, upload_id)
        freed[tenant] += size
    for tenant in sorted(freed):
        yield from file_scripts.give_back(tenant, 0, freed[tenant])
    old: Sequence[Row] = yield Statement("old_uploads", (now - UPLOAD_ROW_SECONDS, limit))
    if old:
        yield Statement("delete_upload", [tuple(row) for row in old], many=True)
    return len(lapsed) + len(old)


def _lock(tenant: str, upload_id: str, now: int) -> Script[None]:
    if not (yield Statement("lock_upload", (tenant, upload_id, now))):
        raise upload_not_pending((yield from find(tenant, upload_id, now)))


def _end(
    tenant: str, upload_id: str, status: UploadStatus, file: str | None
) -> Script[tuple[list[str], int]]:
    yield Statement("end_upload", (tenant, upload_id, status, file))
    return (yield from _remove_parts(tenant, upload_id))


def _remove_parts(tenant: str, upload_id: str) -> Script[tuple[list[str], int]]:
    """Delete the parts; the keys of their objects, and their bytes."""
    removed = yield from parts(tenant, upload_id)
    yield Statement("delete_parts", (tenant, upload_id))
    keys = [part.key for part in removed]
    yield from file_scripts.drop(keys)
    return keys, sum(part.bytes for part in removed)


def _upload(row: Row) -> Upload:
    upload_id, filename, purpose, media_type, size, status, created_at, expires_at, lifetime, file = row
    return Upload(
        id=upload_id,
        filename=filename,
        purpose=purpose,
        media_type=media_type,
        bytes=size,
        status=status,
        created_at=created_at,
        expires_at=expires_at,
        file_lifetime=lifetime,
        file=file,
    )
