"""The blob store contract, on every blob store."""

import asyncio
import errno
import os
import urllib.request
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from moto.server import ThreadedMotoServer
from obstore.store import MemoryStore

from antiphon.errors import SettingsError, StoreFull, StoreUnavailable
from antiphon.store.blobs import folder
from antiphon.store.blobs.folder import FolderBlobs
from antiphon.store.blobs.objects import ObjectBlobs
from antiphon.store.blobs.port import PIECE_BYTES, BlobStore
from antiphon.store.blobs.rows import RowBlobs
from antiphon.store.sqlite import SqliteDatabase
from tests.store.conftest import opened_postgres

CONTENT = os.urandom(PIECE_BYTES * 2 + 1000)
KEY = "tenant/ab/cdef"
KINDS = [
    *("folder", "sqlite", "objects"),
    pytest.param("postgres", marks=pytest.mark.slow),
    pytest.param("s3", marks=pytest.mark.slow),
]
CREDENTIALS = {"access_key_id": "key", "secret_access_key": "secret"}


@asynccontextmanager
async def open_blobs(
    kind: str, path: Path, request: pytest.FixtureRequest
) -> AsyncGenerator[BlobStore, None]:
    if kind == "folder":
        yield FolderBlobs(path / "files")
    elif kind == "objects":
        yield ObjectBlobs(MemoryStore())
    elif kind == "s3":
        options = {"endpoint": request.getfixturevalue("s3"), "allow_http": "true", "region": "us-east-1"}
        blobs = ObjectBlobs.open("s3://files/some/folder", options | CREDENTIALS)
        yield blobs
        await blobs.delete([KEY, "other", *(f"k{number}" for number in range(8))])
    elif kind == "sqlite":
        database = await SqliteDatabase.open(path / "antiphon.db")
        yield RowBlobs(database)
        await database.aclose()
    else:
        server, url = request.getfixturevalue("postgres"), request.getfixturevalue("postgres_url")
        async with opened_postgres(server, url) as opened:
            yield RowBlobs(opened.database)


@pytest.fixture(scope="session")
def s3() -> Iterator[str]:
    """The URL of an S3 server with the bucket `files`."""
    server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    url = f"http://127.0.0.1:{server.get_host_and_port()[1]}"
    urllib.request.urlopen(urllib.request.Request(f"{url}/files", method="PUT")).close()
    yield url
    server.stop()


@pytest.fixture(params=KINDS)
async def blobs(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[BlobStore]:
    async with open_blobs(request.param, tmp_path, request) as opened:
        yield opened


async def put(blobs: BlobStore, key: str, *pieces: bytes) -> None:
    writer = await blobs.create(key)
    for piece in pieces:
        await writer.write([piece])
    await writer.commit()


async def read(blobs: BlobStore, key: str, start: int, end: int) -> bytes:
    return b"".join([piece async for piece in blobs.read(key, start, end)])


@pytest.mark.parametrize("size", [1, 1000, PIECE_BYTES - 1, PIECE_BYTES, PIECE_BYTES + 1, len(CONTENT)])
@pytest.mark.parametrize("step", [300_000, PIECE_BYTES, 3 * PIECE_BYTES])
async def test_content_comes_back_as_it_was_written(blobs: BlobStore, size: int, step: int) -> None:
    content = CONTENT[:size]
    await put(blobs, KEY, *(content[at : at + step] for at in range(0, size, step)))
    assert await read(blobs, KEY, 0, size) == content


@pytest.mark.parametrize(
    ("start", "end"),
    [(0, 1), (5, 5), (1000, PIECE_BYTES), (PIECE_BYTES - 1, PIECE_BYTES + 1), (PIECE_BYTES, len(CONTENT))],
)
async def test_ranges_are_read(blobs: BlobStore, start: int, end: int) -> None:
    await put(blobs, KEY, CONTENT)
    assert await read(blobs, KEY, start, end) == CONTENT[start:end]


async def test_pieces_may_come_together(blobs: BlobStore) -> None:
    writer = await blobs.create(KEY)
    await writer.write([b"a", b"", b"bc"])
    await writer.write([])
    await writer.write([b"d"])
    await writer.commit()
    assert await read(blobs, KEY, 0, 4) == b"abcd"


async def test_what_does_not_exist_or_is_too_short_cannot_be_read(blobs: BlobStore) -> None:
    with pytest.raises(StoreUnavailable):
        await read(blobs, KEY, 0, 1)
    await put(blobs, KEY, b"abc")
    with pytest.raises(StoreUnavailable):
        await read(blobs, KEY, 0, 4)


async def test_deleted_objects_are_gone_and_the_unknown_are_ignored(blobs: BlobStore) -> None:
    await put(blobs, KEY, CONTENT)
    await put(blobs, "other", b"stays")
    await blobs.delete([KEY, "never/was/there"])
    with pytest.raises(StoreUnavailable):
        await read(blobs, KEY, 0, 1)
    assert await read(blobs, "other", 0, 5) == b"stays"


async def test_an_aborted_object_leaves_nothing(blobs: BlobStore) -> None:
    writer = await blobs.create(KEY)
    await writer.write([CONTENT])
    await writer.abort()
    with pytest.raises(StoreUnavailable):
        await read(blobs, KEY, 0, 1)
    await put(blobs, KEY, b"again")
    assert await read(blobs, KEY, 0, 5) == b"again"


async def test_an_incomplete_object_can_be_deleted(blobs: BlobStore) -> None:
    """As upkeep does after a crash."""
    writer = await blobs.create(KEY)
    await writer.write([CONTENT])
    await blobs.delete([KEY])
    await writer.abort()
    await put(blobs, KEY, b"again")
    assert await read(blobs, KEY, 0, 5) == b"again"


async def test_several_objects_are_written_at_the_same_time(blobs: BlobStore) -> None:
    await asyncio.gather(*(put(blobs, f"k{number}", b"%d" % number, CONTENT) for number in range(8)))
    for number in range(8):
        assert await read(blobs, f"k{number}", 0, 1) == b"%d" % number


# The folder


def files_in(path: Path) -> list[Path]:
    return [file for file in path.rglob("*") if file.is_file()]


async def test_a_file_has_its_name_when_it_is_complete(tmp_path: Path) -> None:
    blobs = FolderBlobs(tmp_path)
    writer = await blobs.create(KEY)
    await writer.write([b"abc"])
    assert [file.name for file in files_in(tmp_path)] == ["cdef.incomplete"]
    await writer.commit()
    [file] = files_in(tmp_path)
    assert (file, file.stat().st_mode & 0o777) == (tmp_path / KEY, 0o600)
    assert file.parent.stat().st_mode & 0o777 == 0o700


async def test_a_file_is_on_disk_before_it_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[bool] = []
    fsync = os.fsync

    def recorded(descriptor: int) -> None:
        synced.append((tmp_path / KEY).exists())
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", recorded)
    await put(FolderBlobs(tmp_path), KEY, b"abc")
    assert synced == [False, True], "the file, then the folder with its new name"


async def test_an_aborted_file_is_deleted(tmp_path: Path) -> None:
    writer = await FolderBlobs(tmp_path).create(KEY)
    await writer.write([b"abc"])
    await writer.abort()
    assert files_in(tmp_path) == []


@pytest.mark.parametrize("step", ["_write", "_commit"])
async def test_a_full_disk_is_a_507(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    def full(*_args: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    writer = await FolderBlobs(tmp_path).create(KEY)
    monkeypatch.setattr(folder, step, full)
    with pytest.raises(StoreFull, match="no space left") as refused:
        await writer.write([b"abc"])
        await writer.commit()
    assert refused.value.status == 507
    await writer.abort()
    assert files_in(tmp_path) == []


async def test_a_partial_write_is_continued(tmp_path: Path) -> None:
    """A raw file may take less than it is given."""

    class Slow:
        written = b""

        def write(self, data: bytes) -> int:
            self.written += bytes(data[:3])
            return min(3, len(data))

    slow: Any = Slow()
    folder._write(slow, [b"abcdefgh", b"i"])  # pyright: ignore[reportPrivateUsage]
    assert slow.written == b"abcdefghi"


async def test_a_folder_that_cannot_be_written_is_refused_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SettingsError, match=r"files\.url"):
        FolderBlobs(tmp_path / "file" / "files").check()
    FolderBlobs(tmp_path / "new" / "files").check()
    assert files_in(tmp_path / "new") == []


@pytest.mark.parametrize(
    ("url", "options"),
    [("ftp://somewhere", {}), ("memory:///", {}), ("s3://", {}), ("s3://b", {"no": "option"})],
)
def test_other_urls_are_refused_in_one_line(url: str, options: dict[str, str]) -> None:
    with pytest.raises(SettingsError, match=r"files\.url") as refused:
        ObjectBlobs.open(url, options)
    assert "\n" not in refused.value.message


async def test_an_object_store_that_does_not_answer_is_a_503() -> None:
    options = {"endpoint": "http://127.0.0.1:9", "allow_http": "true", "region": "r", **CREDENTIALS}
    blobs = ObjectBlobs.open("s3://files", options)
    writer = await blobs.create(KEY)
    with pytest.raises(StoreUnavailable, match="cannot be used right now") as refused:
        await writer.write([b"abc"])
        await writer.commit()
    assert refused.value.status == 503
    await writer.abort()
    for call in (read(blobs, KEY, 0, 1), blobs.delete([KEY])):
        with pytest.raises(StoreUnavailable):
            await call
