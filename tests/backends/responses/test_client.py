"""The backend on a real socket: its requests, and every upstream failure."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from typing import Any, get_args

import pytest

from antiphon.backends.features import FUNCTIONS, Feature
from antiphon.backends.registry import default_endpoint
from antiphon.backends.responses.client import ResponsesBackend
from antiphon.errors import BackendBroken, BackendError, BackendRefused, BackendTimeout, BackendUnreachable
from antiphon.http.target import Deadlines
from antiphon.protocol.downgrade import rendered
from antiphon.protocol.parse_create import create_from
from antiphon.turn.chunks import Chunk, Failed, Finished, ItemBegun, TextDelta
from antiphon.turn.context import TurnRequest, build_turn
from tests.http.raw_upstream import (
    SSE_HEAD,
    Script,
    Wire,
    answering,
    chunked,
    complete_response,
    raw_upstream,
)

KEY = "sk-canary-0123456789abcdef"
LIMITS: dict[str, Any] = {
    "deadlines": Deadlines(connect=0.3, first_byte=0.3, between=0.3, answer=0.3, total=2.0),
    "backoff": 0.001,
    "heartbeat": 5.0,
    "api_key": KEY,
}
MESSAGE = {"type": "message", "id": "m", "content": [{"type": "output_text", "text": "Hi"}]}
RESPONSE = {"object": "response", "status": "completed", "output": [MESSAGE]}


def event(kind: str, **members: Any) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **members})}\n\n".encode()


START = event("response.created", response={"status": "in_progress"})
TEXT_EVENT = event("response.output_text.delta", item_id="m", output_index=0, content_index=0, delta="word")
STOP = event("response.completed", response={"status": "completed", "output": []})
GOOD = SSE_HEAD + chunked(START + TEXT_EVENT + STOP) + chunked(b"")


@asynccontextmanager
async def backend_at(
    url: str, kind: str = "openai-responses", **changes: Any
) -> AsyncGenerator[ResponsesBackend, None]:
    endpoint = replace(default_endpoint(kind, url), **{**LIMITS, **changes})
    backend = ResponsesBackend(endpoint, chance=lambda: 0.5)
    yield backend
    await backend.aclose()


def turn(*, stream: bool = True, **params: Any) -> TurnRequest:
    return build_turn(create_from(model="m", stream=stream, **{"input": "hi", **params}), model="up")


async def collect(backend: ResponsesBackend, turn_request: TurnRequest) -> list[Chunk]:
    return [chunk async for batch in backend.prepare(turn_request).chunks() for chunk in batch]


async def run_turn(*scripts: Script, stream: bool = True, **changes: Any) -> list[Chunk]:
    async with raw_upstream(*scripts) as raw, backend_at(raw.url, **changes) as backend:
        return await collect(backend, turn(stream=stream))


async def fail(*scripts: Script, stream: bool = True, **changes: Any) -> BackendError:
    """The error that a turn raises before its first chunk."""
    with pytest.raises(BackendError) as caught:
        await run_turn(*scripts, stream=stream, **changes)
    assert "canary" not in caught.value.message
    return caught.value


def refusing(status: int, *headers: str, **error: Any) -> Script:
    return answering(complete_response(status, json.dumps({"error": error}).encode(), *headers))


# Requests


async def test_the_http_request() -> None:
    async with raw_upstream(answering(GOOD)) as raw, backend_at(raw.url) as backend:
        chunks = await collect(backend, turn())
        wire = raw.wires[0]
    assert chunks == [TextDelta("word"), Finished("stop")]
    lines = wire.head.lower().split("\r\n")
    assert lines[0] == "post /v1/responses http/1.1"
    assert f"authorization: bearer {KEY}" in lines
    assert "content-type: application/json" in lines
    body = json.loads(wire.body)
    assert (body["model"], body["stream"], body["store"]) == ("up", True, False)


async def test_without_streaming_one_body_is_requested() -> None:
    chunks = await run_turn(answering(complete_response(200, json.dumps(RESPONSE).encode())), stream=False)
    assert chunks == [TextDelta("Hi"), ItemBegun(), Finished("stop")]
    assert await run_turn(answering(complete_response(200, json.dumps(RESPONSE).encode()))) == chunks
    assert await run_turn(answering(GOOD), stream=False) == [TextDelta("word"), Finished("stop")]


async def test_models_and_their_windows() -> None:
    body = json.dumps({"data": [{"id": "a", "created": 3, "max_model_len": 4096}, {"id": "b"}]}).encode()
    upstream = raw_upstream(answering(complete_response(200, body)))
    async with upstream as raw, backend_at(raw.url, "vllm-responses") as backend:
        first, second = await backend.models()
        assert (first.id, first.created, first.owned_by) == ("a", 3, "vllm-responses")
        assert (second.id, second.created) == ("b", 0)
        assert await backend.context_window("a") == 4096
        assert await backend.context_window("b") is None


async def test_windows_of_another_antiphon() -> None:
    body = json.dumps({"models": [{"slug": "a", "context_window": 8192}, {"slug": "b"}]}).encode()
    async with raw_upstream(answering(complete_response(200, body))) as raw:
        async with backend_at(raw.url, "antiphon") as backend:
            assert await backend.context_window("a") == 8192
            assert await backend.context_window("b") is None
        assert "/v1/models?client_version=" in raw.wires[0].head


async def test_an_invalid_model_list() -> None:
    async with (
        raw_upstream(answering(complete_response(200, b'{"data":[{}]}'))) as raw,
        backend_at(raw.url) as backend,
    ):
        with pytest.raises(BackendBroken, match="OpenAI's format"):
            await backend.models()
        assert await backend.context_window("x") is None
    async with backend_at(raw.url) as backend:
        assert await backend.context_window("x") is None
        with pytest.raises(BackendUnreachable):
            await backend.models()


@pytest.mark.parametrize("kind", ["openai-responses", "responses", "vllm-responses", "antiphon"])
async def test_name_natives_and_features(kind: str) -> None:
    async with backend_at("http://localhost:1/v1", kind) as backend:
        assert backend.name == kind
        assert backend.natives >= FUNCTIONS
        assert ("web_search" in backend.natives) == (kind == "openai-responses")
        assert ("custom" in backend.natives) == (kind in ("openai-responses", "antiphon"))
        assert "programmatic_tool_calling" not in backend.natives
        features = backend.features("m")
        assert features.keys() == set(get_args(Feature))
        assert all(support.why for support in features.values() if support.level != "native")
        assert (features["custom_tools"].level == "native") == ("custom" in backend.natives)
        assert rendered(backend.prepare(turn(service_tier="flex")).downgrades) == (
            []
            if kind in ("openai-responses", "antiphon")
            else ["not sent to this model's server: service_tier"]
        )


# Faults


@pytest.mark.parametrize(
    ("status", "error", "expected", "code", "param"),
    [
        (400, {"message": "bad", "param": "input[7].id", "code": "invalid_value"}, 400, "invalid_value", "input"),
        (400, {"message": "bad", "param": "text.format", "code": None}, 400, "upstream_error", "text"),
        (400, {"message": "bad", "param": "secret_field"}, 400, "upstream_error", None),
        (400, {"message": "m", "code": "context_length_exceeded"}, 400, "context_length_exceeded", "input"),
        (401, {"message": "bad key"}, 502, "upstream_auth_error", None),
        (403, {"message": "not you"}, 502, "upstream_auth_error", None),
        (404, {"message": "m", "code": "model_not_found"}, 404, "model_not_found", "model"),
        (404, {"message": "Not Found"}, 404, "upstream_error", None),
        (429, {"message": "slow"}, 429, "rate_limit_exceeded", None),
        (500, {"message": "oops"}, 502, "upstream_error", None),
        (503, {"message": "busy"}, 503, "upstream_error", None),
    ],
)  # fmt: skip
async def test_refusals(
    status: int, error: dict[str, Any], expected: int, code: str, param: str | None
) -> None:
    found = await fail(refusing(status, **error), retries=0)
    assert isinstance(found, BackendRefused)
    assert (found.status, found.code, found.param) == (expected, code, param)


async def test_how_long_to_wait_is_passed_on() -> None:
    assert (await fail(refusing(429, "Retry-After: 60", message="slow"))).retry_after == 60


async def test_secrets_and_pages_in_errors() -> None:
    error = await fail(refusing(401, message=f"Incorrect key {KEY}"))
    assert "OPENAI_API_KEY" in error.message
    page = complete_response(502, b"<html><title>Bad gateway</title></html>", media="text/html")
    assert "Bad gateway" in (await fail(answering(page), retries=0)).message
    detail = complete_response(422, json.dumps({"detail": [{"loc": ["body"], "msg": "no"}]}).encode())
    assert "body: no" in (await fail(answering(detail))).message


async def test_a_missing_path_error_includes_the_remedy() -> None:
    assert "base_url" in (await fail(answering(complete_response(404, b'{"detail":"Not Found"}')))).message


async def test_a_busy_server_is_retried_and_wrong_credentials_are_not() -> None:
    busy = refusing(503, message="busy")
    assert (await run_turn(busy, busy, answering(GOOD)))[-1] == Finished("stop")
    async with raw_upstream(refusing(401, message="no")) as raw, backend_at(raw.url) as backend:
        with pytest.raises(BackendRefused):
            await collect(backend, turn())
        assert len(raw.wires) == 1


async def test_an_error_at_the_start_of_a_stream_is_an_error_of_the_turn() -> None:
    error = event("error", error={"code": "rate_limit_exceeded", "message": "slow"})
    failed = event("response.failed", response={"status": "failed", "error": {"message": "slow"}})
    for events in (START + error + failed, START + error, START + failed):
        found = await fail(answering(SSE_HEAD + chunked(events) + chunked(b"")))
        assert "slow" in found.message


async def test_an_error_without_an_end_is_not_waited_for_long() -> None:
    error = event("error", code="server_error", message="flat")

    async def linger(wire: Wire) -> None:
        await wire.send(SSE_HEAD + chunked(START + TEXT_EVENT + error))
        await wire.until_cut_off()

    patient = Deadlines(connect=1.0, first_byte=30.0, between=30.0, total=60.0)
    async with asyncio.timeout(10):
        chunks = await run_turn(linger, deadlines=patient)
    assert isinstance(chunks[-1], Failed)
    assert "flat" in chunks[-1].error.message


async def test_a_truncated_stream_fails_the_turn() -> None:
    async def cut(wire: Wire) -> None:
        await wire.send(SSE_HEAD + chunked(START + TEXT_EVENT))
        wire.close()

    for script in (cut, answering(SSE_HEAD + chunked(START + TEXT_EVENT) + chunked(b""))):
        chunks = await run_turn(script)
        assert chunks[0] == TextDelta("word")
        assert isinstance(chunks[-1], Failed)
        assert isinstance(chunks[-1].error, BackendBroken)


async def test_silence_ends_at_the_deadline() -> None:
    async def silent(wire: Wire) -> None:
        await wire.send(SSE_HEAD + chunked(START + TEXT_EVENT))
        await wire.until_cut_off()

    async def mute(wire: Wire) -> None:
        await wire.until_cut_off()

    chunks = await run_turn(silent)
    assert isinstance(chunks[-1], Failed)
    assert isinstance(chunks[-1].error, BackendTimeout)
    for stream in (True, False):
        assert isinstance(await fail(mute, stream=stream, retries=0), BackendTimeout)


async def test_a_complete_answer_needs_no_end_of_the_connection() -> None:
    async def linger(wire: Wire) -> None:
        await wire.send(SSE_HEAD + chunked(START + TEXT_EVENT + STOP))
        await wire.until_cut_off()

    assert (await run_turn(linger))[-1] == Finished("stop")


@pytest.mark.parametrize("body", [b"{}", b"nothing", b'{"choices":[{"message":{"content":"chat"}}]}', b"[]"])
async def test_an_invalid_response_body(body: bytes) -> None:
    assert isinstance(await fail(answering(complete_response(200, body)), stream=False), BackendBroken)


async def test_an_event_beyond_the_size_limit_is_an_error() -> None:
    huge = SSE_HEAD + chunked(START + b"data: " + b"x" * 5000)
    assert "size limit" in (await fail(answering(huge), max_event_bytes=2000)).message


async def test_closing_the_turn_closes_the_connection() -> None:
    async def hang(wire: Wire) -> None:
        await wire.send(SSE_HEAD + chunked(START + TEXT_EVENT))
        await wire.until_cut_off()

    async with raw_upstream(hang) as raw, backend_at(raw.url) as backend:
        async with aclosing(backend.prepare(turn()).chunks()) as chunks:
            async for batch in chunks:
                if batch:
                    break
        await asyncio.wait_for(raw.cut_off.wait(), 5)
