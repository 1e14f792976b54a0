"""Vector stores: rows, files and their jobs, batches, expiry and upkeep."""

import asyncio

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from antiphon.errors import AntiphonError, InvalidRequest, NotFound
from antiphon.protocol.vector_stores import FileCounts, FileError
from antiphon.store.base import Fenced, JobLimit, Page, Settled
from antiphon.store.files import FileQuota, StoredFile
from antiphon.store.ports import Stores
from antiphon.store.vector_stores import (
    INGESTION,
    StoreQuota,
    VectorStoreChange,
)
from tests.store.conftest import Clock, CountRows
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

CHUNK_TABLES = ("chunks", "chunk_portions", "chunk_vectors")


async def counts(store: Stores) -> FileCounts:
    return (await store.vector_stores.store("t", "vs_1")).file_counts


async def test_a_store_is_saved_changed_and_listed(store: Stores, clock: Clock) -> None:
    stores = store.vector_stores
    for number in range(1, 5):
        await stores.add_store("t", a_store(number, metadata={"a": "b"}, description="d"), [], QUOTA)
    assert await stores.store("t", "vs_2") == a_store(2, metadata={"a": "b"}, description="d")
    clock.now = 2000.0
    changed = await stores.change_store("t", "vs_2", VectorStoreChange(name="n", expires_after_days=1))
    assert changed == await stores.store("t", "vs_2")
    assert (changed.name, changed.expires_after_days, changed.last_active_at) == ("n", 1, 2000)
    assert changed.metadata == {"a": "b"}
    changed = await stores.change_store("t", "vs_2", VectorStoreChange(expires_after_days=None, metadata={}))
    assert (changed.name, changed.expires_after_days, changed.metadata) == ("n", None, {})
    pages = {
        Page(limit=2): (["vs_4", "vs_3"], True),
        Page(limit=2, after="vs_3"): (["vs_2", "vs_1"], False),
        Page(limit=2, order="asc"): (["vs_1", "vs_2"], True),
        Page(limit=2, order="asc", before="vs_4"): (["vs_2", "vs_3"], True),
        Page(before="vs_3"): (["vs_4"], False),
        Page(after="vs_4", before="vs_1"): (["vs_3", "vs_2"], False),
    }
    for page, (ids, has_more) in pages.items():
        found, more = await stores.list_stores("t", page)
        assert ([each.id for each in found], more) == (ids, has_more)


async def test_files_are_added_with_their_jobs(store: Stores, count_rows: CountRows) -> None:
    stores = store.vector_stores
    await stores.add_store("t", a_store(), [a_file(1), a_file(2, attributes={"year": 2024})], QUOTA)
    assert await stores.store_file("t", "vs_1", "file-0002") == a_file(2, attributes={"year": 2024})
    assert await counts(store) == FileCounts(in_progress=2, total=2)
    jobs = await claim(store, free=5)
    assert sorted(job.id for job in jobs) == ["vs_1/file-0001", "vs_1/file-0002"]
    claimed = await stores.claim_file(jobs[0])
    assert claimed is not None
    assert (claimed.file, claimed.model, claimed.dimensions, claimed.chunks_saved) == (a_file(1), "m", 0, 0)
    await stores.add_chunks(jobs[0], [a_chunk(0, "one"), a_chunk(1, "two")], QUOTA)
    assert await search(store, "one") == []
    await stores.end_file(jobs[0], None)
    await stores.end_file(jobs[1], BROKEN)
    assert await counts(store) == FileCounts(completed=1, failed=1, total=2)
    assert (await stores.store_file("t", "vs_1", "file-0002")).error == BROKEN
    found = await stores.store("t", "vs_1")
    used = 2 * (3 + 8)
    assert (found.dimensions, found.usage_bytes) == (2, used)
    assert (await stores.store_file("t", "vs_1", "file-0001")).usage_bytes == used
    assert await count_rows("jobs") == 0
    assert places(await search(store, "one")) == [("file-0001", 0)]


async def test_the_next_attempt_continues_after_the_saved_chunks(store: Stores) -> None:
    stores = store.vector_stores
    await stores.add_store("t", a_store(), [a_file(1)], QUOTA)
    [first] = await claim(store, "a process that dies")
    await stores.add_chunks(first, [a_chunk(0, "one"), a_chunk(1, "two")], QUOTA)
    await store.jobs.free_lapsed("b", -1.0)
    [second] = await claim(store, "b")
    assert second.broken_off == 0 or second.token > first.token
    claimed = await stores.claim_file(second)
    assert claimed is not None
    assert claimed.chunks_saved == 2
    for call in (
        stores.claim_file(first),
        stores.add_chunks(first, [a_chunk(2, "three")], QUOTA),
        stores.end_file(first, None),
    ):
        with pytest.raises(Fenced):
            await call
    await stores.add_chunks(second, [a_chunk(1, "two"), a_chunk(2, "three")], QUOTA)
    with pytest.raises(AntiphonError, match="the next one is not 4"):
        await stores.add_chunks(second, [a_chunk(4, "five")], QUOTA)
    await stores.end_file(second, None)
    content = await stores.content("t", "vs_1", "file-0001", 0, 10)
    assert [(each.ordinal, each.text) for each in content] == [(0, "one"), (1, "two"), (2, "three")]


async def test_a_file_that_fails_again_and_again_does_not_stop_the_others(store: Stores) -> None:
    stores = store.vector_stores
    await stores.add_store("t", a_store(), [a_file(1), a_file(2), a_file(3)], QUOTA)
    [poisoned] = await claim(store)
    await store.jobs.settle([Settled(poisoned, "failed", delay=60.0)])
    jobs = await claim(store, free=5)
    assert [job.id for job in jobs] == ["vs_1/file-0002", "vs_1/file-0003"]
    for job in jobs:
        await stores.add_chunks(job, [a_chunk(0, "text")], QUOTA)
        await stores.end_file(job, None)
    assert await counts(store) == FileCounts(in_progress=1, completed=2, total=3)
    assert len(await search(store, "text")) == 2


async def test_a_failed_file_leaves_no_chunks(store: Stores, count_rows: CountRows) -> None:
    stores = store.vector_stores
    await stores.add_store("t", a_store(), [a_file(1)], QUOTA)
    [job] = await claim(store)
    await stores.add_chunks(job, [a_chunk(0, "one")], QUOTA)
    await stores.end_file(job, BROKEN)
    await sweep(store)
    assert [await count_rows(table) for table in CHUNK_TABLES] == [0, 0, 0]
    assert (await stores.store("t", "vs_1")).usage_bytes == 0
    assert await stores.content("t", "vs_1", "file-0001", 0, 10) == []
    with pytest.raises(Fenced):
        await stores.end_file(job, None)


async def test_a_deleted_file_takes_its_chunks_and_its_job_along(
    store: Stores, count_rows: CountRows
) -> None:
    stores = store.vector_stores
    await stores.add_store("t", a_store(), [], QUOTA)
    await ingest(store, a_file(1), [a_chunk(0, "one"), a_chunk(1, "common")])
    await ingest(store, a_file(2), [a_chunk(0, "common")])
    assert len(await search(store, "common", vector=angle(0))) == 3
    await stores.delete_file("t", "vs_1", "file-0001")
    assert places(await search(store, "one common", vector=angle(0))) == [("file-0002", 0)]
    await sweep(store)
    assert await count_rows("chunks") == 1
    assert places(await search(store, "one common", vector=angle(0))) == [("file-0002", 0)]
    assert await counts(store) == FileCounts(completed=1, total=1)
    await stores.delete_file("t", "vs_1", "file-0002")
    assert (await stores.store("t", "vs_1")).usage_bytes == 0
    for call in (
        stores.delete_file("t", "vs_1", "file-0002"),
        stores.store_file("t", "vs_1", "file-0002"),
        stores.content("t", "vs_1", "file-0002", 0, 1),
    ):
        with pytest.raises(NotFound):
            await call
    await sweep(store)
    assert [await count_rows(table) for table in (*CHUNK_TABLES, "jobs")] == [0, 0, 0, 0]


async def test_a_file_can_be_deleted_while_it_is_added(store: Stores, count_rows: CountRows) -> None:
    stores = store.vector_stores
    await stores.add_store("t", a_store(), [a_file(1)], QUOTA)
    [job] = await claim(store)
    await stores.add_chunks(job, [a_chunk(0, "old")], QUOTA)
    await stores.delete_file("t", "vs_1", "file-0001")
    with pytest.raises(Fenced):
        await stores.add_chunks(job, [a_chunk(1, "old")], QUOTA)
    await stores.add_files("t", [a_file(1)], QUOTA)
    [again] = await claim(store)
    assert (again.owner, again.id) == (job.owner, job.id)
    with pytest.raises(Fenced):  # the new job has other tokens
        await stores.add_chunks(job, [a_chunk(0, "old")], QUOTA)
    await stores.add_chunks(again, [a_chunk(0, "new")], QUOTA)
    await stores.end_file(again, None)
    assert places(await search(store, "old new")) == [("file-0001", 0)]
    await sweep(store)
    assert await count_rows("chunks") == 1


async def test_a_file_that_is_there_is_added_anew(store: Stores, count_rows: CountRows) -> None:
    stores = store.vector_stores
    await stores.add_store("t", a_store(), [], QUOTA)
    await ingest(store, a_file(1), [a_chunk(0, "old")])
    await stores.add_files("t", [a_file(1, attributes={"k": "v"}), a_file(2)], QUOTA)
    await sweep(store)
    assert await count_rows("chunks") == 0
    assert await counts(store) == FileCounts(in_progress=2, total=2)
    assert await search(store, "old") == []
    await complete(store, a_file(1), [a_chunk(0, "new")])
    assert places(await search(store, "old new")) == [("file-0001", 0)]
    assert (await stores.store_file("t", "vs_1", "file-0001")).attributes == {"k": "v"}


async def test_attributes_are_replaced(store: Stores) -> None:
    stores = store.vector_stores
    await stores.add_store("t", a_store(), [a_file(1, attributes={"a": 1})], QUOTA)
    changed = await stores.set_attributes("t", "vs_1", "file-0001", {"b": True, "c": 1.5, "d": "x"})
    assert changed.attributes == {"b": True, "c": 1.5, "d": "x"}
    assert await stores.store_file("t", "vs_1", "file-0001") == changed
    with pytest.raises(NotFound):
        await stores.set_attributes("t", "vs_1", "file-0002", {})


async def test_files_are_listed_by_status_and_batch(store: Stores) -> None:
    stores = store.vector_stores
    await stores.add_store("t", a_store(), [a_file(3), a_file(1)], QUOTA)
    await stores.add_files("t", [a_file(2, batch="vsfb_1"), a_file(4, batch="vsfb_1")], QUOTA, a_batch())
    await complete(store, a_file(1), [])

    async def listed(page: Page, **conditions: str) -> tuple[list[str], bool]:
        found, more = await stores.list_files("t", "vs_1", page, **conditions)  # pyright: ignore[reportArgumentType]
        return [each.id[-1] for each in found], more

    assert await listed(Page()) == (["4", "2", "1", "3"], False)
    assert await listed(Page(order="asc", limit=3)) == (["3", "1", "2"], True)
    assert await listed(Page(order="asc", after="file-0001", limit=1)) == (["2"], True)
    assert await listed(Page(before="file-0003", limit=2)) == (["2", "1"], True)
    assert await listed(Page(order="asc"), status="in_progress") == (["3", "2", "4"], False)
    assert await listed(Page(), status="completed") == (["1"], False)
    assert await listed(Page(), batch="vsfb_1") == (["4", "2"], False)
    assert await listed(Page(), batch="vsfb_1", status="completed") == ([], False)
    with pytest.raises(InvalidRequest, match="'after' names no file"):
        await listed(Page(after="file-0009"))
    with pytest.raises(NotFound):
        await listed(Page(), batch="vsfb_2")


async def test_a_batch_of_2000_files_is_added_and_cancelled(store: Stores, count_rows: CountRows) -> None:
    stores = store.vector_stores
    await stores.add_store("t", a_store(), [a_file(1)], QUOTA)
    files = [a_file(number, batch="vsfb_1") for number in range(2, 2002)]
    await stores.add_files("t", files, QUOTA, a_batch())
    batch = await stores.batch("t", "vs_1", "vsfb_1")
    assert batch == replace(a_batch(), file_counts=FileCounts(in_progress=2000, total=2000))
    await complete(store, a_file(2), [a_chunk(0, "two")])
    job = await store.jobs.claim_one("o", INGESTION, "t", "vs_1/file-0003", 60.0)
    assert job is not None
    await stores.add_chunks(job, [a_chunk(0, "three")], QUOTA)
    cancelled = await stores.cancel_batch("t", "vs_1", "vsfb_1")
    assert cancelled.is_cancelled
    assert cancelled.file_counts == FileCounts(completed=1, cancelled=1999, total=2000)
    assert await stores.batch("t", "vs_1", "vsfb_1") == cancelled
    assert await counts(store) == FileCounts(in_progress=1, completed=1, cancelled=1999, total=2001)
    with pytest.raises(Fenced):
        await stores.end_file(job, None)
    await sweep(store)
    assert await count_rows("jobs") == 1
    assert await count_rows("chunks") == 1
    assert len(await search(store, "two three")) == 1
    again = await stores.cancel_batch("t", "vs_1", "vsfb_1")
    assert again == cancelled


async def test_a_batch_that_has_ended_is_not_cancelled(store: Stores) -> None:
    stores = store.vector_stores
    await stores.add_store("t", a_store(), [], QUOTA)
    await stores.add_files("t", [a_file(1, batch="vsfb_1")], QUOTA, a_batch())
    await complete(store, a_file(1), [])
    assert not (await stores.cancel_batch("t", "vs_1", "vsfb_1")).is_cancelled


async def test_quotas(store: Stores) -> None:
    stores = store.vector_stores
    small = StoreQuota(1, 2, 100)
    await stores.add_store("t", a_store(1), [a_file(1)], small)
    with pytest.raises(InvalidRequest, match="limit of 1 vector stores") as refused:
        await stores.add_store("t", a_store(2), [], small)
    assert refused.value.code == "vector_store_quota_exceeded"
    await stores.add_store("other", a_store(2), [], small)
    with pytest.raises(InvalidRequest, match="at most 2 files"):
        await stores.add_files("t", [a_file(2), a_file(3)], small)
    await stores.add_files("t", [a_file(1), a_file(2)], small)
    [job, other] = await claim(store, free=5)
    await stores.add_chunks(job, [a_chunk(0, "x" * 50)], small)
    with pytest.raises(InvalidRequest, match="no room"):
        await stores.add_chunks(other, [a_chunk(0, "x" * 50)], small)
    await stores.end_file(other, FileError("server_error", "no room"))
    assert (await stores.store("t", "vs_1")).usage_bytes == 58
    await stores.delete_store("t", "vs_1")
    await stores.add_store("t", a_store(3), [a_file(1, 3)], small)
    [job] = await claim(store)
    await stores.add_chunks(job, [a_chunk(0, "x" * 50)], small)


async def test_vectors_of_other_dimensions_are_refused(store: Stores) -> None:
    stores = store.vector_stores
    await stores.add_store("t", a_store(), [a_file(1)], QUOTA)
    [job] = await claim(store)
    await stores.add_chunks(job, [a_chunk(0, "a")], QUOTA)
    for wrong in (b"", angle(0) + angle(0)):
        with pytest.raises(InvalidRequest, match="2 dimensions") as refused:
            await stores.add_chunks(job, [a_chunk(1, "a", wrong)], QUOTA)
        assert refused.value.code == "vector_dimensions_mismatch"
    await stores.end_file(job, None)
    with pytest.raises(InvalidRequest, match="2 dimensions"):
        await search(store, "a", vector=angle(0) + angle(0))


async def test_a_deleted_store_is_gone_at_once_and_erased_later(store: Stores, count_rows: CountRows) -> None:
    stores = store.vector_stores
    await stores.add_store("t", a_store(), [], QUOTA)
    await ingest(store, a_file(1), [a_chunk(number, "text") for number in range(450)])
    await stores.add_files("t", [a_file(2, batch="vsfb_1")], QUOTA, a_batch())
    [job] = await claim(store)
    await stores.delete_store("t", "vs_1")
    for call in (stores.store("t", "vs_1"), stores.delete_store("t", "vs_1"), search(store, "text")):
        with pytest.raises(NotFound):
            await call
    with pytest.raises(Fenced):
        await stores.add_chunks(job, [a_chunk(0, "text")], QUOTA)
    assert (await stores.list_stores("t", Page()))[0] == []
    assert await count_rows("chunks") == 450
    await sweep(store)
    tables = (
        *CHUNK_TABLES,
        "chunk_sets",
        "vector_stores",
        "vector_store_files",
        "vector_file_batches",
        "jobs",
    )
    assert [await count_rows(table) for table in tables] == [0] * len(tables)


async def test_upkeep_erases_few_chunks_at_a_time(store: Stores, count_rows: CountRows) -> None:
    stores = store.vector_stores
    await stores.add_store("t", a_store(), [a_file(1)], QUOTA)
    [job] = await claim(store)
    for first in range(0, 600, 50):
        await stores.add_chunks(job, [a_chunk(first + place, "a") for place in range(50)], QUOTA)
    await stores.delete_store("t", "vs_1")
    before = await count_rows("chunks")
    assert await stores.sweep_stores() > 0
    assert before - await count_rows("chunks") == 200


async def test_a_store_expires_after_its_last_use(store: Stores, clock: Clock, count_rows: CountRows) -> None:
    stores = store.vector_stores
    await stores.add_store("t", a_store(expires_after_days=1), [a_file(2)], QUOTA)
    await ingest(store, a_file(1), [a_chunk(0, "text")])
    clock.now = 1030.0
    await stores.use_store("t", "vs_1")
    assert (await stores.store("t", "vs_1")).last_active_at == 1000
    clock.now = 2000.0
    await stores.use_store("t", "vs_1")
    assert (await stores.store("t", "vs_1")).last_active_at == 2000
    clock.now = 2000.0 + 86_399
    assert len(await search(store, "text")) == 1
    clock.now += 1
    for _ in range(2):
        await stores.use_store("t", "vs_1")
        expired = await stores.store("t", "vs_1")
        assert (expired.is_expired, expired.file_counts, expired.usage_bytes) == (True, FileCounts(), 0)
        assert expired.last_active_at == 2000
        assert await stores.list_files("t", "vs_1", Page()) == ([], False)
        assert await stores.chunks("t", "vs_1", [("file-0001", 0)]) == []
        for call in (
            stores.add_files("t", [a_file(3)], QUOTA),
            stores.change_store("t", "vs_1", VectorStoreChange(name="n")),
            stores.begin_reindex("t", "vs_1", "n"),
            search(store, "text"),
        ):
            with pytest.raises(InvalidRequest, match="has expired") as refused:
                await call
            assert refused.value.code == "vector_store_expired"
        with pytest.raises(NotFound):
            await stores.store_file("t", "vs_1", "file-0001")
        await sweep(store)
        assert [await count_rows(table) for table in (*CHUNK_TABLES, "vector_store_files", "jobs")] == [0] * 5
    assert await count_rows("vector_stores") == 1
    await stores.delete_store("t", "vs_1")
    await sweep(store)
    assert await count_rows("vector_stores") == 0
    await stores.add_store("t", a_store(), [], StoreQuota(1, 1, 0))


async def test_a_job_of_an_expired_store_has_nothing_to_do(store: Stores, clock: Clock) -> None:
    stores = store.vector_stores
    await stores.add_store("t", a_store(expires_after_days=1), [a_file(1)], QUOTA)
    [job] = await claim(store)
    clock.now += 90_000
    assert await stores.claim_file(job) is None


async def test_a_store_is_indexed_anew_for_another_model(store: Stores, count_rows: CountRows) -> None:
    stores = store.vector_stores
    await stores.add_store("t", a_store(), [a_file(3)], QUOTA)
    [running] = await claim(store)
    await ingest(store, a_file(1, attributes={"k": 1}), [a_chunk(0, "text")])
    await stores.add_files("t", [a_file(2)], QUOTA)
    [job] = await claim(store)
    await stores.end_file(job, BROKEN)
    assert len(await search(store, "text")) == 1
    assert await stores.begin_reindex("t", "vs_1", "other") == 3
    found = await stores.store("t", "vs_1")
    assert (found.model, found.dimensions, found.usage_bytes) == ("other", 0, 0)
    assert found.file_counts == FileCounts(in_progress=3, total=3)
    assert await search(store, "text") == []
    with pytest.raises(Fenced):
        await stores.add_chunks(running, [a_chunk(0, "old")], QUOTA)
    jobs = await claim(store, free=5)
    assert len(jobs) == 3
    for job in jobs:
        claimed = await stores.claim_file(job)
        assert claimed is not None
        assert (claimed.model, claimed.chunks_saved, claimed.file.error) == ("other", 0, None)
        await stores.add_chunks(job, [a_chunk(0, "text", angle(0) + angle(0))], QUOTA)
        await stores.end_file(job, None)
    assert len(await search(store, "text", vector=angle(0) + angle(0))) == 3
    assert (await stores.store_file("t", "vs_1", "file-0001")).attributes == {"k": 1}
    await sweep(store)
    assert await count_rows("chunks") == 3
    assert await count_rows("chunk_sets") == 1
    assert await stores.begin_reindex("t", "vs_1", "third") == 3


async def test_a_deleted_file_object_leaves_all_stores(store: Stores, count_rows: CountRows) -> None:
    await add_file_object(store)
    for number in (1, 2):
        await store.vector_stores.add_store("t", a_store(number), [], QUOTA)
        await ingest(store, a_file(1, number), [a_chunk(0, "text")])
    await ingest(store, a_file(2), [a_chunk(0, "text")])
    await store.vector_stores.add_store("other", a_store(), [a_file(1)], QUOTA)
    assert len(await search(store, "text")) == 2
    await store.files.delete_file("t", "file-0001")
    assert places(await search(store, "text")) == [("file-0002", 0)]
    await sweep(store)
    assert await count_rows("chunks") == 1
    assert (await store.vector_stores.store("t", "vs_2")).file_counts == FileCounts()
    assert (await store.vector_stores.store("other", "vs_1")).file_counts.total == 1


async def test_an_expired_file_object_leaves_all_stores(
    store: Stores, clock: Clock, count_rows: CountRows
) -> None:
    await add_file_object(store, expires_at=5000)
    await store.vector_stores.add_store("t", a_store(), [], QUOTA)
    await ingest(store, a_file(1), [a_chunk(0, "text")])
    clock.now = 5000.0
    await sweep(store)
    assert await count_rows("files") == 0
    assert await counts(store) == FileCounts()
    assert await count_rows("chunks") == 0


async def add_file_object(store: Stores, expires_at: int | None = None) -> None:
    file = StoredFile(
        id="file-0001",
        filename="1.txt",
        purpose="assistants",
        media_type="text/plain",
        bytes=1,
        hash="h",
        created_at=1000,
        expires_at=expires_at,
        key="k",
    )
    await store.files.reserve_object("t", "k", 1, FileQuota(10, 10))
    await store.files.add_file("t", file, FileQuota(10, 10))


async def test_many_at_once(store: Stores) -> None:
    """Files of one store are added, completed and deleted by several at the same time."""
    stores = store.vector_stores
    await stores.add_store("t", a_store(), [a_file(number) for number in range(20)], QUOTA)
    await store.jobs.beat("o")
    jobs = await store.jobs.claim("o", [JobLimit(INGESTION, 20)])

    async def work(place: int) -> None:
        await stores.add_chunks(jobs[place], [a_chunk(0, "text"), a_chunk(1, "more")], QUOTA)
        await stores.end_file(jobs[place], None)
        if place % 2:
            await stores.delete_file("t", "vs_1", jobs[place].id.partition("/")[2])

    await asyncio.gather(*(work(place) for place in range(20)), *(search(store, "text") for _ in range(10)))
    assert await counts(store) == FileCounts(completed=10, total=10)
    assert len(await search(store, "text")) == 10
    assert (await stores.store("t", "vs_1")).usage_bytes == 10 * (8 + 2 * 8)


async def test_an_empty_change_changes_nothing_but_the_last_use(store: Stores, clock: Clock) -> None:
    await store.vector_stores.add_store("t", a_store(expires_after_days=2), [], QUOTA)
    clock.now = 1500.0
    change = VectorStoreChange(name=UNSET)
    assert await store.vector_stores.change_store("t", "vs_1", change) == a_store(
        expires_after_days=2, last_active_at=1500
    )
