"""Embeddings of an upstream: the requests it gets, and answers that are none."""

from typing import Any

import pytest

from antiphon.embeddings.upstream import MAX_BASE64_INPUTS, MAX_FLOAT_INPUTS, UpstreamEmbedder
from antiphon.errors import BackendBroken, BackendRefused, BackendUnreachable
from antiphon.settings import EmbeddingModelRow, UpstreamSettings
from antiphon.wiring.backends import make_endpoint
from antiphon.wiring.embeddings import make_upstream_embedder
from tests.embeddings.embedding_server import Manner, run_embedding_server


def connect(url: str, **fields: Any) -> UpstreamEmbedder:
    row = UpstreamSettings(base_url=url, **fields)
    return make_upstream_embedder(make_endpoint(row, 10.0), EmbeddingModelRow("ours", "theirs"))


async def test_the_request_has_the_upstreams_name_the_key_and_token_ids_as_they_are() -> None:
    async with run_embedding_server() as server:
        embedder = connect(server.url, api_key="secret-key")
        await embedder.embed([[1, 2, 3]], dimensions=16)
        assert server.requests == [
            {"model": "theirs", "input": [[1, 2, 3]], "encoding_format": "base64", "dimensions": 16}
        ]
        assert server.headers[0]["Authorization"] == "Bearer secret-key"
        await embedder.aclose()


@pytest.mark.parametrize(
    ("manner", "largest"),
    [
        ("base64", MAX_BASE64_INPUTS),
        ("ignores base64", MAX_FLOAT_INPUTS),
        ("refuses base64", MAX_FLOAT_INPUTS),
    ],
)
async def test_requests_are_larger_if_the_answers_are_cheap_to_decode(manner: Manner, largest: int) -> None:
    async with run_embedding_server(manner) as server:
        embedder = connect(server.url)
        await embedder.embed(["first"])
        asked = len(server.requests)
        found = await embedder.embed([f"text {number}" for number in range(600)])
        assert len(found.vectors) == 600
        assert max(len(request["input"]) for request in server.requests[asked:]) == largest
        assert (manner == "refuses base64") == ("encoding_format" not in server.requests[-1])
        await embedder.aclose()


async def test_a_busy_upstream_is_asked_again() -> None:
    async with run_embedding_server() as server:
        server.answers = [503, 429]
        embedder = connect(server.url)
        assert len((await embedder.embed(["a"])).vectors) == 1
        assert len(server.requests) == 3
        await embedder.aclose()


BAD_ANSWERS: list[object] = [
    {"object": "list"},
    {"data": []},
    {"data": [{"embedding": [1.0]}, {"embedding": [1.0]}]},
    {"data": [{"embedding": []}]},
    {"data": [{"embedding": "!!!"}]},
    {"data": [{"embedding": "AAAA"}]},
    {"data": [{"embedding": [None]}]},
    {"data": [{"embedding": [1e300]}]},
    {"data": "x"},
    [],
]


@pytest.mark.parametrize("answer", BAD_ANSWERS)
async def test_an_answer_without_the_vectors_is_a_502(answer: object) -> None:
    async with run_embedding_server() as server:
        server.answers = [answer]
        embedder = connect(server.url)
        with pytest.raises(BackendBroken, match="did not answer with embeddings") as caught:
            await embedder.embed(["a"])
        assert caught.value.status == 502
        await embedder.aclose()


async def test_vectors_of_different_lengths_are_a_502() -> None:
    async with run_embedding_server() as server:
        server.answers = [{"data": [{"embedding": [1.0]}, {"embedding": [1.0, 0.0]}]}]
        embedder = connect(server.url)
        with pytest.raises(BackendBroken, match="differ in their length"):
            await embedder.embed(["a", "b"])
        await embedder.aclose()


async def test_rejected_credentials_and_a_server_that_is_down_are_the_upstreams_errors() -> None:
    async with run_embedding_server() as server:
        server.answers = [401]
        embedder = connect(server.url, api_key="secret-key")
        with pytest.raises(BackendRefused) as caught:
            await embedder.embed(["a"])
        assert caught.value.status == 502
        url = server.url
        await embedder.aclose()
    embedder = connect(url, retries=0)
    with pytest.raises(BackendUnreachable):
        await embedder.embed(["a"])
    await embedder.aclose()
