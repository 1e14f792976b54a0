"""Scripts of files: rows that share blobs, and the objects behind them.

Locks are taken in one order, the rows of a file or upload, then its blob, then the usage of the tenant, so
that no two transactions wait for each other.
"""

from collections import Counter
from collections.abc import Sequence

from antiphon.errors import StoreUnavailable
from antiphon.store import vector_file_scripts
from antiphon.store.database import Row, Script, Statement
from antiphon.store.files import (
    WRITE_TIMEOUT_SECONDS,
    FilePage,
    FileQuota,
    StoredFile,
    file_not_found,
    too_many_bytes,
    too_many_files,
)

MAX_BATCH_FILES = 500
"""The most files or uploads that one script of upkeep erases."""
_AFTER_ALL_IDS = "filf"
"""Sorts behind every id of a file."""


def reserve(tenant: str, key: str, size: int, quota: FileQuota) -> Script[int]:
    """Record an object that will be written; the bytes that are stored."""
    rows = yield Statement("file_usage", (tenant,))
    files, stored = rows[0] if rows else (0, 0)
    if files >= quota.files:
        raise too_many_files(quota)
    if stored + size > quota.bytes:
        raise too_many_bytes(quota)
    yield Statement("add_unreferenced_object", (key, WRITE_TIMEOUT_SECONDS))
    return stored


def release(key: str) -> Script[bool]:
    """Make an object due that was reserved; False: a row refers to it."""
    return bool((yield Statement("make_object_due", (key,))))


def due(limit: int) -> Script[list[str]]:
    """The keys of objects to delete."""
    return [key for (key,) in (yield Statement("due_objects", (limit,)))]


def forget(keys: Sequence[str]) -> Script[None]:
    """These objects are deleted."""
    yield Statement("forget_object", [(key,) for key in keys], many=True)


def refer(key: str) -> Script[None]:
    """A row refers to this object from now on."""
    if not (yield Statement("refer_to_object", (key,))):
        raise StoreUnavailable("The upload took too long, and what it had sent was deleted. Send it again.")


def drop(keys: Sequence[str]) -> Script[None]:
    """No row refers to these objects any longer."""
    if keys:
        yield Statement("add_unreferenced_object", [(key, 0.0) for key in keys], many=True)


def charge(tenant: str, files: int, size: int, quota: FileQuota) -> Script[None]:
    """Add to what a tenant has stored, within its quota."""
    yield Statement("start_file_usage", (tenant,))
    if (yield Statement("change_file_usage", (tenant, files, size, quota.files, quota.bytes))):
        return
    [[used, _]] = yield Statement("file_usage", (tenant,))
    raise too_many_files(quota) if used + files > quota.files else too_many_bytes(quota)


def give_back(tenant: str, files: int, size: int) -> Script[None]:
    """Subtract from what a tenant has stored."""
    yield Statement("change_file_usage", (tenant, -files, -size, 0, 0))


def add(tenant: str, file: StoredFile, quota: FileQuota) -> Script[list[str]]:
    """Save a file; the keys of objects that are not needed."""
    unneeded, size = yield from add_uncharged(tenant, file)
    yield from charge(tenant, 1, size, quota)
    return unneeded


def add_uncharged(tenant: str, file: StoredFile) -> Script[tuple[list[str], int]]:
    """Save a file; the keys of objects that are not needed, and by how many bytes the tenant stores more."""
    yield from refer(file.key)
    [[key]] = yield Statement("refer_to_blob", (tenant, file.hash, file.key, file.bytes))
    yield Statement("add_file", (tenant, *_members(file)))
    if key == file.key:
        return [], file.bytes
    yield from drop([file.key])
    return [file.key], 0


def find(tenant: str, file_id: str, now: int) -> Script[StoredFile]:
    """Return one file."""
    rows = yield Statement("find_file", (tenant, file_id, now))
    if not rows:
        raise file_not_found(file_id)
    return _file(rows[0])


def newest(tenant: str, page: FilePage, now: int) -> Script[tuple[list[StoredFile], bool]]:
    """A part of the list, and whether more follows."""
    ascending = page.order == "asc"
    after = page.after or ("" if ascending else _AFTER_ALL_IDS)
    args = (tenant, after, now, page.limit + 1)
    direction = "upwards" if ascending else "downwards"
    if page.purpose is None:
        rows = yield Statement(f"files_{direction}", args)
    else:
        rows = yield Statement(f"files_of_purpose_{direction}", (*args, page.purpose))
    return [_file(row) for row in rows[: page.limit]], len(rows) > page.limit


def delete(tenant: str, file_id: str, now: int) -> Script[list[str]]:
    """Delete a file, in vector stores, too; the keys of objects that are not needed."""
    yield from find(tenant, file_id, now)
    yield from vector_file_scripts.forget_file(tenant, file_id, now)
    return (yield from erase([(tenant, file_id)]))


def sweep(now: int) -> Script[int]:
    """Erase a batch of expired files; how many.

    It ends after one that is in vector stores: that locks their rows, and there may be many.
    """
    chosen: list[Row] = []
    for tenant, file_id in (yield Statement("expired_files", (now, MAX_BATCH_FILES))):
        chosen.append((tenant, file_id))
        if (yield from vector_file_scripts.forget_file(tenant, file_id, now)):
            break
    yield from erase(chosen)
    return len(chosen)


def erase(files: Sequence[Row]) -> Script[list[str]]:
    """Erase files, given by tenant and id; the keys of objects that are not needed."""
    unneeded: list[str] = []
    counts: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    for tenant, file_id in files:
        deleted = yield Statement("delete_file", (tenant, file_id))
        if not deleted:  # by another process, meanwhile
            continue
        counts[tenant] += 1
        [[hash_]] = deleted
        [[refs, key, size]] = yield Statement("release_blob", (tenant, hash_))
        if not refs:
            yield Statement("delete_blob", (tenant, hash_))
            unneeded.append(key)
            sizes[tenant] += size
    yield from drop(unneeded)
    for tenant in sorted(counts):
        yield from give_back(tenant, counts[tenant], sizes[tenant])
    return unneeded


def _members(file: StoredFile) -> tuple[object, ...]:
    return (
        *(file.id, file.filename, file.purpose, file.media_type, file.bytes, file.hash),
        *(file.created_at, file.expires_at),
    )


def _file(row: Row) -> StoredFile:
    file_id, filename, purpose, media_type, size, hash_, created_at, expires_at, key = row
    return StoredFile(
        id=file_id,
        filename=filename,
        purpose=purpose,
        media_type=media_type,
        bytes=size,
        hash=hash_,
        created_at=created_at,
        expires_at=expires_at,
        key=key,
    )
