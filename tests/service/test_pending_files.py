"""What is being written counts for the quota of a tenant, and an upload is joined once at a time."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from antiphon.caller import Caller
from antiphon.errors import InvalidRequest, StoreFull
from antiphon.protocol.files import CompleteUpload, NewFile, NewUpload
from antiphon.service.files.contents import Contents
from antiphon.service.files.files import Files
from antiphon.service.files.uploads import Uploads
from antiphon.store.blobs.folder import FolderBlobs, FolderWriter
from antiphon.store.files import FileQuota, StoredFile
from antiphon.store.ports import Stores
from antiphon.wiring import make_ids

OWNER = Caller.of("owner")
QUOTA_BYTES = 1_000_000
NEW = NewFile(filename="a.txt", purpose="user_data")


@dataclass
class Incoming:
    """A file of pieces of 100,000 bytes. It waits after the first `after` and at its end until it is released."""

    pieces: int
    release: asyncio.Event | None = None
    after: int = -1
    declared_bytes: int = 0
    error: Exception | None = None
    arrived: int = 0
    waits: asyncio.Event = field(default_factory=asyncio.Event)

    async def wait(self) -> None:
        if self.release is not None:
            self.waits.set()
            await self.release.wait()

    async def content(self) -> AsyncIterator[bytes]:
        for number in range(self.pieces):
            if number == self.after:
                await self.wait()
            self.arrived += 1
            yield (self.pieces * 100 + number).to_bytes(4, "little") * 25_000
            await asyncio.sleep(0)
        await self.wait()
        if self.error is not None:
            raise self.error

    def description(self) -> NewFile:
        return NEW


class Small(Incoming):
    """The same 60,000 bytes each time."""

    def __init__(self, release: asyncio.Event | None = None) -> None:
        super().__init__(1, release)

    async def content(self) -> AsyncIterator[bytes]:
        yield b"same" * 15_000
        await self.wait()


@pytest.fixture
def files(store: Stores, tmp_path: Path) -> Files:
    ids = make_ids()
    contents = Contents(store.files, FolderBlobs(tmp_path), FileQuota(1000, QUOTA_BYTES), ids.entropy)
    return Files(store.files, contents, ids, lambda: 1000.0)


async def start(files: Files, incoming: Incoming) -> asyncio.Task[StoredFile]:
    """A file that arrives until it waits."""
    task = asyncio.create_task(files.create(OWNER, incoming))
    await asyncio.wait_for(incoming.waits.wait(), 10)
    return task


async def refused(files: Files, incoming: Incoming, caller: Caller = OWNER) -> bool:
    """Whether the quota has no room for a file. One that has room is deleted."""
    try:
        file = await files.create(caller, incoming)
    except InvalidRequest as error:
        assert error.code == "file_quota_exceeded"
        return True
    await files.delete(caller, file.id)
    return False


@pytest.mark.parametrize("declared_bytes", [0, 400_000])
async def test_files_that_arrive_together_stay_within_the_quota(files: Files, declared_bytes: int) -> None:
    release = asyncio.Event()
    running = [await start(files, Incoming(4, release, declared_bytes=declared_bytes)) for _ in range(2)]
    beyond = Incoming(4, declared_bytes=declared_bytes)
    assert await refused(files, beyond)
    assert beyond.arrived == (0 if declared_bytes else 3)
    assert not await refused(files, Incoming(2))
    assert not await refused(files, Incoming(10), Caller.of("other"))
    release.set()
    await asyncio.gather(*running)
    assert not await refused(files, Incoming(6)), "equal content is stored once"
    assert await refused(files, Incoming(7))


async def test_what_is_announced_counts_before_it_arrives(files: Files) -> None:
    release = asyncio.Event()
    running = await start(files, Incoming(1, release, declared_bytes=900_000))
    assert await refused(files, Incoming(2))
    assert not await refused(files, Incoming(1))
    release.set()
    await running
    assert not await refused(files, Incoming(9))


async def test_a_file_that_ends_counts_for_those_that_still_arrive(files: Files) -> None:
    release, late = asyncio.Event(), Incoming(8, asyncio.Event(), after=1)
    running = await start(files, Incoming(6, release))
    waiting = await start(files, late)
    release.set()
    await running
    assert late.release is not None
    late.release.set()
    with pytest.raises(InvalidRequest):
        await waiting
    assert late.arrived == 5


async def test_small_content_that_is_known_needs_no_room(files: Files) -> None:
    """It counts once; an upload that is completed meanwhile needs none, too."""
    uploads, release = Uploads(files), asyncio.Event()
    small = [await files.create(OWNER, Small()) for _ in range(2)]
    upload = await uploads.create(OWNER, NewUpload(NEW, 900_000))
    part = await uploads.add_part(OWNER, upload.id, Incoming(9))
    running = [await start(files, Small(release)) for _ in range(3)]
    await uploads.complete(OWNER, upload.id, CompleteUpload((part.id,)))
    release.set()
    small += await asyncio.gather(*running)
    assert len({file.hash for file in small}) == 1
    assert await refused(files, Incoming(1))


@pytest.mark.parametrize("error", [ConnectionError(), StoreFull()])
async def test_a_file_that_breaks_off_gives_its_room_back(files: Files, error: Exception) -> None:
    with pytest.raises(type(error)):
        await files.create(OWNER, Incoming(10, error=error, declared_bytes=1_000_000))
    assert not await refused(files, Incoming(10, declared_bytes=1_000_000))


async def test_an_upload_is_joined_once_at_a_time(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its parts are all that the tenant may store."""
    uploads = Uploads(files)
    upload = await uploads.create(OWNER, NewUpload(NEW, 2 * 500_000))
    parts = [await uploads.add_part(OWNER, upload.id, Incoming(5)) for _ in range(2)]
    assert await refused(files, Incoming(1))
    written: list[int] = []
    write = FolderWriter.write

    async def recorded(self: FolderWriter, pieces: list[bytes]) -> None:
        written.append(sum(map(len, pieces)))
        await write(self, pieces)

    monkeypatch.setattr(FolderWriter, "write", recorded)
    wanted = CompleteUpload(tuple(part.id for part in parts))
    calls = [uploads.complete(OWNER, upload.id, wanted) for _ in range(10)]
    completed = await asyncio.gather(*calls)
    assert len({file.id for _, file in completed}) == 1
    assert sum(written) == 1_000_000


async def test_an_upload_whose_joining_fails_can_be_completed_by_the_next(files: Files) -> None:
    uploads = Uploads(files)
    upload = await uploads.create(OWNER, NewUpload(NEW, 500_000))
    part = await uploads.add_part(OWNER, upload.id, Incoming(5))
    wrong = uploads.complete(OWNER, upload.id, CompleteUpload((part.id,), md5="0" * 32))
    right = uploads.complete(OWNER, upload.id, CompleteUpload((part.id,)))
    failed, completed = await asyncio.gather(wrong, right, return_exceptions=True)
    assert isinstance(failed, InvalidRequest)
    assert not isinstance(completed, BaseException)
    assert completed[0].status == "completed"
