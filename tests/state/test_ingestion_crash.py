"""kill -9 while a file is added to a vector store: the next process continues after what is saved."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import openai
import pytest
from aiohttp import web

from antiphon.retrieval.cutting import PORTION_CHUNKS
from tests.embeddings.embedding_server import EmbeddingServer, serve_embeddings
from tests.postgres import PostgresServer
from tests.serving import Served, run_server

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("crash"),
    pytest.mark.requirement("VECTOR-STORES/ingestion-durable"),
]

PARAGRAPHS = 150
TEXT = "\n\n".join(
    f"Paragraph {number} is about topic{number}. " + "word " * 60 for number in range(PARAGRAPHS)
)
SMALL = {"type": "static", "static": {"max_chunk_size_tokens": 100, "chunk_overlap_tokens": 0}}
PORTIONS_BEFORE_DEATH = 3


class HeldModel(EmbeddingServer):
    """Answers some requests; the next ones are held until the event is set."""

    def __init__(self) -> None:
        super().__init__()
        self.is_held = asyncio.Event()
        self.may_continue = asyncio.Event()

    async def answer(self, request: web.Request) -> web.Response:
        if len(self.requests) >= PORTIONS_BEFORE_DEATH:
            self.is_held.set()
            await self.may_continue.wait()
        return await super().answer(request)

    @property
    def embedded(self) -> int:
        """The number of texts that were embedded."""
        return sum(len(request["input"]) for request in self.requests)


@pytest.fixture
async def model() -> AsyncGenerator[HeldModel, None]:
    held = HeldModel()
    async with serve_embeddings(held):
        yield held


def settings(model: HeldModel) -> dict[str, str]:
    rows = [{"base_url": model.url, "models": ["m"], "embedding_models": ["theirs"]}]
    return {
        "ANTIPHON_UPSTREAMS": msgspec.json.encode(rows).decode(),
        "ANTIPHON_EMBEDDINGS__LOCAL": "false",
        "ANTIPHON_BACKGROUND__LEASE": "2",
    }


@asynccontextmanager
async def connect(served: Served) -> AsyncGenerator[openai.AsyncOpenAI, None]:
    async with openai.AsyncOpenAI(base_url=served.base_url, api_key="none", max_retries=0) as client:
        yield client


async def begin(client: openai.AsyncOpenAI, model: HeldModel) -> tuple[str, str]:
    """Add the file, and wait until some portions of it are saved."""
    store = await client.vector_stores.create()
    file = await client.files.create(file=("a.txt", TEXT.encode()), purpose="assistants")
    strategy: Any = SMALL
    await client.vector_stores.files.create(store.id, file_id=file.id, chunking_strategy=strategy)
    async with asyncio.timeout(60):
        await model.is_held.wait()
    return store.id, file.id


async def check(client: openai.AsyncOpenAI, model: HeldModel, store_id: str, file_id: str) -> None:
    """The file is complete, and what was saved was not embedded again."""
    async with asyncio.timeout(60):
        file = await client.vector_stores.files.poll(file_id, vector_store_id=store_id)
    assert (file.status, file.last_error) == ("completed", None)
    content = await client.vector_stores.files.content(file_id, vector_store_id=store_id)
    texts = [part.text or "" for part in content.data]
    assert [sum(f"topic{number}." in text for text in texts) for number in range(PARAGRAPHS)] == [
        1
    ] * PARAGRAPHS
    # The requests of the process that died count, whose answer nobody received.
    assert len(texts) <= model.embedded <= len(texts) + PORTION_CHUNKS
    found = await client.vector_stores.search(store_id, query="topic7")
    assert "topic7." in found.data[0].content[0].text


async def test_a_killed_server_continues_after_its_start(model: HeldModel, tmp_path: Path) -> None:
    options = ("--store", f"sqlite:{tmp_path}/a.db")
    with run_server(tmp_path, *options, environment=settings(model)) as first:
        async with connect(first) as client:
            names = await begin(client, model)
        first.process.kill()
        first.process.wait(10)
    model.may_continue.set()
    with run_server(tmp_path, *options, environment=settings(model)) as second:
        async with connect(second) as client:
            await check(client, model, *names)


async def test_another_replica_continues(model: HeldModel, tmp_path: Path, postgres: PostgresServer) -> None:
    folders = [tmp_path / name for name in ("one", "two")]
    for folder in folders:
        folder.mkdir()
    with (
        postgres.database() as url,
        run_server(folders[0], "--store", url, environment=settings(model)) as first,
    ):
        async with connect(first) as client:
            names = await begin(client, model)
        with run_server(folders[1], "--store", url, environment=settings(model)) as second:
            first.process.kill()
            model.may_continue.set()
            async with connect(second) as client:
                await check(client, model, *names)
