"""Strict schemas on real sockets: an answer that violates its schema ends at once, and so does its request."""

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Literal

import pytest
from aiohttp import web

from antiphon.settings import UpstreamSettings, load_settings
from antiphon.wiring import build_app
from tests.server.test_endless_answers import streamed
from tests.server.test_slow_readers import TIMEOUT_SECONDS, ask, request
from tests.turn.order import check_order
from tests.uvicorn_here import Here, serve_here

USAGE = {"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12}
SCHEMA = {
    "type": "object",
    "properties": {"n": {"type": "integer"}, "why": {"type": "string"}},
    "required": ["n", "why"],
    "additionalProperties": False,
}
BODY = {
    "model": "m",
    "input": "hi",
    "text": {"format": {"type": "json_schema", "name": "answer", "schema": SCHEMA, "strict": True}},
}
RIGHT = ['{"n": ', '1, "why', '": "it is"}']
WRONG = ['{"n', '": ', '"one"', ', "why": "']
"""After this, the upstream would send text without end."""


class EndlessUpstream:
    """Gives one answer after another, each as a stream of these pieces. A wrong answer has no end."""

    def __init__(self, *answers: Sequence[str]) -> None:
        self._answers = iter(answers)
        self.requests: list[dict[str, Any]] = []
        self.aborted = asyncio.Event()
        self.url = ""

    async def answer(self, question: web.Request) -> web.StreamResponse:
        body = await question.json()
        self.requests.append(body)
        pieces = next(self._answers)
        if not body.get("stream"):
            message = {"role": "assistant", "content": "".join(pieces)}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            return web.json_response(
                {"id": "c", "object": "chat.completion", "choices": [choice], "usage": USAGE}
            )
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(question)
        try:
            for piece in pieces:
                await _send(response, {"content": piece})
            while pieces is not RIGHT:
                await asyncio.sleep(0.01)
                await _send(response, {"content": "more and more "})
        except ConnectionError:
            self.aborted.set()
            return response
        await _send(response, {}, "stop")
        await response.write(
            f"data: {json.dumps({'choices': [], 'usage': USAGE})}\n\ndata: [DONE]\n\n".encode()
        )
        return response


async def _send(response: web.StreamResponse, delta: dict[str, str], reason: str | None = None) -> None:
    choice = {"index": 0, "delta": delta, "finish_reason": reason}
    chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
    await response.write(f"data: {json.dumps(chunk)}\n\n".encode())
    await asyncio.sleep(0.005)  # so that each is a batch of its own


@asynccontextmanager
async def serving(
    *answers: Sequence[str], strict_schemas: Literal["trusted", "checked"]
) -> AsyncGenerator[tuple[Here, EndlessUpstream], None]:
    upstream = EndlessUpstream(*answers)
    app = web.Application()
    app.router.add_post("/v1/chat/completions", upstream.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    row = UpstreamSettings(kind="vllm", base_url=f"http://{host}:{port}/v1", strict_schemas=strict_schemas)
    settings = load_settings(environment={}, overrides={"store": {"url": "memory:"}}, upstreams=(row,))
    try:
        async with serve_here(lambda: build_app(settings)) as here:
            yield here, upstream
    finally:
        await runner.cleanup()


async def events_of(here: Here) -> list[dict[str, Any]]:
    events = await streamed(here, request("/v1/responses", {**BODY, "stream": True}))
    check_order(events)
    return events


def deltas_of(events: Sequence[dict[str, Any]]) -> list[str]:
    return [event["delta"] for event in events if event["type"] == "response.output_text.delta"]


@pytest.mark.requirement("PROTOCOL/create-format-strict-stream")
async def test_a_trusted_stream_fails_at_its_violation() -> None:
    async with serving(WRONG, strict_schemas="trusted") as (here, upstream), asyncio.timeout(TIMEOUT_SECONDS):
        events = await events_of(here)
        assert deltas_of(events) == ['{"n', '": ']
        assert (events[-1]["type"], events[-2]["type"]) == ("response.failed", "error")
        error = events[-2]["error"]
        assert error["code"] == "model_did_not_comply"
        assert "At 'n': a string is not allowed" in error["message"]
        await upstream.aborted.wait()
        assert len(upstream.requests) == 1


@pytest.mark.requirement("PROTOCOL/create-format-strict-stream")
async def test_a_held_stream_is_repaired_at_its_violation() -> None:
    async with (
        serving(WRONG, RIGHT, strict_schemas="checked") as (here, upstream),
        asyncio.timeout(TIMEOUT_SECONDS),
    ):
        events = await events_of(here)
        assert "".join(deltas_of(events)) == "".join(RIGHT)
        response = events[-1]["response"]
        assert (events[-1]["type"], response["usage"]["total_tokens"]) == ("response.completed", 12)
        assert "'usage' is without them" in response["downgrades"][0]
        await upstream.aborted.wait()
        assert upstream.requests[1]["messages"][-2]["content"] == '{"n": "one"'
        assert "At 'n': a string is not allowed" in upstream.requests[1]["messages"][-1]["content"]


@pytest.mark.requirement("PROTOCOL/create-format-strict-stream")
async def test_a_held_stream_that_stays_wrong_fails() -> None:
    async with (
        serving(WRONG, WRONG, WRONG, strict_schemas="checked") as (here, upstream),
        asyncio.timeout(TIMEOUT_SECONDS),
    ):
        events = await events_of(here)
        assert (deltas_of(events), events[-1]["type"]) == ([], "response.failed")
        assert events[-2]["error"]["code"] == "model_did_not_comply"
        assert len(upstream.requests) == 3


@pytest.mark.requirement("PROTOCOL/create-format-strict-stream")
@pytest.mark.parametrize("strict_schemas", ["trusted", "checked"])
async def test_a_right_stream_is_complete(strict_schemas: Literal["trusted", "checked"]) -> None:
    async with serving(RIGHT, strict_schemas=strict_schemas) as (here, _):
        events = await events_of(here)
        assert "".join(deltas_of(events)) == "".join(RIGHT)
        assert (len(deltas_of(events)) > 1) == (strict_schemas == "trusted") or deltas_of(events) == RIGHT
        assert events[-1]["type"] == "response.completed"


@pytest.mark.requirement("PROTOCOL/create-format-strict")
@pytest.mark.parametrize("strict_schemas", ["trusted", "checked"])
async def test_an_answer_without_a_stream_is_repaired(strict_schemas: Literal["trusted", "checked"]) -> None:
    wrong = ['{"n": "one", "why": ""}']
    async with serving(wrong, RIGHT, strict_schemas=strict_schemas) as (here, upstream):
        status, answer = await ask(here, request("/v1/responses", BODY))
        assert (status, answer["output"][0]["content"][0]["text"]) == (200, "".join(RIGHT))
        assert (answer["usage"]["total_tokens"], len(upstream.requests)) == (24, 2)
