"""A service with every hosted tool, on scripted models and loopback servers."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import openai

from antiphon import Antiphon, Route, ScriptedBackend, Settings
from antiphon.settings import SealSettings, UpstreamSettings
from antiphon.settings.hosted_tools import WebSearchSettings
from antiphon.settings.sections import EgressSettings, EmbeddingsSettings
from antiphon.turn.chunks import CallDelta, CallStarted, Chunk, Finished, TextDelta
from tests.embeddings.embedding_server import run_embedding_server
from tests.web.engine_server import running_engine

WARRANTY = "# Warranty\n\nThe warranty of every kettle lasts two years.\n"


def called(name: str, arguments: str) -> list[Chunk]:
    """A turn that calls a function."""
    return [CallStarted(0, "call_1", name), CallDelta(0, arguments), Finished("tool_calls")]


def said(text: str) -> list[Chunk]:
    """A turn that ends with a text."""
    return [TextDelta(text), Finished("stop")]


@asynccontextmanager
async def serving(*turns: list[Chunk]) -> AsyncGenerator[tuple[openai.AsyncOpenAI, ScriptedBackend]]:
    """The official client, and the model, which plays these turns."""
    backend = ScriptedBackend(*([turn] for turn in turns))
    async with running_engine() as engine, run_embedding_server() as embeddings:
        settings = Settings(
            seal=SealSettings(key="test"),
            web_search=WebSearchSettings(kind="searxng", url=engine.url),
            egress=EgressSettings(allow=("127.0.0.1/32",)),
            embeddings=EmbeddingsSettings(local=False),
            upstreams=(
                UpstreamSettings(base_url=embeddings.url, models=("x",), embedding_models=("theirs",)),
            ),
        )
        async with Antiphon(settings, routes=[Route("m", backend)]) as service:
            yield service.openai_client(), backend


async def warranty_store(client: openai.AsyncOpenAI) -> str:
    """A vector store with one file."""
    store = await client.vector_stores.create(name="shop")
    file: Any = ("warranty.md", WARRANTY.encode())
    await client.vector_stores.files.upload_and_poll(vector_store_id=store.id, file=file, poll_interval_ms=20)
    return store.id
