"""Retrieval from folders: which files are read, and when."""

import asyncio
import logging
import os
import shutil
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from antiphon.documents.document import Document
from antiphon.documents.reader import BlockingReader
from antiphon.errors import SettingsError
from antiphon.extras import install_command
from antiphon.retrieval.files import MAX_TEXT_BYTES, FileFinder, FoundFile
from antiphon.retrieval.folders import SCAN_INTERVAL_SECONDS, FolderRetriever
from antiphon.retrieval.scope import Scope
from tests.documents.files import hide_package
from tests.documents.pdf_file import pdf_file


class Watch:
    """A clock that the test moves; it records the threads that read it."""

    def __init__(self) -> None:
        self.now = 100.0
        self.threads: set[int] = set()

    def __call__(self) -> float:
        self.threads.add(threading.get_ident())
        return self.now


@pytest.fixture
def watch() -> Watch:
    return Watch()


@pytest.fixture
async def retriever(tmp_path: Path, watch: Watch) -> AsyncIterator[FolderRetriever]:
    (tmp_path / "docs").mkdir()
    opened = FolderRetriever([Path("docs")], root=tmp_path, monotonic=watch)
    yield opened
    await opened.aclose()


@pytest.fixture
def docs(tmp_path: Path, retriever: FolderRetriever) -> Path:
    return tmp_path / "docs"


def write(folder: Path, path: str, text: str | bytes = "A cat.") -> Path:
    place = folder / path
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(text if isinstance(text, bytes) else text.encode())
    return place


async def found(retriever: FolderRetriever, query: str = "cat") -> list[str]:
    return sorted(chunk.path for chunk in await retriever.retrieve(query, scope=Scope(), limit=50))


async def test_files_are_found_under_their_paths_from_the_root(
    retriever: FolderRetriever, docs: Path
) -> None:
    write(docs, "a.md")
    write(docs, "deep/er/b.txt")
    write(docs.parent, "outside.md")
    assert await found(retriever) == ["docs/a.md", "docs/deep/er/b.txt"]


async def test_an_empty_folder_has_no_hits(retriever: FolderRetriever) -> None:
    assert await found(retriever) == []


async def test_hidden_generated_binary_and_huge_files_are_skipped(
    retriever: FolderRetriever, docs: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for path in (
        ".git/a.md",
        ".venv/a.md",
        "node_modules/a.md",
        "x/__pycache__/a.md",
        ".env",
        ".hidden/a/b.md",
    ):
        write(docs, path)
    write(docs, "binary.txt", b"A cat." + b" " * 1000 + b"\0")
    write(docs, "huge.txt", "A cat. " * (MAX_TEXT_BYTES // 7 + 1))
    write(docs, "late-nul.txt", b"A cat." + b" " * 70_000 + b"\0")
    assert await found(retriever) == ["docs/late-nul.txt"]
    assert "docs/huge.txt is skipped" in caplog.text


async def test_bytes_that_are_not_utf_8_are_replaced(retriever: FolderRetriever, docs: Path) -> None:
    write(docs, "a.txt", b"\xef\xbb\xbfA cat \xff\xfe here.")
    [chunk] = await retriever.retrieve("cat", scope=Scope(), limit=5)
    assert chunk.text == "A cat \ufffd\ufffd here."


async def test_a_name_that_is_not_utf_8_is_omitted(
    retriever: FolderRetriever, docs: Path, caplog: pytest.LogCaptureFixture
) -> None:
    try:
        write(docs, os.fsdecode(b"\xff.txt"))
    except OSError:
        pytest.skip("this file system takes UTF-8 names only")
    assert await found(retriever) == []
    assert "its name is not UTF-8" in caplog.text


async def test_a_link_is_followed_within_the_folders_only(retriever: FolderRetriever, docs: Path) -> None:
    subfolder = write(docs, "inside/a.md").parent
    hidden = write(docs, ".secret/a.md")
    outside_file = write(docs.parent, "beside/a.md")
    (docs / "file.md").symlink_to(subfolder / "a.md")
    (docs / "folder").symlink_to(subfolder)
    (docs / "beside.md").symlink_to(outside_file)
    (docs / "beside").symlink_to(outside_file.parent)
    (docs / "loop").symlink_to(docs)
    (docs / "gone.md").symlink_to(docs / "nowhere.md")
    (docs / "hidden.md").symlink_to(hidden)
    (docs / "out.md").symlink_to(Path(__file__))
    (docs / "out").symlink_to(Path(__file__).parent)
    assert await found(retriever) == ["docs/file.md", "docs/inside/a.md"]
    assert await found(retriever, "link followed root") == []


async def test_changed_new_and_removed_files_are_seen_after_a_pause(
    retriever: FolderRetriever, docs: Path, watch: Watch
) -> None:
    changed, removed = write(docs, "changed.md"), write(docs, "removed.md")
    assert await found(retriever) == ["docs/changed.md", "docs/removed.md"]
    changed.write_text("A dog, not the other one.")
    removed.unlink()
    write(docs, "new.md")
    watch.now += SCAN_INTERVAL_SECONDS - 0.1
    assert await found(retriever) == ["docs/changed.md", "docs/removed.md"]
    watch.now += 0.1
    assert await found(retriever) == ["docs/new.md"]
    assert await found(retriever, "dog") == ["docs/changed.md"]


async def test_a_file_is_read_once_however_many_ask_and_again_only_when_it_changed(
    retriever: FolderRetriever, docs: Path, watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []

    def reading(finder: FileFinder, file: FoundFile, reader: BlockingReader) -> Document | None:
        read.append(file.path)
        return original(finder, file, reader)

    original = FileFinder.read
    monkeypatch.setattr(FileFinder, "read", reading)
    one, _ = write(docs, "a.md"), write(docs, "b.md")
    hits = await asyncio.gather(*(found(retriever) for _ in range(20)))
    assert hits == [["docs/a.md", "docs/b.md"]] * 20
    assert sorted(read) == ["docs/a.md", "docs/b.md"]
    one.write_text("A cat again.")
    watch.now += SCAN_INTERVAL_SECONDS
    await found(retriever)
    assert read[2:] == ["docs/a.md"]


async def test_the_event_loop_runs_while_files_are_read(
    retriever: FolderRetriever, docs: Path, watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def slow(finder: FileFinder, file: FoundFile, reader: BlockingReader) -> Document | None:
        loop.call_soon_threadsafe(begun.set)
        assert go_on.wait(60)
        return original(finder, file, reader)

    original = FileFinder.read
    monkeypatch.setattr(FileFinder, "read", slow)
    write(docs, "a.md")
    searching = asyncio.create_task(found(retriever))
    await begun.wait()  # it would never be set if the event loop were blocked
    assert not searching.done()
    go_on.set()
    assert await searching == ["docs/a.md"]
    assert threading.get_ident() not in watch.threads


async def test_closing_stops_reading(
    retriever: FolderRetriever, docs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on, read = asyncio.Event(), threading.Event(), list[str]()
    loop = asyncio.get_running_loop()

    def slow(finder: FileFinder, file: FoundFile, reader: BlockingReader) -> Document | None:
        read.append(file.path)
        loop.call_soon_threadsafe(begun.set)
        assert go_on.wait(60)
        return None

    monkeypatch.setattr(FileFinder, "read", slow)
    for number in range(10):
        write(docs, f"{number}.md")
    searching = asyncio.create_task(found(retriever))
    await begun.wait()
    closing = asyncio.create_task(retriever.aclose())
    await asyncio.sleep(0)
    go_on.set()
    await closing
    await searching
    assert len(read) == 1
    await retriever.aclose()


async def test_files_of_a_removed_folder_are_not_found(
    retriever: FolderRetriever, docs: Path, watch: Watch, caplog: pytest.LogCaptureFixture
) -> None:
    write(docs, "a.md")
    assert await found(retriever) == ["docs/a.md"]
    shutil.rmtree(docs)
    for _ in range(3):
        watch.now += SCAN_INTERVAL_SECONDS
        assert await found(retriever) == []
    assert caplog.text.count("cannot be read") == 1


async def test_the_text_of_a_pdf_is_found_by_page(
    retriever: FolderRetriever, docs: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write(docs, "a.pdf", pdf_file("Hello dog", "Hello cat"))
    write(docs, "broken.pdf", b"%PDF-1.4 A cat.")
    [chunk] = await retriever.retrieve("cat", scope=Scope(), limit=5)
    assert (chunk.path, chunk.symbol, chunk.text) == ("docs/a.pdf", "page 2", "Hello cat")
    assert "docs/broken.pdf is skipped" in caplog.text


async def test_without_the_extra_pdf_files_are_omitted_with_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    hide_package(monkeypatch, tmp_path / "hidden", "pypdfium2")
    folder = tmp_path / "docs"
    write(folder, "a.pdf", pdf_file("Hello cat"))
    write(folder, "b.pdf", pdf_file("Hello cat"))
    retriever = FolderRetriever([folder], root=folder)
    with caplog.at_level(logging.WARNING):
        assert await found(retriever) == []
    assert caplog.text.count(install_command("documents")) == 1
    await retriever.aclose()


def test_a_missing_folder_is_a_wrong_setting(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="'nowhere' does not exist"):
        FolderRetriever([Path("nowhere")], root=tmp_path)
    write(tmp_path, "file.md")
    with pytest.raises(SettingsError, match="does not exist"):
        FolderRetriever([Path("file.md")], root=tmp_path)


def test_a_folder_outside_of_the_root_is_a_wrong_setting(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    with pytest.raises(SettingsError, match="is not within"):
        FolderRetriever([tmp_path], root=tmp_path / "root")
