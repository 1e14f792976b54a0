"""`POST /v1/embeddings` over HTTP, and embedding models in the list of models."""

import asyncio
import base64
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import httpx2
import pytest

from antiphon.backends.scripted import ScriptedBackend
from antiphon.embeddings.base import Embedder
from antiphon.embeddings.hashed import HashedEmbedder
from antiphon.embeddings.vectors import from_floats, to_floats
from antiphon.server.app import App
from antiphon.server.memory import memory_client
from antiphon.service.embeddings import Embeddings
from tests.embeddings.word_model import word_embedder
from tests.server.conftest import never_opened, options
from tests.service.conftest import MakeCreator, services_of

pytestmark = pytest.mark.requirement("PROTOCOL/endpoints-embeddings")


@asynccontextmanager
async def serve(
    make_creator: MakeCreator, *embedders: Embedder, advice: str = ""
) -> AsyncGenerator[httpx2.AsyncClient, None]:
    services = services_of(make_creator(ScriptedBackend([])))
    app = App(never_opened, lambda: "req_1", options())
    app.mount(replace(services, embeddings=Embeddings(embedders, advice=advice)))
    async with memory_client(app) as client:
        yield client


async def embed(client: httpx2.AsyncClient, **members: Any) -> httpx2.Response:
    return await client.post("/v1/embeddings", json={"model": "hashed", "input": "a b c", **members})


async def test_the_answer_has_openais_form(make_creator: MakeCreator) -> None:
    async with serve(make_creator, HashedEmbedder(dimensions=8)) as client:
        answer = await embed(client, input=["one text", "another text here"], user="u")
    assert answer.status_code == 200
    body = answer.json()
    expected = (await HashedEmbedder(dimensions=8).embed(["one text", "another text here"])).vectors
    assert body == {
        "object": "list",
        "data": [
            {"object": "embedding", "index": place, "embedding": to_floats(vector)}
            for place, vector in enumerate(expected)
        ],
        "model": "hashed",
        "usage": {"prompt_tokens": 5, "total_tokens": 5},
    }
    assert answer.headers["content-type"] == "application/json"


async def test_base64_holds_the_same_numbers(make_creator: MakeCreator) -> None:
    async with serve(make_creator, HashedEmbedder()) as client:
        numbers = (await embed(client)).json()["data"][0]["embedding"]
        text = (await embed(client, encoding_format="base64")).json()["data"][0]["embedding"]
    assert base64.b64decode(text) == from_floats(numbers)


@pytest.mark.parametrize("form", ["float", "base64"])
async def test_2048_inputs_are_answered_and_the_event_loop_is_not_held(
    make_creator: MakeCreator, form: str
) -> None:
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0)
            ticks += 1

    async with serve(make_creator, HashedEmbedder(dimensions=384)) as client:
        ticking = asyncio.create_task(tick())
        answer = await embed(client, input=[f"{number}" for number in range(2048)], encoding_format=form)
        ticking.cancel()
    data = answer.json()["data"]
    assert [row["index"] for row in data] == list(range(2048))
    assert ticks > 40  # one per piece at least: 2048 x 384 components, 16 Ki at a time


async def test_auto_is_the_first_model_and_the_answer_names_it(make_creator: MakeCreator) -> None:
    async with serve(make_creator, HashedEmbedder("first"), HashedEmbedder("second")) as client:
        assert (await embed(client, model="auto")).json()["model"] == "first"
        assert (await embed(client, model="second")).json()["model"] == "second"


@pytest.mark.parametrize("model", ["m", "text-embedding-3-small"])
async def test_another_model_is_a_404_that_names_those_that_exist(
    make_creator: MakeCreator, model: str
) -> None:
    async with serve(make_creator, HashedEmbedder()) as client:
        answer = await embed(client, model=model)
    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["param"]) == (404, "model_not_found", "model")
    assert "'hashed'" in error["message"]


async def test_without_any_model_the_answer_says_how_to_get_one(make_creator: MakeCreator) -> None:
    async with serve(make_creator, advice="Run pip install.") as client:
        answer = await embed(client, model="auto")
    assert answer.status_code == 404
    assert "Run pip install." in answer.json()["error"]["message"]


async def test_bad_input_is_openais_error_object(make_creator: MakeCreator) -> None:
    async with serve(make_creator, HashedEmbedder(dimensions=8), word_embedder()) as client:
        empty = await embed(client, input="")
        large = await embed(client, dimensions=9)
        tokens = await embed(client, model="all-minilm-l6-v2", input=[1, 2])
        shorter = await embed(client, model="all-minilm-l6-v2", dimensions=128)
        broken = await client.post(
            "/v1/embeddings", content=b"{", headers={"content-type": "application/json"}
        )
        wrong = await client.get("/v1/embeddings")
    assert empty.status_code == 400
    assert empty.json() == {
        "error": {
            "message": "'input' is an empty string; a text must have at least one character.",
            "type": "invalid_request_error",
            "param": "input",
            "code": "empty_string",
        }
    }
    for answer, param in ((large, "dimensions"), (tokens, "input"), (shorter, "dimensions")):
        assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)
    assert broken.status_code == 400
    assert (wrong.status_code, wrong.headers["allow"]) == (405, "POST")


async def test_the_shorter_vector_is_the_beginning_with_length_one(make_creator: MakeCreator) -> None:
    async with serve(make_creator, HashedEmbedder()) as client:
        numbers = (await embed(client, dimensions=16)).json()["data"][0]["embedding"]
    assert len(numbers) == 16
    assert sum(number * number for number in numbers) == pytest.approx(1.0, abs=1e-5)


async def test_the_list_of_models_says_which_are_for_embeddings(make_creator: MakeCreator) -> None:
    async with serve(make_creator, HashedEmbedder()) as client:
        listed = (await client.get("/v1/models")).json()["data"]
        one = (await client.get("/v1/models/hashed")).json()
        anthropic = await client.get("/v1/models", headers={"anthropic-version": "2023-06-01"})
        codex = await client.get("/v1/models?client_version=0.166.0")
    assert [(model["id"], model.get("kind")) for model in listed] == [("m", None), ("hashed", "embedding")]
    assert one == listed[1]
    assert [model["id"] for model in anthropic.json()["data"]] == ["m"]
    assert [model["slug"] for model in codex.json()["models"]] == ["m"]
