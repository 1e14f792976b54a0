"""Counting the tokens of a request over HTTP."""

import pytest

from antiphon.backends.scripted import ScriptedBackend
from tests.server.stateful import open_server
from tests.service.conftest import MakeCreator

PATH = "/v1/responses/input_tokens"


class Counting(ScriptedBackend):
    """A backend with a tokenizer: every word is a token."""

    async def count_tokens(self, text: str) -> int:
        return len(text.split())


@pytest.mark.requirement("PROTOCOL/endpoints-input-tokens")
async def test_an_estimate_is_reported_as_such(make_creator: MakeCreator) -> None:
    async with open_server(make_creator) as server:
        answer = await server.client.post(PATH, json={"model": "m", "input": "x" * 40})
    assert answer.json() == {"object": "response.input_tokens", "input_tokens": 14}
    assert answer.headers["x-antiphon-count"] == "estimate"


async def test_the_tokenizer_of_the_model_counts_if_there_is_one(make_creator: MakeCreator) -> None:
    async with open_server(make_creator, Counting([])) as server:
        answer = await server.client.post(PATH, json={"model": "m", "input": "one two three"})
    assert answer.json()["input_tokens"] == 3 + 4
    assert answer.headers["x-antiphon-count"] == "exact"


@pytest.mark.requirement("PROTOCOL/endpoints-input-tokens-model")
async def test_the_model_is_optional_but_must_exist(make_creator: MakeCreator) -> None:
    async with open_server(make_creator) as server:
        assert (await server.client.post(PATH, json={"input": "x"})).status_code == 200
        unknown = await server.client.post(PATH, json={"model": "other", "input": "x"})
    assert (unknown.status_code, unknown.json()["error"]["code"]) == (404, "model_not_found")


@pytest.mark.requirement("PROTOCOL/endpoints-input-tokens-refused")
async def test_a_bad_body_is_rejected_as_a_creation_would_be(make_creator: MakeCreator) -> None:
    async with open_server(make_creator) as server:
        assert (await server.client.post(PATH)).json()["error"]["code"] == "invalid_json"
        assert (await server.client.post(PATH, json={})).json()["error"]["param"] == "input"
        body = {"input": "x", "previous_response_id": "resp_x"}
        lost = await server.client.post(PATH, json=body)
    assert (lost.status_code, lost.json()["error"]["code"]) == (400, "previous_response_not_found")
