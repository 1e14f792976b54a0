"""A file with many chunks is deleted in steps, and is not found after the first one."""

from collections.abc import Awaitable, Callable
from itertools import pairwise
from typing import Any

import pytest

from antiphon.errors import NotFound
from antiphon.protocol.vector_stores import FileCounts
from antiphon.store import chunk_scripts
from antiphon.store.database import Script
from antiphon.store.ports import Stores
from antiphon.store.signals import LocalSignals
from antiphon.store.sql_stores import sql_stores
from tests.store.conftest import Clock, Opened
from tests.store.test_vector_stores import add_file_object
from tests.store.vector_values import (
    QUOTA,
    a_chunk,
    a_file,
    a_store,
    angle,
    claim,
    ingest,
    places,
    search,
    sweep,
)

PORTION = 4
CHUNKS = 20 * PORTION
STEP = 10
MAX_ERASED = 3 * PORTION
"""Portions are erased until there are as many chunks as a step has, or more."""
EXPIRY = 5000
SMALL = [("file-0002", 0)]


async def remove_from_store(store: Stores, _: Clock) -> None:
    await store.vector_stores.delete_file("t", "vs_1", "file-0001")


async def delete_object(store: Stores, _: Clock) -> None:
    await store.files.delete_file("t", "file-0001")


async def expire(store: Stores, clock: Clock) -> None:
    clock.now = EXPIRY
    await sweep(store)


DELETIONS = pytest.mark.parametrize("delete", [remove_from_store, delete_object, expire])
Deletion = Callable[[Stores, Clock], Awaitable[None]]


@pytest.fixture
async def store(opened: Opened, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Stores:
    """A store of a large and a small file."""
    monkeypatch.setattr(chunk_scripts, "MAX_ERASED_CHUNKS", STEP)
    made = sql_stores(opened.database, LocalSignals(), clock)
    await add_file_object(made, expires_at=EXPIRY)
    await made.vector_stores.add_store("t", a_store(), [a_file(1)], QUOTA)
    [job] = await claim(made)
    for start in range(0, CHUNKS, PORTION):
        portion = [a_chunk(ordinal, "common") for ordinal in range(start, start + PORTION)]
        await made.vector_stores.add_chunks(job, portion, QUOTA)
    await made.vector_stores.end_file(job, None)
    await ingest(made, a_file(2), [a_chunk(0, "common")])
    return made


async def found(store: Stores) -> list[tuple[str, int]]:
    return places(await search(store, "common", vector=angle(0)))


@DELETIONS
async def test_a_large_file_is_erased_in_steps(
    store: Stores, opened: Opened, clock: Clock, monkeypatch: pytest.MonkeyPatch, delete: Deletion
) -> None:
    left, seen = [CHUNKS + 1], list[list[tuple[str, int]]]()
    write = opened.database.write

    async def written(script: Script[Any], **options: Any) -> Any:
        result = await write(script, **options)
        left.append(await opened.count_rows("chunks"))
        seen.append(await found(store))
        return result

    assert len(await found(store)) > 1
    monkeypatch.setattr(opened.database, "write", written)
    await delete(store, clock)
    erased = [before - after for before, after in pairwise(left)]
    assert (sum(erased), max(erased)) == (CHUNKS, MAX_ERASED)
    assert all(places == SMALL for places in seen[next(n for n, size in enumerate(erased) if size) :])
    stored = await store.vector_stores.store("t", "vs_1")
    assert (stored.file_counts, await opened.count_rows("chunks")) == (FileCounts(completed=1, total=1), 1)
    assert stored.usage_bytes == (await store.vector_stores.store_file("t", "vs_1", "file-0002")).usage_bytes
    with pytest.raises(NotFound):
        await store.vector_stores.store_file("t", "vs_1", "file-0001")


@DELETIONS
async def test_a_deletion_that_was_interrupted_can_be_repeated(
    store: Stores, opened: Opened, clock: Clock, monkeypatch: pytest.MonkeyPatch, delete: Deletion
) -> None:
    write, writes = opened.database.write, 0

    async def breaking(script: Script[Any], **options: Any) -> Any:
        nonlocal writes
        writes += 1
        if writes == 3:
            raise ConnectionError
        return await write(script, **options)

    with monkeypatch.context() as patched:
        patched.setattr(opened.database, "write", breaking)
        with pytest.raises(ConnectionError):
            await delete(store, clock)
    assert 1 < await opened.count_rows("chunks") < CHUNKS
    assert await found(store) == SMALL
    await delete(store, clock)
    assert (await opened.count_rows("chunks"), await found(store)) == (1, SMALL)
