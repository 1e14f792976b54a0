"""A vector store is kept in step with folders, and searched for the agent."""

import asyncio
import logging
import os
from pathlib import Path

import pytest

from antiphon.errors import BackendUnreachable, NotFound
from antiphon.retrieval.files import FileFinder
from antiphon.retrieval.scope import Scope, parse_scope
from antiphon.service.vector_stores.folder_sync import FolderSync
from antiphon.service.vector_stores.local_files import LocalFiles, LocalSource
from antiphon.service.vector_stores.retriever import StoreRetriever
from antiphon.store.files import FilePage
from tests.service.vector_stores.world import World, until

HOLIDAYS = "# Holidays\n\nEverybody has 28 days of leave.\n"


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "holidays.md").write_text(HOLIDAYS)
    (folder / "travel.md").write_text("# Travel\n\nTrains are second class.\n")
    (folder / "photo.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    return folder


@pytest.fixture
def sync(world: World, docs: Path, tmp_path: Path) -> FolderSync:
    finder = FileFinder([docs], tmp_path)
    return FolderSync(finder, LocalFiles(world.files, world.service), world.caller, "handbook")


@pytest.fixture
def retriever(world: World, sync: FolderSync, tmp_path: Path) -> StoreRetriever:
    return StoreRetriever(world.service.search, sync, tmp_path)


async def settle(world: World, sync: FolderSync) -> list[str]:
    """The paths of the store after a scan, when nothing is in progress."""
    await sync.scan()
    await world.settled(await sync.store_id())
    await sync.scan()
    versions = await sync.local.versions(world.caller, await sync.store_id())
    assert sync.settled.is_set()
    assert all(len(each) == 1 for each in versions.values())
    return sorted(versions)


async def texts(retriever: StoreRetriever, question: str) -> list[str]:
    return [chunk.text for chunk in await retriever.retrieve(question, scope=Scope(), limit=1)]


async def file_count(world: World) -> int:
    return len((await world.files.list(world.caller, FilePage()))[0])


@pytest.mark.requirement("VECTOR-STORES/folder-in-step")
async def test_files_are_added_changed_and_removed(
    world: World, sync: FolderSync, retriever: StoreRetriever, docs: Path
) -> None:
    assert await settle(world, sync) == ["docs/holidays.md", "docs/travel.md"]
    assert await texts(retriever, "days of leave") == [HOLIDAYS.strip()]
    (docs / "holidays.md").write_text(HOLIDAYS.replace("28", "30 whole"))
    (docs / "new.md").write_text("Something new.\n")
    (docs / "travel.md").unlink()
    assert await settle(world, sync) == ["docs/holidays.md", "docs/new.md"]
    assert "30 whole days" in (await texts(retriever, "days of leave"))[0]
    assert await file_count(world) == 2


async def test_a_file_that_gets_its_former_content_back_is_the_former_one(
    world: World, sync: FolderSync, retriever: StoreRetriever, docs: Path
) -> None:
    await settle(world, sync)
    world.embedder.may_work.clear()
    (docs / "holidays.md").write_text("Nobody has leave any more.\n")
    await sync.scan()
    assert await file_count(world) == 3
    (docs / "holidays.md").write_text(HOLIDAYS)
    await sync.scan()
    world.embedder.may_work.set()
    await settle(world, sync)
    assert await texts(retriever, "days of leave") == [HOLIDAYS.strip()]
    assert await file_count(world) == 2


async def test_unchanged_folders_are_not_compared_again(
    world: World, sync: FolderSync, monkeypatch: pytest.MonkeyPatch
) -> None:
    await settle(world, sync)
    calls = len(world.embedder.calls)

    async def fail(*_arguments: object) -> None:
        raise AssertionError("the store was read")

    monkeypatch.setattr(LocalFiles, "versions", fail)
    await sync.scan()
    assert len(world.embedder.calls) == calls


async def test_a_restarted_server_sends_nothing_again(world: World, sync: FolderSync) -> None:
    await settle(world, sync)
    calls = len(world.embedder.calls)
    again = FolderSync(sync.finder, sync.local, sync.caller, sync.name)
    assert await settle(world, again) == ["docs/holidays.md", "docs/travel.md"]
    assert await again.store_id() == await sync.store_id()
    assert (len(world.embedder.calls), await file_count(world)) == (calls, 2)


async def test_other_files_of_the_store_stay(world: World, sync: FolderSync) -> None:
    added = await world.add(await sync.store_id(), "A file of the API.", "api.txt")
    await settle(world, sync)
    assert (await world.file(await sync.store_id(), added.id)).status == "completed"


async def test_a_deleted_store_is_made_again(
    world: World, sync: FolderSync, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("antiphon.service.vector_stores.folder_sync.SCAN_INTERVAL_SECONDS", 0.02)
    await settle(world, sync)
    first = await sync.store_id()
    await world.service.delete(world.caller, first)
    (sync.finder.find()["docs/travel.md"]).place.write_text("Trains are first class.\n")
    with caplog.at_level(logging.WARNING):
        running = asyncio.create_task(sync.run())

        async def is_other() -> bool:
            return await sync.store_id() != first

        await until(is_other)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    assert "is looked for again" in caplog.text
    assert await settle(world, sync) == ["docs/holidays.md", "docs/travel.md"]


async def test_passages_have_paths_lines_and_symbols(
    world: World, sync: FolderSync, retriever: StoreRetriever, docs: Path
) -> None:
    (docs / "holidays.md").write_text("\n\n" + HOLIDAYS)
    await settle(world, sync)
    [chunk] = await retriever.retrieve("days of leave", scope=Scope(), limit=1)
    assert (chunk.path, chunk.language, chunk.symbol, chunk.symbol_type) == (
        "docs/holidays.md",
        "markdown",
        "Holidays",
        "section",
    )
    assert (chunk.start_line, chunk.end_line) == (3, 5)
    scope = parse_scope({"must": [{"key": "file_name", "match": {"value": "travel.md"}}]})
    found = await retriever.retrieve("days of leave trains", scope=scope, limit=5)
    assert [chunk.path for chunk in found] == ["docs/travel.md"]


@pytest.mark.parametrize("path", ["private.txt", "/private.txt", "docs/../private.txt", "pipe"])
async def test_an_attribute_names_no_file_to_open(
    world: World, sync: FolderSync, retriever: StoreRetriever, tmp_path: Path, path: str
) -> None:
    """Clients set attributes, too; only files that were found in the folders are opened."""
    (tmp_path / "private.txt").write_text("\n\nA private line.\n")
    os.mkfifo(tmp_path / "pipe")
    pipe = os.open(tmp_path / "pipe", os.O_RDWR)
    await settle(world, sync)
    path = str(tmp_path) + path if path.startswith("/") else path
    await world.add(await sync.store_id(), "A private line.", "a.txt", attributes={"path": path})
    try:
        async with asyncio.timeout(10):
            [chunk] = await retriever.retrieve("private line", scope=Scope(), limit=1)
    finally:
        os.close(pipe)
    assert (chunk.path, chunk.start_line, chunk.end_line) == (path, 1, 1)


async def test_a_file_that_was_replaced_since_the_scan_is_not_opened(
    world: World, sync: FolderSync, retriever: StoreRetriever, docs: Path, tmp_path: Path
) -> None:
    await settle(world, sync)
    (tmp_path.parent / "outside.md").write_text("\n\n" + HOLIDAYS)
    (docs / "holidays.md").unlink()
    (docs / "holidays.md").symlink_to(tmp_path.parent / "outside.md")
    [chunk] = await retriever.retrieve("days of leave", scope=Scope(), limit=1)
    assert (chunk.start_line, chunk.end_line) == (1, 3)


async def test_words_alone_rank_while_the_embedding_model_fails(
    world: World, sync: FolderSync, retriever: StoreRetriever
) -> None:
    await settle(world, sync)
    world.embedder.errors.append(BackendUnreachable("The model is down."))
    assert await texts(retriever, "days of leave") == [HOLIDAYS.strip()]
    assert world.embedder.errors == []


async def test_a_file_that_is_not_added_is_not_left_behind(
    world: World, docs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    local = LocalFiles(world.files, world.service)
    source = LocalSource("docs/holidays.md", docs / "holidays.md")
    with pytest.raises(NotFound):
        await local.keep(world.caller, "vs_none", source, ())
    assert await file_count(world) == 0
