"""The chunks of files that leave a vector store are not found from that moment, and are erased in steps."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from itertools import pairwise
from typing import Any

import pytest

from antiphon.errors import NotFound
from antiphon.protocol.vector_stores import FileCounts, FileStatus
from antiphon.store import chunk_scripts
from antiphon.store.base import Job
from antiphon.store.database import Script
from antiphon.store.ports import Stores
from antiphon.store.signals import LocalSignals
from antiphon.store.sql_stores import sql_stores
from tests.store.conftest import Clock, Opened
from tests.store.test_vector_stores import add_file_object
from tests.store.vector_values import (
    BROKEN,
    QUOTA,
    a_batch,
    a_chunk,
    a_file,
    a_store,
    angle,
    claim,
    complete,
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


async def remove_from_store(store: Stores, _clock: Clock) -> None:
    await store.vector_stores.delete_file("t", "vs_1", "file-0001")


async def delete_object(store: Stores, _clock: Clock) -> None:
    await store.files.delete_file("t", "file-0001")


async def expire(store: Stores, clock: Clock) -> None:
    clock.now = EXPIRY
    await store.upkeep.sweep()


async def add_anew(store: Stores, _clock: Clock) -> None:
    await store.vector_stores.add_files("t", [a_file(1)], QUOTA)


DELETIONS = pytest.mark.parametrize("delete", [remove_from_store, delete_object, expire])
REMOVALS = pytest.mark.parametrize("remove", [remove_from_store, delete_object, expire, add_anew])
Removal = Callable[[Stores, Clock], Awaitable[None]]


async def save_chunks(store: Stores, job: Job) -> None:
    for start in range(0, CHUNKS, PORTION):
        portion = [a_chunk(ordinal, "common") for ordinal in range(start, start + PORTION)]
        await store.vector_stores.add_chunks(job, portion, QUOTA)


@pytest.fixture
async def store(opened: Opened, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Stores:
    """A store of a large and a small file."""
    monkeypatch.setattr(chunk_scripts, "MAX_ERASED_CHUNKS", STEP)
    made = sql_stores(opened.database, LocalSignals(), clock)
    await add_file_object(made, expires_at=EXPIRY)
    await made.vector_stores.add_store("t", a_store(), [a_file(1)], QUOTA)
    [job] = await claim(made)
    await save_chunks(made, job)
    await made.vector_stores.end_file(job, None)
    await ingest(made, a_file(2), [a_chunk(0, "common")])
    return made


@pytest.fixture
async def left(opened: Opened, store: Stores, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many chunks there are, now and after every write."""
    left, write = [await opened.count_rows("chunks")], opened.database.write

    async def counted(script: Script[Any], **options: Any) -> Any:
        result = await write(script, **options)
        left.append(await opened.count_rows("chunks"))
        return result

    monkeypatch.setattr(opened.database, "write", counted)
    return left


def erased(left: list[int]) -> list[int]:
    """By every write."""
    return [max(before - after, 0) for before, after in pairwise(left)]


async def found(store: Stores) -> list[tuple[str, int]]:
    return places(await search(store, "common", vector=angle(0)))


async def usage(store: Stores, *files: str) -> int:
    return sum([(await store.vector_stores.store_file("t", "vs_1", each)).usage_bytes for each in files])


@REMOVALS
async def test_a_large_file_is_hidden_at_once_and_erased_in_steps(
    store: Stores, opened: Opened, clock: Clock, left: list[int], remove: Removal
) -> None:
    assert len(await found(store)) > 1
    await remove(store, clock)
    assert left[-1] >= CHUNKS + 1 - MAX_ERASED
    assert await found(store) == SMALL
    stored = await store.vector_stores.store("t", "vs_1")
    assert stored.usage_bytes == await usage(store, "file-0002")
    if remove is add_anew:
        assert stored.file_counts == FileCounts(completed=1, in_progress=1, total=2)
    else:
        assert stored.file_counts == FileCounts(completed=1, total=1)
        with pytest.raises(NotFound):
            await store.vector_stores.store_file("t", "vs_1", "file-0001")
    while await store.upkeep.sweep():
        assert await found(store) == SMALL
    assert (sum(erased(left)), max(erased(left))) == (CHUNKS, MAX_ERASED)
    assert await opened.count_rows("chunk_portions") == 1
    assert await opened.count_rows("jobs") == (remove is add_anew)


@pytest.mark.parametrize("end", ["failed", "cancelled"])
async def test_what_a_large_file_had_before_its_end_is_erased_in_steps(
    store: Stores, opened: Opened, left: list[int], end: FileStatus
) -> None:
    await store.vector_stores.add_files("t", [a_file(3, batch="vsfb_1")], QUOTA, a_batch())
    [job] = await claim(store)
    await save_chunks(store, job)
    before = left[-1]
    if end == "failed":
        await store.vector_stores.end_file(job, BROKEN)
    else:
        await store.vector_stores.cancel_batch("t", "vs_1", "vsfb_1")
    stored = await store.vector_stores.store("t", "vs_1")
    assert stored.usage_bytes == await usage(store, "file-0001", "file-0002")
    assert (await store.vector_stores.store_file("t", "vs_1", "file-0003")).status == end
    await sweep(store)
    assert (before - left[-1], max(erased(left))) == (CHUNKS, MAX_ERASED)
    assert await opened.count_rows("jobs") == 0


async def test_a_small_file_in_many_stores_is_erased_in_steps(store: Stores, left: list[int]) -> None:
    for number in range(2, 10):
        await store.vector_stores.add_store("t", a_store(number), [], QUOTA)
        await ingest(store, a_file(1, number), [a_chunk(each, "text") for each in range(PORTION)])
    await store.files.delete_file("t", "file-0001")
    await sweep(store)
    assert (left[-1], max(erased(left))) == (1, MAX_ERASED)


async def test_several_processes_erase_at_the_same_time(store: Stores, opened: Opened) -> None:
    for number in range(3, 9):
        await ingest(store, a_file(number), [a_chunk(each, "text") for each in range(2 * PORTION)])
        await store.vector_stores.delete_file("t", "vs_1", f"file-{number:04}")
    await store.vector_stores.delete_file("t", "vs_1", "file-0001")
    while any(await asyncio.gather(*(store.vector_stores.sweep_stores() for _ in range(4)))):
        pass
    assert [await opened.count_rows(table) for table in ("chunks", "jobs")] == [1, 0]


@DELETIONS
async def test_a_deletion_whose_process_is_killed_is_finished_by_upkeep(
    store: Stores, opened: Opened, clock: Clock, monkeypatch: pytest.MonkeyPatch, delete: Removal
) -> None:
    write, killed = opened.database.write, False

    async def written_once(script: Script[Any], **options: Any) -> Any:
        nonlocal killed
        if killed:
            raise ConnectionError
        killed = True
        return await write(script, **options)

    with monkeypatch.context() as patched, suppress(ConnectionError):
        patched.setattr(opened.database, "write", written_once)
        await delete(store, clock)
    assert await opened.count_rows("chunks") > 1
    stored = await store.vector_stores.store("t", "vs_1")
    assert stored.file_counts == FileCounts(completed=1, total=1)
    assert stored.usage_bytes == await usage(store, "file-0002")
    await store.upkeep.sweep()
    assert await store.vector_stores.begin_reindex("t", "vs_1", "other") == 1
    await complete(store, a_file(2), [a_chunk(0, "common")])
    await sweep(store)
    assert (await opened.count_rows("chunks"), await found(store)) == (1, SMALL)
    assert [await opened.count_rows(table) for table in ("jobs", "chunk_sets")] == [0, 1]


async def test_a_file_that_is_added_anew_during_its_deletion_stays(
    store: Stores, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = opened.database.write

    async def with_another(script: Script[Any], **options: Any) -> Any:
        monkeypatch.setattr(opened.database, "write", write)
        result = await write(script, **options)
        await ingest(store, a_file(1), [a_chunk(0, "new"), a_chunk(1, "new")])
        return result

    monkeypatch.setattr(opened.database, "write", with_another)
    await store.vector_stores.delete_file("t", "vs_1", "file-0001")
    await sweep(store)
    assert places(await search(store, "new")) == [("file-0001", 0), ("file-0001", 1)]
    stored = await store.vector_stores.store("t", "vs_1")
    assert stored.file_counts == FileCounts(completed=2, total=2)
    assert stored.usage_bytes == await usage(store, "file-0001", "file-0002")
    assert await opened.count_rows("chunks") == 3
