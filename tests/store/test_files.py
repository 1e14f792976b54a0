"""Files and uploads: rows that share content, quotas, and the objects that nothing refers to."""

import asyncio

import pytest
from msgspec.structs import replace

from antiphon.errors import InvalidRequest, NotFound, StoreUnavailable
from antiphon.store.files import FilePage, FileQuota, StoredFile, Upload, UploadPart
from antiphon.store.ports import Stores
from tests.store.conftest import Clock, CountRows

QUOTA = FileQuota(100, 1_000_000)
FIRST_PAGE = FilePage()


def a_file(number: int, content: str = "", **members: object) -> StoredFile:
    file = StoredFile(
        id=f"file-{number:04}",
        filename="a.txt",
        purpose="user_data",
        media_type="text/plain",
        bytes=10,
        hash=content or f"hash{number}",
        created_at=1000,
        key=f"key{number}",
    )
    return replace(file, **members)


async def add(store: Stores, tenant: str, file: StoredFile, quota: FileQuota = QUOTA) -> list[str]:
    await store.files.reserve_object(tenant, file.key, file.bytes, quota)
    return [*await store.files.add_file(tenant, file, quota)]


async def ids(store: Stores, tenant: str, page: FilePage = FIRST_PAGE) -> list[str]:
    files, _ = await store.files.list_files(tenant, page)
    return [file.id for file in files]


async def test_a_file_is_stored_and_found(store: Stores) -> None:
    file = a_file(1, expires_at=5000)
    assert await add(store, "t", file) == []
    assert await store.files.file("t", "file-0001") == file
    assert await store.files.due_objects(10) == []


@pytest.mark.requirement("FILES/files-equal-content")
async def test_equal_content_is_stored_once_for_a_tenant(store: Stores, count_rows: CountRows) -> None:
    await add(store, "t", a_file(1, "same"))
    assert await add(store, "t", a_file(2, "same")) == ["key2"]
    assert await add(store, "other", a_file(3, "same")) == []
    assert await count_rows("blobs") == 2
    assert (await store.files.file("t", "file-0002")).key == "key1"
    assert await store.files.due_objects(10) == ["key2"]
    assert await store.files.delete_file("t", "file-0001") == []
    assert (await store.files.file("t", "file-0002")).key == "key1"
    assert await store.files.delete_file("t", "file-0002") == ["key1"]
    assert (await store.files.file("other", "file-0003")).key == "key3"
    assert sorted(await store.files.due_objects(10)) == ["key1", "key2"]
    await store.files.forget_objects(["key1", "key2"])
    assert await store.files.due_objects(10) == []


async def test_content_can_be_stored_again_after_its_last_file_was_deleted(store: Stores) -> None:
    await add(store, "t", a_file(1, "same"))
    await store.files.delete_file("t", "file-0001")
    assert await add(store, "t", a_file(2, "same")) == []
    assert (await store.files.file("t", "file-0002")).key == "key2"


async def test_files_are_listed_in_pages(store: Stores) -> None:
    for number in range(1, 6):
        await add(store, "t", a_file(number, purpose="batch" if number % 2 else "vision"))
    assert await ids(store, "t") == [f"file-000{number}" for number in (5, 4, 3, 2, 1)]
    assert await ids(store, "t", FilePage(order="asc", limit=2)) == ["file-0001", "file-0002"]
    assert await ids(store, "t", FilePage(order="asc", after="file-0002")) == [
        "file-0003",
        "file-0004",
        "file-0005",
    ]
    batch = FilePage(purpose="batch", limit=2)
    files, has_more = await store.files.list_files("t", batch)
    assert ([file.id for file in files], has_more) == (["file-0005", "file-0003"], True)
    files, has_more = await store.files.list_files("t", replace(batch, after="file-0003"))
    assert ([file.id for file in files], has_more) == (["file-0001"], False)
    assert await ids(store, "t", FilePage(purpose="vision", order="asc")) == ["file-0002", "file-0004"]
    assert await ids(store, "other") == []


async def test_a_page_continues_behind_a_file_that_was_deleted_meanwhile(store: Stores) -> None:
    for number in range(1, 4):
        await add(store, "t", a_file(number))
    await store.files.delete_file("t", "file-0002")
    assert await ids(store, "t", FilePage(after="file-0002")) == ["file-0001"]


@pytest.mark.parametrize("name", ["file-0001", "file-none"])
async def test_foreign_files_are_as_unknown_as_missing_ones(store: Stores, name: str) -> None:
    await add(store, "t", a_file(1))
    for call in (store.files.file, store.files.delete_file):
        with pytest.raises(NotFound, match=f"No such File object: {name}"):
            await call("other", name)
    assert await ids(store, "t") == ["file-0001"]


async def test_expired_files_are_gone_at_once_and_swept_later(
    store: Stores, clock: Clock, count_rows: CountRows
) -> None:
    await add(store, "t", a_file(1, "same", expires_at=2000))
    await add(store, "t", a_file(2, "same", expires_at=3000))
    clock.now = 2000.0
    with pytest.raises(NotFound):
        await store.files.file("t", "file-0001")
    with pytest.raises(NotFound):
        await store.files.delete_file("t", "file-0001")
    assert await ids(store, "t") == ["file-0002"]
    assert await store.upkeep.sweep() == 1
    assert await store.upkeep.sweep() == 0
    await store.files.forget_objects(await store.files.due_objects(10))
    clock.now = 3000.0
    await store.upkeep.sweep()
    assert await store.files.due_objects(10) == ["key1"]
    assert [await count_rows(table) for table in ("files", "blobs")] == [0, 0]


async def test_a_tenant_has_a_quota_of_files(store: Stores) -> None:
    quota = FileQuota(2, 1_000_000)
    await add(store, "t", a_file(1), quota)
    await store.files.reserve_object("t", "key3", 10, quota)
    await add(store, "t", a_file(2), quota)
    with pytest.raises(InvalidRequest, match="limit of 2 files") as refused:
        await store.files.reserve_object("t", "key4", 10, quota)
    assert refused.value.code == "file_quota_exceeded"
    with pytest.raises(InvalidRequest, match="limit of 2 files"):
        await store.files.add_file("t", a_file(3), quota)  # there was room when it began
    await add(store, "other", a_file(1, key="key5"), quota)
    await store.files.delete_file("t", "file-0001")
    await store.files.add_file("t", a_file(3), quota)


async def test_a_tenant_has_a_quota_of_bytes(store: Stores) -> None:
    quota = FileQuota(100, 25)
    await add(store, "t", a_file(1), quota)
    await add(store, "t", a_file(2, "hash1"), quota)  # counts once
    await add(store, "t", a_file(3), quota)
    with pytest.raises(InvalidRequest, match="may have 25 bytes"):
        await store.files.reserve_object("t", "key4", 6, quota)
    await store.files.reserve_object("t", "key4", 5, quota)
    with pytest.raises(InvalidRequest, match="may have 25 bytes"):
        await store.files.add_file("t", a_file(4), quota)
    await store.files.delete_file("t", "file-0001")
    with pytest.raises(InvalidRequest, match="may have 25 bytes"):
        await store.files.add_file("t", a_file(4), quota)
    await store.files.delete_file("t", "file-0002")
    await store.files.add_file("t", a_file(4), quota)


async def test_a_refused_file_leaves_its_object_unreferenced(store: Stores) -> None:
    quota = FileQuota(1, 1000)
    await store.files.reserve_object("t", "key2", 10, quota)
    await add(store, "t", a_file(1), quota)
    with pytest.raises(InvalidRequest):
        await store.files.add_file("t", a_file(2), quota)
    assert await store.files.release_object("key2")
    assert await store.files.due_objects(10) == ["key2"]


async def test_an_object_that_a_file_refers_to_is_not_released(store: Stores) -> None:
    await add(store, "t", a_file(1))
    assert not await store.files.release_object("key1")
    assert await store.files.due_objects(10) == []


async def test_a_due_object_cannot_be_referred_to(store: Stores) -> None:
    """Upkeep may be deleting it at this moment."""
    await store.files.reserve_object("t", "key1", 10, QUOTA)
    await store.files.release_object("key1")
    with pytest.raises(StoreUnavailable, match="took too long"):
        await store.files.add_file("t", a_file(1), QUOTA)


async def test_files_of_the_same_content_may_come_and_go_together(
    store: Stores, count_rows: CountRows
) -> None:
    async def come_and_go(number: int) -> None:
        for turn in range(5):
            await add(store, "t", a_file(number, "same", key=f"key{number}.{turn}"))
            assert (await store.files.file("t", f"file-{number:04}")).hash == "same"
            await store.files.delete_file("t", f"file-{number:04}")

    await asyncio.gather(*(come_and_go(number) for number in range(8)))
    assert [await count_rows(table) for table in ("files", "blobs")] == [0, 0]
    await add(store, "t", a_file(1), FileQuota(1, 10))  # all that was used is given back


# Uploads


def an_upload(size: int = 20) -> Upload:
    return Upload(
        id="upload_1",
        filename="a.txt",
        purpose="batch",
        media_type="text/plain",
        bytes=size,
        created_at=1000,
        expires_at=4600,
        file_lifetime=7200,
    )


async def add_part(store: Stores, number: int, quota: FileQuota = QUOTA) -> UploadPart:
    part = UploadPart(id=f"part_{number}", key=f"part{number}", bytes=10, created_at=1001)
    await store.files.reserve_object("t", part.key, part.bytes, quota)
    await store.files.add_part("t", "upload_1", part, quota)
    return part


async def test_an_upload_becomes_a_file_in_place_of_its_parts(store: Stores, count_rows: CountRows) -> None:
    quota = FileQuota(1, 20)
    await store.files.add_upload("t", an_upload())
    assert await store.files.upload("t", "upload_1") == an_upload()
    parts = [await add_part(store, number, quota) for number in (1, 2)]
    assert [*await store.files.parts("t", "upload_1")] == parts
    await store.files.reserve_object("t", "key1", 0, quota)
    keys = await store.files.complete_upload("t", "upload_1", a_file(1, bytes=20), quota)
    assert sorted(keys) == ["part1", "part2"]
    assert sorted(await store.files.due_objects(10)) == ["part1", "part2"]
    assert await store.files.upload("t", "upload_1") == replace(
        an_upload(), status="completed", file="file-0001"
    )
    assert await count_rows("upload_parts") == 0
    with pytest.raises(InvalidRequest, match="is completed, not pending") as refused:
        await store.files.cancel_upload("t", "upload_1")
    assert refused.value.code == "upload_completed"


async def test_an_upload_of_known_content_refers_to_it(store: Stores) -> None:
    await add(store, "t", a_file(1, "same"))
    await store.files.add_upload("t", an_upload(10))
    await add_part(store, 1)
    await store.files.reserve_object("t", "key2", 0, QUOTA)
    assert sorted(await store.files.complete_upload("t", "upload_1", a_file(2, "same"), QUOTA)) == [
        "key2",
        "part1",
    ]
    assert (await store.files.file("t", "file-0002")).key == "key1"


async def test_a_cancelled_upload_frees_its_parts(store: Stores) -> None:
    quota = FileQuota(10, 10)
    await store.files.add_upload("t", an_upload())
    await add_part(store, 1, quota)
    with pytest.raises(InvalidRequest, match="may have 10 bytes"):
        await add_part(store, 2, quota)
    assert await store.files.cancel_upload("t", "upload_1") == ["part1"]
    assert (await store.files.upload("t", "upload_1")).status == "cancelled"
    with pytest.raises(InvalidRequest, match="cancelled, not pending"):
        await add_part(store, 3, quota)
    await add(store, "t", a_file(1), quota)


@pytest.mark.requirement("FILES/uploads-expiry")
async def test_an_upload_expires(store: Stores, clock: Clock, count_rows: CountRows) -> None:
    quota = FileQuota(10, 10)
    await store.files.add_upload("t", an_upload())
    await add_part(store, 1, quota)
    clock.now = 4600.0
    assert (await store.files.upload("t", "upload_1")).status == "expired"
    await store.files.reserve_object("t", "key1", 0, quota)
    for call in (
        store.files.complete_upload("t", "upload_1", a_file(1), quota),
        store.files.cancel_upload("t", "upload_1"),
    ):
        with pytest.raises(InvalidRequest, match="expired, not pending"):
            await call
    assert await store.upkeep.sweep() == 1
    assert await store.files.due_objects(10) == ["part1"]
    assert await store.upkeep.sweep() == 0
    await add(store, "t", a_file(2), quota)  # the bytes of the part are free
    clock.now += 24 * 3600
    assert await store.upkeep.sweep() == 1
    assert await count_rows("uploads") == 0


async def test_foreign_uploads_are_as_unknown_as_missing_ones(store: Stores) -> None:
    await store.files.add_upload("t", an_upload())
    await store.files.reserve_object("other", "key1", 0, QUOTA)
    part = UploadPart(id="part_1", key="key1", bytes=1, created_at=1)
    for name in ("upload_1", "upload_none"):
        for call in (
            store.files.upload("other", name),
            store.files.add_part("other", name, part, QUOTA),
            store.files.complete_upload("other", name, a_file(1), QUOTA),
            store.files.cancel_upload("other", name),
        ):
            with pytest.raises(NotFound, match=f"'{name}' not found"):
                await call
        assert await store.files.parts("other", name) == []
    assert (await store.files.upload("t", "upload_1")).status == "pending"
