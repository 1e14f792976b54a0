"""The backend on a real socket: its requests, and every upstream failure."""

import asyncio
import json
from collections.abc import AsyncGenerator, Generator
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from typing import Any, get_args

import pytest

from antiphon.backends.features import FUNCTIONS, Feature
from antiphon.backends.gemini.client import GeminiBackend, model_path
from antiphon.backends.registry import default_endpoint
from antiphon.errors import (
    BackendBroken,
    BackendError,
    BackendRefused,
    BackendTimeout,
    BackendUnreachable,
    ModelNotFound,
)
from antiphon.http.target import Deadlines
from antiphon.protocol.parse_create import create_from
from antiphon.turn.chunks import CallStarted, Chunk, Failed, Finished, TextDelta, UsageReported
from antiphon.turn.context import TurnRequest, build_turn
from tests.backends.gemini.building import TOOL
from tests.backends.gemini.upstream import ROOTS, Upstream, run_upstream
from tests.http.raw_upstream import (
    SSE_HEAD,
    Script,
    Wire,
    answering,
    chunked,
    complete_response,
    raw_upstream,
)

KEY = "AIzaCanary0123456789"
LIMITS: dict[str, Any] = {
    "deadlines": Deadlines(connect=0.3, first_byte=0.3, between=0.3, answer=0.3, total=2.0),
    "backoff": 0.001,
    "heartbeat": 5.0,
    "api_key": KEY,
}
ANSWER: dict[str, Any] = {"candidates": [{"content": {"parts": [{"text": "Hi"}]}, "finishReason": "STOP"}]}
TEXT_EVENT = b'data: {"candidates":[{"content":{"parts":[{"text":"word"}]}}]}\r\n\r\n'
STOP = b'data: {"candidates":[{"finishReason":"STOP"}]}\r\n\r\n'
GOOD = SSE_HEAD + chunked(TEXT_EVENT + STOP) + chunked(b"")
OVERLOADED = json.dumps({"error": {"code": 503, "message": "Busy", "status": "UNAVAILABLE"}}).encode()
EXHAUSTED = json.dumps(
    {
        "error": {
            "code": 429,
            "message": "Slow",
            "status": "RESOURCE_EXHAUSTED",
            "details": [{"retryDelay": "0.01s"}],
        }
    }
).encode()


@pytest.fixture(scope="module")
def upstream() -> Generator[Upstream, None, None]:
    with run_upstream() as running:
        yield running


@asynccontextmanager
async def backend_at(url: str, **changes: Any) -> AsyncGenerator[GeminiBackend, None]:
    endpoint = replace(default_endpoint("gemini", url), **{**LIMITS, **changes})
    backend = GeminiBackend(endpoint, chance=lambda: 0.5)
    yield backend
    await backend.aclose()


def turn(model: str = "m", *, stream: bool = True, **params: Any) -> TurnRequest:
    return build_turn(create_from(model="m", stream=stream, **{"input": "hi", **params}), model=model)


async def collect(backend: GeminiBackend, turn_request: TurnRequest) -> list[Chunk]:
    return [chunk async for batch in backend.prepare(turn_request).chunks() for chunk in batch]


async def run_turn(*scripts: Script, stream: bool = True, **changes: Any) -> list[Chunk]:
    async with raw_upstream(*scripts) as raw, backend_at(raw.url, **changes) as backend:
        return await collect(backend, turn(stream=stream))


async def fail(*scripts: Script, stream: bool = True, **changes: Any) -> BackendError:
    """The error that a turn raises before its first chunk."""
    with pytest.raises(BackendError) as caught:
        await run_turn(*scripts, stream=stream, **changes)
    assert "Canary" not in caught.value.message
    return caught.value


# Requests


@pytest.mark.parametrize("root", ["", "/", *ROOTS, ROOTS[0] + "/"])
@pytest.mark.parametrize("stream", [True, False])
async def test_an_answer(upstream: Upstream, root: str, stream: bool) -> None:
    async with backend_at(upstream.url + root) as backend:
        chunks = await collect(backend, turn(stream=stream))
    assert "".join(chunk.text for chunk in chunks if isinstance(chunk, TextDelta)) == "You said: hi"
    usage = chunks[-2]
    assert isinstance(usage, UsageReported)
    assert (usage.usage.input_tokens, usage.usage.output_tokens) == (13, 8)
    assert chunks[-1] == Finished("stop")
    method = "streamGenerateContent?alt=sse" if stream else "generateContent"
    assert upstream.paths[-1] == f"{root.rstrip('/') or '/v1beta'}/models/m:{method}"
    headers = upstream.headers[-1]
    assert (headers["x-goog-api-key"], headers["content-type"]) == (KEY, "application/json")
    assert "authorization" not in headers


async def test_a_bearer_token_instead_of_a_key(upstream: Upstream) -> None:
    headers = {"authorization": "Bearer canary"}
    async with backend_at(upstream.url + ROOTS[1], api_key="", headers=headers) as backend:
        await collect(backend, turn())
    assert upstream.headers[-1]["authorization"] == "Bearer canary"
    assert "x-goog-api-key" not in upstream.headers[-1]


@pytest.mark.parametrize(
    ("model", "path"),
    [
        ("gemini-3-pro", "models/gemini-3-pro"),
        ("gemini@001", "models/gemini@001"),
        ("models/gemini-3-pro", "models/gemini-3-pro"),
        ("tunedModels/mine", "tunedModels/mine"),
        ("publishers/meta/models/llama", "publishers/meta/models/llama"),
        ("a/b", "models/a%2Fb"),
        ("x:countTokens?y", "models/x%3AcountTokens%3Fy"),
        ("x\r\nHost: evil", "models/x%0D%0AHost%3A%20evil"),
        ("models/%2e%2e/files", "models/%252e%252e/files"),
    ],
)
def test_where_a_model_is(model: str, path: str) -> None:
    assert model_path(model) == path


@pytest.mark.parametrize("model", ["..", ".", "", "models/../files", "models//x", "tunedModels/"])
def test_a_name_leads_nowhere_else(model: str) -> None:
    with pytest.raises(ModelNotFound):
        model_path(model)


async def test_calls_carry_the_declared_tool_names(upstream: Upstream) -> None:
    async with backend_at(upstream.url) as backend:
        chunks = await collect(backend, turn(tools=[{**TOOL, "name": "2fa"}]))
    declared = upstream.requests[-1]["tools"][0]["functionDeclarations"]
    assert declared[0]["name"] == "_2fa"
    assert [chunk.name for chunk in chunks if isinstance(chunk, CallStarted)] == ["2fa", "2fa"]


@pytest.mark.parametrize("root", ["", "/v1beta"])
async def test_models_and_their_windows(upstream: Upstream, root: str) -> None:
    async with backend_at(upstream.url + root) as backend:
        found = await backend.models()
        assert [(model.id, model.owned_by) for model in found] == [
            ("gemini-3-flash-preview", "gemini"),
            ("tunedModels/mine", "gemini"),
        ]
        assert await backend.context_window("gemini-3-flash-preview") == 1_048_576
        assert await backend.context_window("models/gemini-3-flash-preview") == 1_048_576
        assert await backend.context_window("tunedModels/mine") is None


async def test_the_list_of_vertex() -> None:
    rows = b'{"publisherModels":[{"name":"publishers/google/models/gemini-x"}]}'
    async with raw_upstream(answering(complete_response(200, rows))) as raw, backend_at(raw.url) as backend:
        assert [model.id for model in await backend.models()] == ["gemini-x"]


async def test_an_invalid_model_list() -> None:
    async with (
        raw_upstream(answering(complete_response(200, b'{"models":[{}]}'))) as raw,
        backend_at(raw.url) as backend,
    ):
        with pytest.raises(BackendBroken, match="Google's format"):
            await backend.models()
        assert await backend.context_window("x") is None
    async with backend_at(raw.url) as backend:
        assert await backend.context_window("x") is None
        with pytest.raises(BackendUnreachable):
            await backend.models()


async def test_name_natives_and_features() -> None:
    async with backend_at("http://localhost:1") as backend:
        assert backend.name == "gemini"
        assert backend.natives == FUNCTIONS
        assert backend.features("m").keys() == set(get_args(Feature))
        assert all(support.why for support in backend.features("m").values() if support.level != "native")


async def test_omitted_params_are_reported() -> None:
    async with backend_at("http://localhost:1") as backend:
        turn_request = turn(
            "gemini-2.5-flash", user="u", tools=[TOOL], text={"format": {"type": "json_object"}}
        )
        prepared = backend.prepare(turn_request)
        assert len(prepared.downgrades) == 2
        assert prepared.unenforced == {"format"}


# Faults


async def test_refusals_reach_the_caller(upstream: Upstream) -> None:
    async with backend_at(upstream.url) as backend:
        for model, status, code in (("busy", 503, "upstream_error"), ("unknown", 404, "model_not_found")):
            with pytest.raises(BackendRefused) as caught:
                await collect(backend, turn(model))
            assert (caught.value.status, caught.value.code) == (status, code)


@pytest.mark.parametrize(("status", "body"), [(503, OVERLOADED), (429, EXHAUSTED)])
async def test_requests_to_a_busy_server_are_retried(status: int, body: bytes) -> None:
    refusing = answering(complete_response(status, body))
    assert (await run_turn(refusing, refusing, answering(GOOD)))[-1] == Finished("stop")
    error = await fail(refusing, retries=1)
    assert (error.status, error.retryable) == (status, True)


@pytest.mark.parametrize(
    ("status", "kind", "upstream_message"),
    [
        (401, "UNAUTHENTICATED", f"bad {KEY}"),
        (400, "INVALID_ARGUMENT", "API key not valid. Please pass one."),
    ],
)
async def test_bad_credentials_are_not_tried_twice(status: int, kind: str, upstream_message: str) -> None:
    body = json.dumps({"error": {"code": status, "status": kind, "message": upstream_message}}).encode()
    async with (
        raw_upstream(answering(complete_response(status, body))) as raw,
        backend_at(raw.url) as backend,
    ):
        with pytest.raises(BackendRefused, match="GEMINI_API_KEY") as caught:
            await collect(backend, turn())
        assert len(raw.wires) == 1
    assert caught.value.code == "upstream_auth_error"
    assert "Canary" not in caught.value.message


async def test_an_overload_at_the_start_of_a_stream_is_an_error_of_the_turn() -> None:
    event = b"data: %b\r\n\r\n" % OVERLOADED
    error = await fail(answering(SSE_HEAD + chunked(event) + chunked(b"")))
    assert (error.status, error.retryable) == (503, True)


async def test_an_overload_in_mid_stream_is_a_failure_of_the_answer() -> None:
    event = b"data: %b\r\n\r\n" % OVERLOADED
    chunks = await run_turn(answering(SSE_HEAD + chunked(TEXT_EVENT + event) + chunked(b"")))
    assert chunks[0] == TextDelta("word")
    assert isinstance(chunks[-1], Failed)
    assert chunks[-1].error.status == 503


async def test_a_malformed_call_may_be_retried() -> None:
    body = json.dumps({"candidates": [{"finishReason": "MALFORMED_FUNCTION_CALL"}]}).encode()
    error = await fail(answering(complete_response(200, body)), stream=False)
    assert (error.status, error.retryable) == (502, True)


async def test_a_truncated_stream_fails_the_turn() -> None:
    async def cut(wire: Wire) -> None:
        await wire.send(SSE_HEAD + chunked(TEXT_EVENT))
        wire.close()

    for script in (cut, answering(SSE_HEAD + chunked(TEXT_EVENT) + chunked(b""))):
        chunks = await run_turn(script)
        assert chunks[0] == TextDelta("word")
        assert isinstance(chunks[-1], Failed)
        assert isinstance(chunks[-1].error, BackendBroken)


async def test_silence_ends_at_the_deadline() -> None:
    async def silent(wire: Wire) -> None:
        await wire.send(SSE_HEAD + chunked(TEXT_EVENT))
        await wire.until_cut_off()

    async def mute(wire: Wire) -> None:
        await wire.until_cut_off()

    chunks = await run_turn(silent)
    assert isinstance(chunks[-1], Failed)
    assert isinstance(chunks[-1].error, BackendTimeout)
    for stream in (True, False):
        assert isinstance(await fail(mute, stream=stream, retries=0), BackendTimeout)


async def test_a_complete_answer_does_not_wait_long_for_the_end_of_the_connection() -> None:
    async def linger(wire: Wire) -> None:
        await wire.send(SSE_HEAD + chunked(TEXT_EVENT + STOP))
        await wire.until_cut_off()

    assert (await run_turn(linger))[-1] == Finished("stop")


@pytest.mark.parametrize("body", [b"{}", b"nothing", b'{"choices":[{"message":{"content":"chat"}}]}', b"[]"])
async def test_an_invalid_answer_body(body: bytes) -> None:
    assert isinstance(await fail(answering(complete_response(200, body)), stream=False), BackendBroken)


async def test_an_html_page_of_a_proxy_is_an_error() -> None:
    page = complete_response(200, b"<html>Log in</html>", media="text/html")
    assert "Log in" in (await fail(answering(page))).message


async def test_a_json_body_instead_of_a_stream_is_read() -> None:
    for body in (ANSWER, [ANSWER]):
        chunks = await run_turn(answering(complete_response(200, json.dumps(body).encode())))
        assert chunks == [TextDelta("Hi"), Finished("stop")]


async def test_closing_the_turn_closes_the_connection(upstream: Upstream) -> None:
    async with backend_at(upstream.url) as backend:
        async with aclosing(backend.prepare(turn("hangs")).chunks()) as chunks:
            async for batch in chunks:
                if batch:
                    break
        await asyncio.to_thread(upstream.cut_off.wait, 5)
    assert upstream.cut_off.is_set()
