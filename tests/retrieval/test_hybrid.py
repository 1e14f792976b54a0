"""Hybrid retrieval from folders: vectors of chunks beside the words."""

import asyncio
import importlib.util
import logging
import sqlite3
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from antiphon.embeddings.base import Embedded, Embedder, Input
from antiphon.embeddings.hashed import HashedEmbedder
from antiphon.embeddings.vectors import from_floats
from antiphon.errors import BackendUnreachable
from antiphon.retrieval import chunk_vectors, folders, vector_cache
from antiphon.retrieval.folders import FolderRetriever, VectorSource
from antiphon.retrieval.scope import Scope, parse_scope
from antiphon.retrieval.vector_cache import VectorCache

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("numpy") is None, reason="antiphon[retrieval] is missing"
)


class Concepts:
    """Texts about a concept are near each other, whatever their words."""

    model = "concepts"
    CONCEPTS = (("car", "vehicle", "automobile"), ("tea", "beverage"), ("tax", "levy"))

    def __init__(self) -> None:
        self.texts: list[Input] = []
        self.fails = False
        self.gate = asyncio.Event()
        self.gate.set()

    async def embed(
        self, inputs: Sequence[Input], *, dimensions: int | None = None, tenant: str = ""
    ) -> Embedded:
        await self.gate.wait()
        if self.fails:
            raise BackendUnreachable("down")
        self.texts += inputs
        return Embedded([from_floats(self._vector(str(text).lower())) for text in inputs], 0)

    async def aclose(self) -> None:
        pass

    def _vector(self, text: str) -> list[float]:
        concepts = [5.0 * any(word in text for word in words) for words in self.CONCEPTS]
        return [*concepts, 0.0 if any(concepts) else 1.0]


@asynccontextmanager
async def open_folder(
    tmp_path: Path, embedder: Embedder | None, cache: Path | None = None
) -> AsyncGenerator[FolderRetriever, None]:
    source = VectorSource(lambda: embedder, cache or tmp_path / "cache" / "vectors.db")
    retriever = FolderRetriever([Path("docs")], root=tmp_path, vectors=source)
    try:
        yield retriever
    finally:
        await retriever.aclose()


@pytest.fixture
def docs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(folders, "SCAN_INTERVAL_SECONDS", 0.0)
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "garage.md").write_text("The automobile needs new tyres.")
    (folder / "kitchen.md").write_text("Tea is made with hot water.")
    (folder / "office.md").write_text("The levy is due in May. New forms are in the office.")
    return folder


async def paths(retriever: FolderRetriever, query: str, scope: Scope | None = None) -> list[str]:
    found = await retriever.retrieve(query, scope=scope or Scope(), limit=10)
    return [chunk.path for chunk in found]


@pytest.mark.usefixtures("docs")
async def test_a_question_that_shares_no_word_with_the_text_finds_it(tmp_path: Path) -> None:
    async with open_folder(tmp_path, Concepts()) as retriever:
        assert await paths(retriever, "my vehicle") == ["docs/garage.md"]
        [hit] = await retriever.retrieve("which beverage?", scope=Scope(), limit=3)
    assert hit.path == "docs/kitchen.md"
    assert 0.25 < hit.score <= 1.0
    async with open_folder(tmp_path, None) as retriever:
        assert await paths(retriever, "my vehicle") == []


@pytest.mark.usefixtures("docs")
async def test_words_and_vectors_count_together_and_the_scope_comes_first(tmp_path: Path) -> None:
    async with open_folder(tmp_path, Concepts()) as retriever:
        assert await paths(retriever, "new vehicle") == ["docs/garage.md", "docs/office.md"]
        only = parse_scope({"must": [{"key": "path", "match": {"value": "docs/office.md"}}]})
        assert await paths(retriever, "new vehicle", only) == ["docs/office.md"]
        assert await paths(retriever, " ") == []


async def test_changed_and_removed_files_have_new_vectors_and_none(tmp_path: Path, docs: Path) -> None:
    embedder = Concepts()
    async with open_folder(tmp_path, embedder) as retriever:
        assert await paths(retriever, "vehicle") == ["docs/garage.md"]
        (docs / "garage.md").write_text("Nothing is here any more.")
        (docs / "kitchen.md").write_text("A car is in the kitchen.")
        assert await paths(retriever, "vehicle") == ["docs/kitchen.md"]
        (docs / "kitchen.md").unlink()
        assert await paths(retriever, "vehicle") == []
    assert len(embedder.texts) == 3 + 2 + 3  # chunks, changed chunks, questions: none twice


@pytest.mark.usefixtures("docs")
async def test_vectors_are_cached_in_a_file_by_model(tmp_path: Path) -> None:
    first, second, other = Concepts(), Concepts(), HashedEmbedder()
    for embedder in (first, second, other):
        async with open_folder(tmp_path, embedder) as retriever:
            await paths(retriever, "vehicle")
    assert len(first.texts) == 4
    assert second.texts == ["vehicle"]
    database = sqlite3.connect(tmp_path / "cache" / "vectors.db")
    rows = database.execute("SELECT model, count(*) FROM vector GROUP BY model ORDER BY model").fetchall()
    database.close()
    assert rows == [("concepts", 3), ("hashed", 3)]


async def test_another_model_takes_over_with_vectors_of_its_own(tmp_path: Path, docs: Path) -> None:
    current: list[Embedder] = [HashedEmbedder()]
    source = VectorSource(lambda: current[0], tmp_path / "vectors.db")
    retriever = FolderRetriever([Path("docs")], root=tmp_path, vectors=source)
    await paths(retriever, "vehicle")
    (docs / "kitchen.md").unlink()
    current[0] = other = Concepts()
    assert await paths(retriever, "vehicle") == ["docs/garage.md"]
    assert len(other.texts) == 2 + 1  # the chunks that are left, and the question
    await retriever.aclose()


@pytest.mark.usefixtures("docs")
async def test_a_query_does_not_wait_for_slow_vectors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunk_vectors, "WAIT_SECONDS", 0.05)
    embedder = Concepts()
    embedder.gate.clear()
    async with open_folder(tmp_path, embedder) as retriever:
        assert await paths(retriever, "hot vehicle") == ["docs/kitchen.md"]  # by words
        monkeypatch.setattr(chunk_vectors, "WAIT_SECONDS", 3600.0)
        assert await paths(retriever, "hot vehicle") == ["docs/kitchen.md"]  # only the first one waits
        embedder.gate.set()
        async with asyncio.timeout(20):
            while await paths(retriever, "hot vehicle") != ["docs/garage.md", "docs/kitchen.md"]:  # noqa: ASYNC110
                await asyncio.sleep(0.01)


@pytest.mark.usefixtures("docs")
async def test_while_the_model_fails_words_are_enough_and_it_is_tried_again_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(chunk_vectors, "RETRY_SECONDS", 0.0)
    embedder = Concepts()
    embedder.fails = True
    async with open_folder(tmp_path, embedder) as retriever:
        with caplog.at_level(logging.WARNING):
            assert await paths(retriever, "hot vehicle") == ["docs/kitchen.md"]
        assert "the embedding model failed: down" in caplog.text
        embedder.fails = False
        assert await paths(retriever, "hot vehicle") == ["docs/garage.md", "docs/kitchen.md"]


@pytest.mark.usefixtures("docs")
async def test_a_cache_that_cannot_be_used_is_reported_and_not_needed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("x")
    with caplog.at_level(logging.WARNING):
        async with open_folder(tmp_path, Concepts(), tmp_path / "file" / "vectors.db") as retriever:
            assert await paths(retriever, "vehicle") == ["docs/garage.md"]
    assert "vectors are not cached" in caplog.text


def test_the_cache_is_bounded_and_shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vector_cache, "MAX_VECTORS", 3)
    cache, other = VectorCache(tmp_path / "v.db"), VectorCache(tmp_path / "v.db")
    cache.open()
    other.open()
    for number in range(5):
        cache.put("m", [str(number)], [bytes([number] * 4)])
    texts = {str(number): str(number) for number in range(5)}
    assert other.get("m", texts) == {str(number): bytes([number] * 4) for number in (2, 3, 4)}
    assert other.get("n", texts) == {}
    cache.close()
    other.close()
