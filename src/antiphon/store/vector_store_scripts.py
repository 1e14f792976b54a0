"""Scripts of vector stores: their rows, what tenants use, expiry and deletion.

Locks are taken in one order, jobs, then the row of the store, then its files, then its chunks, then the usage
of the tenant, so that no two transactions wait for each other.
"""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import UNSET, Struct

from antiphon.errors import InvalidRequest
from antiphon.protocol.vector_stores import FileCounts, FileStatus
from antiphon.store.base import Page
from antiphon.store.database import Row, Script, Statement
from antiphon.store.vector_stores import (
    INGESTION,
    StoreQuota,
    VectorStore,
    VectorStoreChange,
    store_not_found,
)

DAY_SECONDS = 86_400
NEVER = 0
"""The time at which nothing has expired: for a look at the row alone."""
USE_SECONDS = 60
"""That a store was used is written at most once in this time."""
MAX_ERASED_ROWS = 500
"""The most files and batches of deleted stores that one script of upkeep erases."""

_AFTER_ALL_IDS = "vt"
"""Sorts behind every id of a store."""
_USAGE_COLUMN = 10


class StoreRow(Struct, frozen=True):
    """A store, with what only the database knows. The version rises when a search may find something else."""

    store: VectorStore
    chunk_set: int
    version: int


def add(tenant: str, store: VectorStore, quota: StoreQuota) -> Script[None]:
    """Save a new store."""
    [[chunk_set]] = yield Statement("add_chunk_set")
    row = (
        *(tenant, store.id, store.name, store.description, _json(store.metadata), store.created_at),
        *(store.last_active_at, store.expires_after_days, _expiry(store.last_active_at, store)),
        *(store.model, store.dimensions, chunk_set),
    )
    yield Statement("add_vector_store", row)
    yield from charge(tenant, 1, 0, quota)


def find(tenant: str, store_id: str, now: int) -> Script[StoreRow]:
    """Return one store, expired or not."""
    rows = yield Statement("find_vector_store", (tenant, store_id))
    if not rows:
        raise store_not_found(store_id)
    return parse(rows[0], now)


def lock(tenant: str, store_id: str, now: int) -> Script[StoreRow]:
    """Return one store that others cannot change until the end of the transaction.

    Raises `InvalidRequest` if it has expired.
    """
    rows = yield Statement("lock_vector_store", (tenant, store_id))
    if not rows:
        raise store_not_found(store_id)
    row = parse(rows[0], now)
    check_not_expired(row.store)
    return row


def check_not_expired(store: VectorStore) -> None:
    """Raise `InvalidRequest` for an expired store."""
    if store.is_expired:
        message = f"Vector store '{store.id}' has expired, and its files are gone. Create another one."
        raise InvalidRequest(message, param="vector_store_id", code="vector_store_expired")


def page(tenant: str, wanted: Page, now: int) -> Script[tuple[list[VectorStore], bool]]:
    """A part of the list, and whether more follows. `before` alone asks for the page that ends there."""
    backwards = wanted.before is not None and wanted.after is None
    ascending = wanted.order == "asc"
    low, high = (wanted.after, wanted.before) if ascending else (wanted.before, wanted.after)
    name = "vector_stores_upwards" if ascending is not backwards else "vector_stores_downwards"
    rows = yield Statement(name, (tenant, low or "", high or _AFTER_ALL_IDS, wanted.limit + 1))
    stores = [parse(row, now).store for row in rows[: wanted.limit]]
    return stores[::-1] if backwards else stores, len(rows) > wanted.limit


def change(tenant: str, store_id: str, wanted: VectorStoreChange, now: int) -> Script[VectorStore]:
    """Change a store; it was used now."""
    store = (yield from lock(tenant, store_id, now)).store
    members: dict[str, Any] = {
        name: value
        for name in ("name", "expires_after_days", "metadata")
        if (value := getattr(wanted, name)) is not UNSET
    }
    changed = msgspec.structs.replace(store, last_active_at=now, **members)
    row = (
        *(tenant, store_id, changed.name, _json(changed.metadata), changed.expires_after_days),
        *(_expiry(now, changed), now),
    )
    yield Statement("change_vector_store", row)
    return changed


def use(tenant: str, store_id: str, now: int) -> Script[None]:
    """Record that a store was used now, unless it has expired."""
    yield Statement("use_vector_store", (tenant, store_id, now))


def delete(tenant: str, store_id: str, now: int) -> Script[None]:
    """Delete a store with the jobs of its files. Upkeep erases the rest."""
    yield from _end(tenant, store_id, now, is_deleted=True)


def sweep(now: int) -> Script[int]:
    """Mark expired stores, and erase some files and batches of those that have ended; how many."""
    expired = yield Statement("expired_vector_stores", (now, 1))
    for tenant, store_id in expired:
        yield from _end(tenant, store_id, now, is_deleted=False)
    erased = len(expired)
    for tenant, store_id, is_deleted in (yield Statement("vector_stores_to_erase", (1,))):
        files = yield Statement("erase_vector_files", (tenant, store_id, MAX_ERASED_ROWS))
        batches = yield Statement("erase_vector_batches", (tenant, store_id, MAX_ERASED_ROWS))
        erased += 1 + len(files) + len(batches)
        if not files and not batches:
            name = "delete_vector_store" if is_deleted else "keep_vector_store"
            yield Statement(name, (tenant, store_id))
    return erased


def _end(tenant: str, store_id: str, now: int, *, is_deleted: bool) -> Script[None]:
    prefix = f"{store_id}/"
    yield Statement("delete_store_jobs", (INGESTION, tenant, prefix, len(prefix)))
    rows = yield Statement("lock_vector_store", (tenant, store_id))
    if not rows:
        if is_deleted:
            raise store_not_found(store_id)
        return
    row = parse(rows[0], now)
    usage = rows[0][_USAGE_COLUMN]  # an expired store shows 0 before it is marked
    yield Statement("end_vector_store", (tenant, store_id, int(not is_deleted), int(is_deleted)))
    yield Statement("erase_chunk_set", (row.chunk_set,))
    yield from charge(tenant, -1 if is_deleted else 0, -usage, StoreQuota(0, 0, 0))


def charge(tenant: str, stores: int, size: int, quota: StoreQuota) -> Script[None]:
    """Add to what a tenant has, within its quota, or subtract from it."""
    yield Statement("start_vector_usage", (tenant,))
    if (yield Statement("change_vector_usage", (tenant, stores, size, quota.stores, quota.bytes))):
        return
    [[used, _]] = yield Statement("vector_usage", (tenant,))
    raise _too_many_stores(quota) if used + stores > quota.stores else _too_many_bytes(quota)


def give_back(tenant: str, size: int) -> Script[None]:
    """Subtract from what a tenant has."""
    if size:
        yield from charge(tenant, 0, -size, StoreQuota(0, 0, 0))


def count(
    tenant: str, store_id: str, files: Mapping[FileStatus, int], size: int, *, found: bool
) -> Script[None]:
    """Add to the files of a store and to their bytes. `found`: a search may find something else."""
    counts = [files.get(status, 0) for status in ("in_progress", "completed", "failed", "cancelled")]
    yield Statement("count_vector_files", (tenant, store_id, *counts, size, int(found)))


def _expiry(last_active_at: int, store: VectorStore) -> int | None:
    if store.expires_after_days is None:
        return None
    return last_active_at + store.expires_after_days * DAY_SECONDS


def parse(row: Row, now: int) -> StoreRow:
    """The store of a row of `find_vector_store` or `lock_vector_store`."""
    store_id, name, description, metadata, created_at, last_active_at, days, expires_at, model, *rest = row
    dimensions, usage, in_progress, completed, failed, cancelled, is_expired, chunk_set, version = rest
    is_expired = bool(is_expired) or (expires_at is not None and expires_at <= now)
    total = in_progress + completed + failed + cancelled
    counts = FileCounts(in_progress, completed, failed, cancelled, total)
    store = VectorStore(
        id=store_id,
        name=name,
        description=description,
        metadata=msgspec.json.decode(metadata),
        created_at=created_at,
        last_active_at=last_active_at,
        expires_after_days=days,
        model=model,
        dimensions=dimensions,
        file_counts=FileCounts() if is_expired else counts,
        usage_bytes=0 if is_expired else usage,
        is_expired=is_expired,
    )
    return StoreRow(store, chunk_set, version)


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _too_many_stores(quota: StoreQuota) -> InvalidRequest:
    message = f"The limit of {quota.stores:,} vector stores is reached. Delete stores that you do not need."
    return InvalidRequest(message, code="vector_store_quota_exceeded")


def _too_many_bytes(quota: StoreQuota) -> InvalidRequest:
    message = (
        f"There is no room for this file: all vector stores together may have {quota.bytes:,} bytes of "
        "chunks and vectors. Delete files or stores that you do not need."
    )
    return InvalidRequest(message, code="vector_store_quota_exceeded")
