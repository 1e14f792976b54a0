"""A model that answers without end, on every route: the answer ends, and so does the upstream request."""

import asyncio
import json
from collections.abc import Generator
from typing import Any

import pytest
from websockets.asyncio.client import connect

from antiphon.protocol.response import Response
from antiphon.protocol.shape import Shape
from tests.flooding_upstream import FloodingUpstream, run_flooding_upstream
from tests.server.test_slow_readers import TIMEOUT_SECONDS, ask, connected, question, request, serving, until
from tests.server.test_websocket_wire import CREATE, events_of_turn
from tests.turn.order import check_order
from tests.uvicorn_here import Here

ANSWERS: dict[str, object] = {"max_bytes": 100_000, "max_tokens": 20_000, "max_calls": 50}


@pytest.fixture(scope="module")
def upstream() -> Generator[FloodingUpstream, None, None]:
    with run_flooding_upstream() as running:
        yield running


async def streamed(here: Here, sent: bytes) -> list[dict[str, Any]]:
    """The events of a stream, without `[DONE]`."""
    received = b""
    async with connected(here, sent) as client, asyncio.timeout(TIMEOUT_SECONDS):
        while not received.endswith(b"0\r\n\r\n"):
            received += await client.reader.read(2**20)
    body, rest = b"", received.partition(b"\r\n\r\n")[2]
    while size := int(rest.partition(b"\r\n")[0], 16):
        start = rest.index(b"\r\n") + 2
        body, rest = body + rest[start : start + size], rest[start + size + 2 :]
    lines = [line[6:] for line in body.splitlines() if line.startswith(b"data: {")]
    return [json.loads(line) for line in lines]


@pytest.mark.parametrize("model", ["text", "large", "reasoning", "calls", "arguments"])
async def test_a_stream_of_events_ends(upstream: FloodingUpstream, model: str) -> None:
    async with serving(upstream, answers=ANSWERS) as here:
        events = await streamed(here, question("/v1/responses", model))
        check_order(events)
        assert events[-1]["type"] == "response.incomplete"
        assert events[-1]["response"]["incomplete_details"] == {"reason": "max_output_tokens"}
        await until(lambda: upstream.open_answers() == 0)


@pytest.mark.parametrize("model", ["text", "large", "arguments"])
async def test_the_compatible_endpoints_end_as_at_a_maximum_of_tokens(
    upstream: FloodingUpstream, model: str
) -> None:
    async with serving(upstream, answers=ANSWERS) as here:
        chat = await streamed(here, question("/v1/chat/completions", model))
        assert [choice["finish_reason"] for event in chat for choice in event["choices"]][-1] == "length"
        messages = await streamed(here, question("/v1/messages", model))
        (end,) = [event for event in messages if event["type"] == "message_delta"]
        assert end["delta"]["stop_reason"] == "max_tokens"
        await until(lambda: upstream.open_answers() == 0)


async def test_json_answers_end(upstream: FloodingUpstream) -> None:
    async with serving(upstream, answers=ANSWERS) as here:
        _, answer = await ask(here, question("/v1/responses", "text-200000", stream=False))
        assert (answer["status"], answer["usage"]["output_tokens"]) == ("incomplete", 2)
        assert len(answer["output"][0]["content"][0]["text"]) == 100_000
        _, answer = await ask(here, question("/v1/chat/completions", "text-200000", stream=False))
        assert answer["choices"][0]["finish_reason"] == "length"
        _, answer = await ask(here, question("/v1/messages", "text-200000", stream=False))
        assert answer["stop_reason"] == "max_tokens"


async def test_a_large_json_answer_is_encoded_in_slices(
    upstream: FloodingUpstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    def encode(_shape: Shape, response: Response) -> bytes:
        raise AssertionError(f"{response.id} is encoded at once")

    async with serving(upstream, answers={"max_bytes": 3_000_000}) as here:
        _, small = await ask(here, question("/v1/responses", "text-5", stream=False))
        monkeypatch.setattr(Shape, "encode", encode)
        _, large = await ask(here, question("/v1/responses", "text-4000000", stream=False))
    assert small.keys() <= large.keys()
    assert len(large["output"][0]["content"][0]["text"]) == 3_000_000


async def test_a_websocket_ends_its_turn_and_continues(upstream: FloodingUpstream) -> None:
    async with (
        serving(upstream, answers=ANSWERS) as here,
        connect(f"ws://127.0.0.1:{here.port}/v1/responses", max_size=None) as client,
    ):
        for model, end in (("text", "response.incomplete"), ("text-5", "response.completed")):
            await client.send(json.dumps({**CREATE, "model": model}))
            events = await events_of_turn(client)
            check_order(events)
            assert events[-1]["type"] == end
        await until(lambda: upstream.open_answers() == 0)


async def test_a_background_response_ends_and_can_be_followed(upstream: FloodingUpstream) -> None:
    async with serving(upstream, answers=ANSWERS) as here:
        body = {"model": "text", "input": "hi", "background": True, "stream": True}
        events = await streamed(here, request("/v1/responses", body))
        check_order(events)
        assert events[-1]["response"]["status"] == "incomplete"
        again = await streamed(
            here, request(f"/v1/responses/{events[0]['response']['id']}?stream=true", method="GET")
        )
        assert again == events
        await until(lambda: upstream.open_answers() == 0)
