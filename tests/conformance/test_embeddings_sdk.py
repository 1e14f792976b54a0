"""Embeddings with the official SDK and with LangChain, on the bundled model and on an upstream."""

from collections.abc import AsyncGenerator, Generator
from pathlib import Path
from typing import Any

import msgspec
import openai
import pytest
from langchain_openai import OpenAIEmbeddings

from antiphon.embeddings.minilm import is_installed
from tests.embeddings.embedding_server import run_embedding_server
from tests.serving import Served, run_server

pytestmark = [pytest.mark.slow, pytest.mark.requirement("PROTOCOL/endpoints-embeddings")]
TEXTS = ["The cat sat on the mat.", "A kitten rested on the rug.", "Interest rates rose by half a point."]


@pytest.fixture
async def upstream(tmp_path: Path) -> AsyncGenerator[Served, None]:
    """A server whose embedding model is that of an upstream."""
    async with run_embedding_server() as server:
        rows = [{"base_url": server.url, "models": ["m"], "embedding_models": ["theirs"]}]
        environment = {"ANTIPHON_UPSTREAMS": msgspec.json.encode(rows).decode()}
        with run_server(
            tmp_path, environment={**environment, "ANTIPHON_EMBEDDINGS__LOCAL": "false"}
        ) as served:
            yield served


@pytest.fixture(scope="module")
def bundled(tmp_path_factory: pytest.TempPathFactory) -> Generator[Served, None, None]:
    if not is_installed():
        pytest.skip("antiphon[retrieval] is missing")
    folder = tmp_path_factory.mktemp("server")
    with run_server(folder, "--upstream", "http://127.0.0.1:9/v1", "--log-level", "warning") as served:
        yield served


def connect(served: Served) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=served.base_url, api_key="none", max_retries=0)


def similarity(one: list[float], other: list[float]) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True))


async def test_the_openai_sdk_gets_the_same_vectors_in_both_formats(bundled: Served) -> None:
    async with connect(bundled) as client:
        default = await client.embeddings.create(model="auto", input=TEXTS)  # asks for base64
        numbers = await client.embeddings.create(model="auto", input=TEXTS, encoding_format="float")
        models = await client.models.list()
    vectors = [row.embedding for row in default.data]
    for ours, theirs in zip(vectors, (row.embedding for row in numbers.data), strict=True):
        assert ours == pytest.approx(theirs, abs=1e-6)
    assert (default.model, default.usage.total_tokens) == ("all-minilm-l6-v2", numbers.usage.prompt_tokens)
    assert similarity(vectors[0], vectors[1]) > similarity(vectors[0], vectors[2]) + 0.2
    assert {model.id: getattr(model, "kind", None) for model in models.data}[
        "all-minilm-l6-v2"
    ] == "embedding"


async def test_the_openai_sdk_raises_bad_request_errors(bundled: Served) -> None:
    async with connect(bundled) as client:
        with pytest.raises(openai.BadRequestError) as caught:
            await client.embeddings.create(model="auto", input=TEXTS, dimensions=64)
        assert caught.value.param == "dimensions"
        with pytest.raises(openai.BadRequestError) as caught:
            await client.embeddings.create(model="auto", input=[])
        assert (caught.value.param, caught.value.code) == ("input", "empty_array")
        with pytest.raises(openai.NotFoundError):
            await client.embeddings.create(model="gpt-5", input="x")


async def test_an_upstream_serves_texts_token_ids_and_dimensions(upstream: Served) -> None:
    async with connect(upstream) as client:
        texts = await client.embeddings.create(model="theirs", input=TEXTS, dimensions=16)
        tokens = await client.embeddings.create(model="auto", input=[[1, 2, 3], [4]])
    assert [len(row.embedding) for row in texts.data] == [16, 16, 16]
    assert (tokens.model, len(tokens.data), tokens.usage.prompt_tokens) == ("theirs", 2, 4)


async def test_langchain(bundled: Served) -> None:
    async with connect(bundled) as client:
        shared: Any = {"async_client": client.embeddings, "client": client.embeddings, "api_key": "none"}
        embeddings = OpenAIEmbeddings(model="all-minilm-l6-v2", check_embedding_ctx_length=False, **shared)
        documents = await embeddings.aembed_documents(TEXTS)
        query = await embeddings.aembed_query("Where is the cat?")
    assert len(documents) == 3
    assert similarity(query, documents[0]) > similarity(query, documents[2])
