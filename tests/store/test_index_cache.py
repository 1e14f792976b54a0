"""The indexes in memory are within a bound, also while several are loaded."""

import asyncio
import struct
from collections.abc import Sequence
from typing import Any

import pytest

from antiphon.store.chunk_index import Block, ChunkIndex, Portion, SearchedFile
from antiphon.store.index_cache import IndexCache
from antiphon.store.postgres_vectors import PostgresVectors
from antiphon.store.sqlite_vectors import SqliteVectors
from antiphon.store.vector_search import Snapshot
from antiphon.store.vector_stores import CandidateQuery
from tests.store.conftest import Clock, Opened
from tests.store.vector_queries import with_bound
from tests.store.vector_values import QUOTA, a_chunk, a_file, a_store, angle, ingest

pytest.importorskip("numpy", reason="antiphon[retrieval] is missing")

ROOM_SECONDS = 0.05
VECTOR = angle(3) + bytes(4 * 382)


def an_index() -> ChunkIndex:
    file = SearchedFile(1, "file-1", "{}")
    return ChunkIndex(1, 1, [file], [Block((Portion(0, 1, 1, 0, struct.pack("<I", 1)),))])


SIZE = an_index().memory_bytes


async def load(cache: IndexCache, name: str, release: asyncio.Event, size: int = SIZE) -> None:
    async with cache.room(("t", name), size):
        await release.wait()
        cache.keep(("t", name), an_index())


async def is_waiting(task: asyncio.Task[Any]) -> bool:
    return not (await asyncio.wait([task], timeout=ROOM_SECONDS))[0]


async def test_an_index_waits_for_room_that_others_are_loaded_into() -> None:
    cache, first, second = IndexCache(2 * SIZE), asyncio.Event(), asyncio.Event()
    second.set()
    loads = [asyncio.create_task(load(cache, name, first)) for name in "ab"]
    waiting = asyncio.create_task(load(cache, "c", second))
    assert await is_waiting(waiting)
    first.set()
    await asyncio.gather(*loads, waiting)
    assert cache.memory_bytes == 2 * SIZE
    assert cache.get(("t", "a")) is None
    assert cache.get(("t", "c")) is not None


async def test_small_indexes_do_not_keep_a_large_one_waiting() -> None:
    cache, release = IndexCache(3 * SIZE), asyncio.Event()
    first = asyncio.create_task(load(cache, "a", release))
    await asyncio.sleep(0)
    large = asyncio.create_task(load(cache, "large", release, 3 * SIZE))
    await asyncio.sleep(0)
    later = asyncio.create_task(load(cache, "b", release))
    assert await is_waiting(large)
    assert await is_waiting(later)
    release.set()
    await asyncio.gather(first, large, later)


async def test_a_load_that_is_cancelled_gives_its_room_back() -> None:
    cache, never, release = IndexCache(SIZE), asyncio.Event(), asyncio.Event()
    release.set()
    loads = [asyncio.create_task(load(cache, name, never)) for name in "abc"]
    waiting = asyncio.create_task(load(cache, "d", release))
    assert await is_waiting(waiting)
    for each in (1, 0, 2):
        loads[each].cancel()
    await asyncio.wait_for(waiting, 10)


async def test_a_newer_index_takes_the_place_of_the_former_one() -> None:
    """They share their vectors."""
    cache, release = IndexCache(2 * SIZE), asyncio.Event()
    release.set()
    for name in ("a", "b", "a", "a"):
        await load(cache, name, release)
    assert cache.get(("t", "b")) is not None
    await load(cache, "a", release, 3 * SIZE)
    assert cache.get(("t", "b")) is None


@pytest.mark.parametrize("tenants", [1, 3])
async def test_stores_that_are_searched_at_the_same_time_are_within_the_bound(
    opened: Opened, clock: Clock, monkeypatch: pytest.MonkeyPatch, tenants: int
) -> None:
    store, bounded = with_bound(opened, clock, 100_000)
    loading, most = list[int](), list[int]()

    def watch(kind: Any) -> None:
        original = kind.blocks

        async def blocks(
            self: object, snapshot: Snapshot, former: Sequence[Block], *, cached: bool
        ) -> list[Block] | None:
            size = snapshot.row.store.dimensions * 4 * sum(portion.count for portion in snapshot.portions)
            loading.append(size if cached else 0)
            most.append(sum(loading) + bounded.memory_bytes)
            await asyncio.sleep(ROOM_SECONDS)
            found = await original(self, snapshot, former, cached=cached)
            loading.remove(size if cached else 0)
            return found

        monkeypatch.setattr(kind, "blocks", blocks)

    places = [(f"t{number % tenants}", number) for number in range(1, 7)]
    for tenant, number in places:
        await store.vector_stores.add_store(tenant, a_store(number), [], QUOTA)
        chunks = [a_chunk(place, "word", VECTOR) for place in range(30 if number % 2 else 60)]
        await ingest(store, a_file(1, number), chunks, tenant)
    watch(SqliteVectors)
    watch(PostgresVectors)
    query = CandidateQuery(terms=["word"], vector=VECTOR, limit=1)
    for _ in range(2):
        calls = [store.vector_stores.candidates(tenant, f"vs_{number}", query) for tenant, number in places]
        found = await asyncio.wait_for(asyncio.gather(*calls), 30)
        assert all(each[0].similarity == pytest.approx(1.0) for each in found)
    assert max(most) <= 100_000
