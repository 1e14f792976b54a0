"""What every embedding model must do, whatever makes its vectors."""

import asyncio
import math
from collections.abc import AsyncGenerator, AsyncIterator

import pytest

from antiphon.embeddings.base import Embedder
from antiphon.embeddings.hashed import HashedEmbedder
from antiphon.embeddings.minilm import is_installed
from antiphon.embeddings.vectors import dimensions_of, to_floats
from antiphon.errors import BackendRefused, InvalidRequest
from antiphon.settings import EmbeddingModelRow, Settings, UpstreamSettings
from antiphon.wiring.backends import make_endpoint
from antiphon.wiring.embeddings import make_local_embedder, make_upstream_embedder
from tests.embeddings.embedding_server import Manner, run_embedding_server
from tests.embeddings.word_model import word_embedder

TEXTS = ["the cat sat on the mat", "a cat sat on a mat", "quarterly revenue grew by nine percent"]
bundled = pytest.param(
    "bundled",
    marks=[pytest.mark.slow, pytest.mark.skipif(not is_installed(), reason="antiphon[retrieval] is missing")],
)


async def _upstream(manner: Manner) -> AsyncGenerator[Embedder, None]:
    async with run_embedding_server(manner) as server:
        endpoint = make_endpoint(UpstreamSettings(base_url=server.url), 10.0)
        yield make_upstream_embedder(endpoint, EmbeddingModelRow("embedder"))


async def _open(kind: str) -> AsyncGenerator[Embedder, None]:
    match kind:
        case "hashed":
            yield HashedEmbedder()
        case "local":
            yield word_embedder()
        case "bundled":
            yield make_local_embedder(Settings())
        case "base64" | "ignores base64" | "refuses base64":
            async for embedder in _upstream(kind):
                yield embedder
        case _:
            raise AssertionError(kind)


@pytest.fixture(params=["hashed", "local", bundled, "base64", "ignores base64", "refuses base64"])
async def embedder(request: pytest.FixtureRequest) -> AsyncIterator[Embedder]:
    async for embedder in _open(request.param):
        yield embedder
        await embedder.aclose()


def similarity(one: bytes, other: bytes) -> float:
    return sum(a * b for a, b in zip(to_floats(one), to_floats(other), strict=True))


async def test_a_vector_per_text_in_their_order_with_length_one(embedder: Embedder) -> None:
    found = await embedder.embed(TEXTS)
    assert len(found.vectors) == 3
    assert len({dimensions_of(vector) for vector in found.vectors}) == 1
    for vector in found.vectors:
        assert math.isclose(similarity(vector, vector), 1.0, rel_tol=1e-4)
    assert similarity(found.vectors[0], found.vectors[1]) > similarity(found.vectors[0], found.vectors[2])


async def test_a_vector_does_not_depend_on_the_other_inputs_or_the_call(embedder: Embedder) -> None:
    together = (await embedder.embed(TEXTS)).vectors
    alone = [(await embedder.embed([text])).vectors[0] for text in TEXTS]
    backwards = (await embedder.embed(TEXTS[::-1])).vectors[::-1]
    assert list(together) == alone == list(backwards)


async def test_tokens_are_counted_over_all_inputs(embedder: Embedder) -> None:
    together = (await embedder.embed(TEXTS)).tokens
    assert together == sum([(await embedder.embed([text])).tokens for text in TEXTS])
    assert together >= sum(len(text.split()) for text in TEXTS)


async def test_many_inputs_and_concurrent_calls_keep_their_places(embedder: Embedder) -> None:
    texts = [f"text {number}" for number in range(300 if embedder.model != "all-minilm-l6-v2" else 20)]
    found, other = await asyncio.gather(embedder.embed(texts), embedder.embed(TEXTS))
    assert len(set(found.vectors)) == len(texts)
    assert found.vectors[-1] == (await embedder.embed(texts[-1:])).vectors[0]
    assert list(other.vectors) == list((await embedder.embed(TEXTS)).vectors)


async def test_the_own_number_of_dimensions_is_accepted_and_more_are_not(embedder: Embedder) -> None:
    [vector] = (await embedder.embed(["x"])).vectors
    own = dimensions_of(vector)
    assert (await embedder.embed(["x"], dimensions=own)).vectors == [vector]
    with pytest.raises((InvalidRequest, BackendRefused), match="dimensions") as caught:
        await embedder.embed(["x"], dimensions=own + 1)
    assert caught.value.status == 400


async def test_texts_in_any_script_have_vectors(embedder: Embedder) -> None:
    texts = ["日本語の文章です", "привет мир", "🙂", " ", "\x00", "e\u0301"]
    found = await embedder.embed(texts)
    assert all(math.isfinite(number) for vector in found.vectors for number in to_floats(vector))
