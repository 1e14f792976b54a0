"""Where the content of files is, by the settings."""

import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from antiphon import Antiphon
from antiphon.caller import OPERATOR
from antiphon.errors import SettingsError
from antiphon.protocol.files import NewFile
from antiphon.settings import FilesSettings, SealSettings, Settings, StoreSettings
from antiphon.store.blobs.folder import FolderBlobs
from antiphon.store.blobs.objects import ObjectBlobs
from antiphon.store.blobs.rows import RowBlobs
from antiphon.store.none import no_stores
from antiphon.wiring import open_files
from antiphon.wiring.stores import make_blobs


class Incoming:
    """A file of seven bytes."""

    declared_bytes = 7

    async def content(self) -> AsyncIterator[bytes]:
        yield b"content"

    def description(self) -> NewFile:
        return NewFile(filename="a", purpose="user_data")


def settings_of(store: str, **files: object) -> Settings:
    return Settings(
        store=StoreSettings(url=store),
        files=FilesSettings(**files),  # pyright: ignore[reportArgumentType] -- as the test gives them
        seal=SealSettings(key="test"),
    )


def folders_in(path: Path) -> set[str]:
    return {found.name for found in path.iterdir() if found.is_dir()}


@pytest.mark.parametrize(
    ("store", "url", "kind", "place"),
    [
        ("sqlite:{}/antiphon.db", "", FolderBlobs, "antiphon.db-files"),
        ("sqlite:{}/antiphon.db", "{}/elsewhere", FolderBlobs, "elsewhere"),
        ("sqlite:{}/antiphon.db", "file://{}/elsewhere", FolderBlobs, "elsewhere"),
        ("sqlite:{}/antiphon.db", "database", RowBlobs, None),
        ("memory:", "", RowBlobs, None),
        ("memory:", "{}/elsewhere", FolderBlobs, "elsewhere"),
    ],
)
async def test_the_content_is_where_the_settings_say(
    tmp_path: Path, store: str, url: str, kind: type, place: str | None
) -> None:
    settings = settings_of(store.format(tmp_path), url=url.format(tmp_path))
    async with open_files(settings) as files:
        assert isinstance(files.contents.blobs, kind)
        file = await files.create(OPERATOR, Incoming())
        assert b"".join([piece async for piece in files.read(file)]) == b"content"
    assert folders_in(tmp_path) == ({place} if place else set())


def test_an_object_store_is_named_by_its_url() -> None:
    options = {"region": "eu-central-1", "skip_signature": "true"}
    settings = settings_of("memory:", url="s3://bucket/prefix", options=options)
    assert isinstance(make_blobs(settings, no_stores()), ObjectBlobs)


def test_an_object_store_needs_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "obstore", None)
    monkeypatch.delitem(sys.modules, "antiphon.store.blobs.objects")
    with pytest.raises(SettingsError, match="needs its client"):
        make_blobs(settings_of("memory:", url="s3://bucket"), no_stores())


async def test_the_limits_are_those_of_the_settings() -> None:
    settings = settings_of("memory:", max_file_bytes=10, max_files=2, max_bytes=30)
    async with open_files(settings) as files:
        assert (files.max_bytes, files.contents.quota.files, files.contents.quota.bytes) == (10, 2, 30)


async def test_the_service_in_a_process_of_its_own_has_files() -> None:
    async with Antiphon(settings_of("memory:")) as antiphon, antiphon.openai_client() as client:
        file = await client.files.create(file=("a.txt", b"content"), purpose="user_data")
        assert (await client.files.content(file.id)).content == b"content"
