"""Files in the service: content that does not arrive, callers that are cancelled, upkeep."""

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from antiphon.caller import Caller
from antiphon.errors import BodyTooLarge, StoreFull, StoreUnavailable
from antiphon.protocol.files import NewFile
from antiphon.service.files.contents import Contents
from antiphon.service.files.files import Files
from antiphon.service.files.upkeep import delete_due_objects
from antiphon.store.blobs.folder import FolderBlobs, FolderWriter
from antiphon.store.files import FilePage, FileQuota, StoredFile
from antiphon.store.ports import Stores
from antiphon.wiring import make_ids

OWNER = Caller.of("owner")
ALL = FilePage()


class Incoming:
    """A file that arrives in these pieces; an exception among them breaks it off."""

    declared_bytes = 0

    def __init__(self, *pieces: bytes | BaseException) -> None:
        self.pieces = pieces

    async def content(self) -> AsyncIterator[bytes]:
        for piece in self.pieces:
            if isinstance(piece, BaseException):
                raise piece
            yield piece

    def description(self) -> NewFile:
        return NewFile(filename="a.txt", purpose="user_data")


class Blobs(FolderBlobs):
    """A folder that can be made to fail."""

    failure: Exception | None = None

    async def delete(self, keys: Sequence[str]) -> None:
        if self.failure is not None:
            raise self.failure
        await super().delete(keys)


@pytest.fixture
def blobs(tmp_path: Path) -> Blobs:
    return Blobs(tmp_path)


@pytest.fixture
def files(store: Stores, blobs: Blobs) -> Files:
    ids = make_ids()
    contents = Contents(store.files, blobs, FileQuota(1000, 10**9), ids.entropy)
    return Files(store.files, contents, ids, lambda: 1000.0)


def objects(tmp_path: Path) -> list[Path]:
    return [path for path in tmp_path.rglob("*") if path.is_file()]


async def read(files: Files, file: StoredFile) -> bytes:
    found = await files.retrieve(OWNER, file.id)
    return b"".join([piece async for piece in files.read(found)])


async def nothing_is_left(files: Files, tmp_path: Path) -> bool:
    listed, _ = await files.list(OWNER, ALL)
    return not listed and objects(tmp_path) == [] and not await files.store.due_objects(10)


async def test_pieces_of_any_size_are_written(files: Files) -> None:
    pieces = [b"a" * 300_000, b"", b"b", b"c" * 3_000_000]
    file = await files.create(OWNER, Incoming(*pieces))
    assert await read(files, file) == b"".join(pieces)


async def test_small_pieces_are_not_collected_for_long(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client may send single bytes."""
    written: list[int] = []
    write = FolderWriter.write

    async def recorded(self: FolderWriter, pieces: Sequence[bytes]) -> None:
        written.append(len(pieces))
        await write(self, pieces)

    monkeypatch.setattr(FolderWriter, "write", recorded)
    file = await files.create(OWNER, Incoming(*([b"ab"] * 1000)))
    assert await read(files, file) == b"ab" * 1000
    assert written == [1, 1, 1, 1000 - 3 * 256]


async def test_content_is_written_while_it_arrives(files: Files, tmp_path: Path) -> None:
    on_disk: list[int] = []

    class Watched(Incoming):
        async def content(self) -> AsyncIterator[bytes]:
            for _ in range(8):
                yield b"x" * 2**20
                on_disk.append(sum(path.stat().st_size for path in objects(tmp_path)))

    await files.create(OWNER, Watched())
    assert on_disk[-1] >= 5 * 2**20, "all but the last two megabytes or so"


@pytest.mark.parametrize("error", [ConnectionError(), asyncio.CancelledError(), StoreFull()])
@pytest.mark.parametrize("size", [0, 10, 3_000_000])
async def test_content_that_breaks_off_leaves_nothing(
    files: Files, tmp_path: Path, error: BaseException, size: int
) -> None:
    with pytest.raises(type(error)):
        await files.create(OWNER, Incoming(b"x" * size, error))
    assert await nothing_is_left(files, tmp_path)


async def test_content_that_is_too_large_leaves_nothing(files: Files, tmp_path: Path) -> None:
    with pytest.raises(BodyTooLarge):
        await replace(files, max_bytes=2_000_000).create(OWNER, Incoming(b"x" * 2_000_000, b"x"))
    assert await nothing_is_left(files, tmp_path)


async def test_a_write_that_fails_later_is_noticed(
    files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pieces are written while the next ones arrive."""

    def full(*_args: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("antiphon.store.blobs.folder._write", full)
    with pytest.raises(StoreFull):
        await files.create(OWNER, Incoming(b"x" * 2_000_000, b"y" * 2_000_000, b"z"))
    assert await nothing_is_left(files, tmp_path)


async def test_what_is_being_written_ends_before_it_is_deleted(
    files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A write that is under way may otherwise arrive after the object was deleted."""
    steps: list[str] = []
    writing, abort = asyncio.Event(), FolderWriter.abort

    async def slow_write(_self: FolderWriter, _pieces: Sequence[bytes]) -> None:
        writing.set()
        await asyncio.sleep(0.1)
        steps.append("written")

    async def recorded_abort(self: FolderWriter) -> None:
        steps.append("aborted")
        await abort(self)

    monkeypatch.setattr(FolderWriter, "write", slow_write)
    monkeypatch.setattr(FolderWriter, "abort", recorded_abort)
    creating = asyncio.create_task(files.create(OWNER, Incoming(b"x" * 2**20, b"y" * 2**20)))
    await writing.wait()
    creating.cancel()
    with pytest.raises(asyncio.CancelledError):
        await creating
    assert steps == ["written", "aborted"]
    assert await nothing_is_left(files, tmp_path)


async def test_a_caller_that_is_cancelled_while_the_row_is_written_loses_no_content(
    files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database completes a write that has begun: then the object must stay."""
    add_file, writing = files.store.add_file, asyncio.Event()

    async def add(*args: Any) -> Any:
        writing.set()
        return await add_file(*args)

    monkeypatch.setattr(files.store, "add_file", add)
    creating = asyncio.create_task(files.create(OWNER, Incoming(b"content")))
    await writing.wait()
    creating.cancel()
    with pytest.raises(asyncio.CancelledError):
        await creating
    [file], _ = await files.list(OWNER, ALL)
    assert await read(files, file) == b"content"
    assert await files.store.due_objects(10) == []
    assert len(objects(tmp_path)) == 1


async def test_objects_that_cannot_be_deleted_now_are_deleted_later(
    files: Files, blobs: Blobs, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = await files.create(OWNER, Incoming(b"content"))
    blobs.failure = StoreUnavailable("no answer")
    with caplog.at_level(logging.WARNING):
        await files.delete(OWNER, file.id)
    assert "deleted later: no answer" in caplog.text
    with pytest.raises(StoreUnavailable):
        await delete_due_objects(files.contents)
    assert len(objects(tmp_path)) == 1
    blobs.failure = None
    await delete_due_objects(files.contents)
    assert await nothing_is_left(files, tmp_path)


async def test_what_a_crash_has_left_is_deleted_when_it_is_due(
    files: Files, blobs: Blobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("antiphon.store.file_scripts.WRITE_TIMEOUT_SECONDS", 0.05)
    await files.store.reserve_object("owner", "k/1", 0, files.contents.quota)
    writer = await blobs.create("k/1")
    await writer.write([b"half"])
    await delete_due_objects(files.contents)
    assert len(objects(tmp_path)) == 1  # it may still be written
    await asyncio.sleep(0.1)
    await delete_due_objects(files.contents)
    assert await nothing_is_left(files, tmp_path)
    await writer.abort()


async def test_equal_content_is_one_object(files: Files, tmp_path: Path) -> None:
    first, second = [await files.create(OWNER, Incoming(b"same")) for _ in range(2)]
    await files.create(Caller.of("other"), Incoming(b"same"))
    assert len(objects(tmp_path)) == 2
    await files.delete(OWNER, first.id)
    assert await read(files, second) == b"same"
    await files.delete(OWNER, second.id)
    assert len(objects(tmp_path)) == 1


async def test_files_of_one_tenant_are_in_one_folder_without_its_name(files: Files, tmp_path: Path) -> None:
    for content in (b"1", b"2"):
        await files.create(OWNER, Incoming(content))
    [folder] = {path.relative_to(tmp_path).parts[0] for path in objects(tmp_path)}
    assert "owner" not in folder
