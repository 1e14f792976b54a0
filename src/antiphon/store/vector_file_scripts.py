"""Scripts of the files of vector stores and of their batches."""

from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Struct

from antiphon.errors import InvalidRequest
from antiphon.protocol.attribute_filters import Attribute
from antiphon.protocol.vector_stores import Chunking, FileCounts, FileError, FileStatus
from antiphon.store import chunk_scripts, jobs, vector_store_scripts
from antiphon.store.base import Page
from antiphon.store.database import Row, Script, Statement
from antiphon.store.vector_store_scripts import StoreRow
from antiphon.store.vector_stores import (
    INGESTION,
    FileBatch,
    StoreQuota,
    VectorStore,
    VectorStoreFile,
    batch_not_found,
    store_file_not_found,
)

_TOKENS_PER_FILE = 2**20
"""Tokens of the job of a file begin with the file's number, times this. So a file that is added anew has
higher ones than before, and whoever worked on the former is fenced."""
_ALL_NUMBERS = 2**62


class FileRow(Struct, frozen=True):
    """A file of a store, with what only the database knows."""

    file: VectorStoreFile
    number: int
    chunks: int


def add_store(
    tenant: str, store: VectorStore, files: Sequence[VectorStoreFile], quota: StoreQuota, now: int
) -> Script[None]:
    """Save a new store with its first files."""
    yield from vector_store_scripts.add(tenant, store, quota)
    if files:
        yield from add(tenant, store.id, files, quota, batch=None, now=now)


def add(
    tenant: str,
    store_id: str,
    files: Sequence[VectorStoreFile],
    quota: StoreQuota,
    *,
    batch: FileBatch | None,
    now: int,
) -> Script[None]:
    """Add files with their jobs, and their batch."""
    yield from _remove_jobs(tenant, store_id, [file.id for file in files])
    row = yield from vector_store_scripts.lock(tenant, store_id, now)
    ids = msgspec.json.encode([file.id for file in files]).decode()
    former = yield Statement("listed_vector_files", (tenant, store_id, ids))
    freed = yield from _delete(tenant, row, [_file_row(each) for each in former])
    total = row.store.file_counts.total - len(former) + len(files)
    if total > quota.files:
        raise _too_many_files(quota)
    if batch is not None:
        yield Statement("add_vector_batch", (tenant, store_id, batch.id, batch.created_at))
    [[end]] = yield Statement("number_vector_files", (tenant, store_id, len(files)))
    numbered = list(enumerate(files, end - len(files)))
    rows = [(tenant, store_id, file.id, number, *_members(file)) for number, file in numbered]
    yield Statement("add_vector_file", rows, many=True)
    yield from _add_jobs(tenant, store_id, [(number, file.id) for number, file in numbered])
    yield from vector_store_scripts.count(tenant, store_id, {"in_progress": len(files)}, 0, found=False)
    yield from vector_store_scripts.give_back(tenant, freed)


def find(tenant: str, store_id: str, file_id: str, now: int) -> Script[FileRow]:
    """Return one file of a store. An expired store has none."""
    row = yield from vector_store_scripts.find(tenant, store_id, now)
    rows = yield Statement("find_vector_file", (tenant, store_id, file_id))
    if not rows or row.store.is_expired:
        raise store_file_not_found(file_id, store_id)
    return _file_row(rows[0])


def page(
    tenant: str,
    store_id: str,
    wanted: Page,
    *,
    status: FileStatus | None,
    batch_id: str | None,
    now: int,
) -> Script[tuple[list[VectorStoreFile], bool]]:
    """A part of the list, in the order of adding, and whether more follows."""
    row = yield from vector_store_scripts.find(tenant, store_id, now)
    if batch_id is not None:
        yield from _batch_row(tenant, store_id, batch_id)
    if row.store.is_expired:
        return [], False
    backwards = wanted.before is not None and wanted.after is None
    ascending = wanted.order == "asc"
    after = yield from _number(tenant, store_id, "after", wanted.after)
    before = yield from _number(tenant, store_id, "before", wanted.before)
    low, high = (after, before) if ascending else (before, after)
    bounds = (-1 if low is None else low, _ALL_NUMBERS if high is None else high)
    name = "vector_files_upwards" if ascending is not backwards else "vector_files_downwards"
    rows = yield Statement(name, (tenant, store_id, *bounds, status, batch_id, wanted.limit + 1))
    files = [_file_row(each).file for each in rows[: wanted.limit]]
    return files[::-1] if backwards else files, len(rows) > wanted.limit


def set_attributes(
    tenant: str, store_id: str, file_id: str, attributes: Mapping[str, Attribute], now: int
) -> Script[VectorStoreFile]:
    """Replace the attributes of a file."""
    yield from vector_store_scripts.lock(tenant, store_id, now)
    file = (yield from find(tenant, store_id, file_id, now)).file
    yield Statement("set_vector_attributes", (tenant, store_id, file_id, _json(attributes)))
    yield from vector_store_scripts.count(tenant, store_id, {}, 0, found=file.status == "completed")
    return msgspec.structs.replace(file, attributes=attributes)


def delete(tenant: str, store_id: str, file_id: str, now: int) -> Script[None]:
    """Remove a file from a store, with its job. Upkeep erases its chunks."""
    yield from _remove_jobs(tenant, store_id, [file_id])
    yield from find(tenant, store_id, file_id, now)
    row = yield from vector_store_scripts.lock(tenant, store_id, now)
    rows = yield Statement("find_vector_file", (tenant, store_id, file_id))
    freed = yield from _delete(tenant, row, [_file_row(each) for each in rows])
    yield from vector_store_scripts.give_back(tenant, freed)


def forget_file(tenant: str, file_id: str, now: int) -> Script[int]:
    """Remove a file that is deleted from all stores that have it; how many."""
    stores = yield Statement("stores_of_file", (tenant, file_id))
    freed = 0
    for (store_id,) in stores:
        yield from _remove_jobs(tenant, store_id, [file_id])
        rows = yield Statement("lock_vector_store", (tenant, store_id))
        if not rows or (row := vector_store_scripts.parse(rows[0], now)).store.is_expired:
            continue  # upkeep erases all of it
        found = yield Statement("find_vector_file", (tenant, store_id, file_id))
        freed += yield from _delete(tenant, row, [_file_row(each) for each in found])
    yield from vector_store_scripts.give_back(tenant, freed)
    return len(stores)


def batch(tenant: str, store_id: str, batch_id: str, now: int) -> Script[FileBatch]:
    """Return one batch."""
    row = yield from vector_store_scripts.find(tenant, store_id, now)
    created_at, is_cancelled = yield from _batch_row(tenant, store_id, batch_id)
    counts: dict[str, int] = {}
    if not row.store.is_expired:
        rows = yield Statement("count_vector_batch", (tenant, store_id, batch_id))
        counts = {status: count for status, count in rows}  # noqa: C416
    return FileBatch(
        id=batch_id,
        store_id=store_id,
        created_at=created_at,
        file_counts=FileCounts(**counts, total=sum(counts.values())),
        is_cancelled=bool(is_cancelled),
    )


def cancel(tenant: str, store_id: str, batch_id: str, now: int) -> Script[FileBatch]:
    """Cancel the files of a batch that are in progress. A batch that has ended stays as it is."""
    yield from vector_store_scripts.find(tenant, store_id, now)
    yield from _batch_row(tenant, store_id, batch_id)
    unfinished = yield Statement("unfinished_vector_files", (tenant, store_id, batch_id))
    yield from _remove_jobs(tenant, store_id, [row[0] for row in unfinished])
    row = yield from vector_store_scripts.lock(tenant, store_id, now)
    files = [
        _file_row(each) for each in (yield Statement("unfinished_vector_files", (tenant, store_id, batch_id)))
    ]
    yield from _remove_jobs(tenant, store_id, [each.file.id for each in files])
    if files:
        freed = yield from _empty(tenant, row, files)
        ended = [(tenant, store_id, each.file.id, "cancelled", None, None) for each in files]
        yield Statement("end_vector_file", ended, many=True)
        moved: dict[FileStatus, int] = {"in_progress": -len(files), "cancelled": len(files)}
        yield from vector_store_scripts.count(tenant, store_id, moved, -freed, found=False)
        yield Statement("cancel_vector_batch", (tenant, store_id, batch_id))
        yield from vector_store_scripts.give_back(tenant, freed)
    return (yield from batch(tenant, store_id, batch_id, now))


def end(tenant: str, row: StoreRow, ended: FileRow, error: FileError | None) -> Script[None]:
    """Complete a file in progress of a locked store, or fail it and give up its chunks."""
    store_id = row.store.id
    freed = 0 if error is None else (yield from _empty(tenant, row, [ended]))
    status: FileStatus = "completed" if error is None else "failed"
    reason = (None, None) if error is None else (error.code, error.message)
    yield Statement("end_vector_file", (tenant, store_id, ended.file.id, status, *reason))
    moved: dict[FileStatus, int] = {"in_progress": -1, status: 1}
    yield from vector_store_scripts.count(tenant, store_id, moved, -freed, found=error is None)
    yield from vector_store_scripts.give_back(tenant, freed)


def restart(tenant: str, row: StoreRow) -> Script[int]:
    """Add all files of a locked store anew, whose chunks are gone; how many."""
    store_id = row.store.id
    files = [_file_row(each) for each in (yield Statement("all_vector_files", (tenant, store_id)))]
    if not files:
        return 0
    [[after]] = yield Statement("number_vector_files", (tenant, store_id, len(files)))
    numbered = list(enumerate(files, after - len(files)))
    rows = [(tenant, store_id, each.file.id, number) for number, each in numbered]
    yield Statement("restart_vector_file", rows, many=True)
    yield from _add_jobs(tenant, store_id, [(number, each.file.id) for number, each in numbered])
    usage = sum(each.file.usage_bytes for each in files)
    moved = Counter[FileStatus](each.file.status for each in files)
    deltas: dict[FileStatus, int] = {status: -count for status, count in moved.items()}
    deltas["in_progress"] = deltas.get("in_progress", 0) + len(files)
    yield from vector_store_scripts.count(tenant, store_id, deltas, -usage, found=True)
    yield from vector_store_scripts.give_back(tenant, usage)
    return len(files)


def job_id(store_id: str, file_id: str) -> str:
    """The id of the job that adds a file."""
    return f"{store_id}/{file_id}"


def _remove_jobs(tenant: str, store_id: str, file_ids: Sequence[str]) -> Script[None]:
    yield from jobs.remove(INGESTION, [(tenant, job_id(store_id, file_id)) for file_id in sorted(file_ids)])


def _add_jobs(tenant: str, store_id: str, numbered: Sequence[tuple[int, str]]) -> Script[None]:
    rows = [
        (INGESTION, tenant, job_id(store_id, file_id), 0.0, None, None, number * _TOKENS_PER_FILE)
        for number, file_id in numbered
    ]
    yield Statement("add_job", rows, many=True)


def _delete(tenant: str, row: StoreRow, files: Sequence[FileRow]) -> Script[int]:
    """Remove files of a locked store, whose jobs are removed; the bytes to give back."""
    if not files:
        return 0
    freed = yield from _empty(tenant, row, files)
    keys = [(tenant, row.store.id, each.file.id) for each in files]
    yield Statement("delete_vector_file", keys, many=True)
    statuses = Counter[FileStatus](each.file.status for each in files)
    deltas: dict[FileStatus, int] = {status: -count for status, count in statuses.items()}
    found = "completed" in deltas
    yield from vector_store_scripts.count(tenant, row.store.id, deltas, -freed, found=found)
    return freed


def _empty(tenant: str, row: StoreRow, files: Sequence[FileRow]) -> Script[int]:
    """Give up the chunks of files, which upkeep erases; the bytes to give back."""
    filled = [each for each in files if each.chunks]
    yield from chunk_scripts.leave_files(tenant, row.chunk_set, [each.number for each in filled])
    if filled:
        keys = [(tenant, row.store.id, each.file.id) for each in filled]
        yield Statement("empty_vector_file", keys, many=True)
    return sum(each.file.usage_bytes for each in filled)


def _batch_row(tenant: str, store_id: str, batch_id: str) -> Script[tuple[int, int]]:
    rows = yield Statement("find_vector_batch", (tenant, store_id, batch_id))
    if not rows:
        raise batch_not_found(batch_id)
    created_at, is_cancelled = rows[0]
    return created_at, is_cancelled


def _number(tenant: str, store_id: str, param: str, file_id: str | None) -> Script[int | None]:
    if file_id is None:
        return None
    rows = yield Statement("find_vector_file", (tenant, store_id, file_id))
    if not rows:
        message = (
            f"'{param}' names no file of this vector store: '{file_id}'. Use the id of a file in the list."
        )
        raise InvalidRequest(message, param=param, code="invalid_value")
    return _file_row(rows[0]).number


def _members(file: VectorStoreFile) -> tuple[object, ...]:
    chunking = file.chunking
    return (
        *(file.filename, file.created_at, chunking.max_chunk_size_tokens, chunking.chunk_overlap_tokens),
        *(_json(file.attributes), file.batch),
    )


def _file_row(row: Row) -> FileRow:
    file_id, store_id, filename, created_at, chunk_tokens, overlap_tokens, attributes, status, *rest = row
    code, message, usage, batch_id, number, chunks = rest
    file = VectorStoreFile(
        id=file_id,
        store_id=store_id,
        filename=filename,
        created_at=created_at,
        chunking=Chunking(chunk_tokens, overlap_tokens),
        attributes=msgspec.json.decode(attributes),
        status=status,
        error=None if code is None else FileError(code, message),
        usage_bytes=usage,
        batch=batch_id,
    )
    return FileRow(file, number, chunks)


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _too_many_files(quota: StoreQuota) -> InvalidRequest:
    message = f"A vector store has at most {quota.files:,} files. Delete files that you do not need."
    return InvalidRequest(message, param="file_id", code="vector_store_quota_exceeded")
