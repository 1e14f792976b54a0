"""The backend on a real socket: its requests, and every upstream failure."""

import asyncio
import json
from collections.abc import AsyncGenerator, Generator
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from typing import Any, get_args

import pytest

from antiphon.backends.anthropic_messages.client import AnthropicMessagesBackend, message_features
from antiphon.backends.anthropic_messages.models import traits_of
from antiphon.backends.features import FUNCTIONS, Feature
from antiphon.backends.registry import Quirks, default_endpoint
from antiphon.errors import BackendBroken, BackendError, BackendRefused, BackendTimeout, BackendUnreachable
from antiphon.http.target import Deadlines
from antiphon.protocol.parse_create import create_from
from antiphon.turn.chunks import Chunk, Failed, Finished, TextDelta, UsageReported
from antiphon.turn.context import TurnRequest, build_turn
from tests.backends.anthropic_messages.building import opened_reasoning
from tests.backends.anthropic_messages.upstream import Upstream, run_upstream
from tests.http.raw_upstream import (
    SSE_HEAD,
    Script,
    Wire,
    answering,
    chunked,
    complete_response,
    raw_upstream,
)

KEY = "sk-ant-canary-0123456789"
LIMITS: dict[str, Any] = {
    "deadlines": Deadlines(connect=0.3, first_byte=0.3, between=0.3, answer=0.3, total=2.0),
    "backoff": 0.001,
    "heartbeat": 5.0,
    "api_key": KEY,
}
MESSAGE = {"type": "message", "content": [{"type": "text", "text": "Hi"}], "stop_reason": "end_turn"}
START = b'event: message_start\ndata: {"type":"message_start","message":{"usage":{"input_tokens":1}}}\n\n'
TEXT_EVENT = (
    b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,'
    b'"delta":{"type":"text_delta","text":"word"}}\n\n'
)
STOP = b'event: message_stop\ndata: {"type":"message_stop"}\n\n'
GOOD = SSE_HEAD + chunked(START + TEXT_EVENT + STOP) + chunked(b"")
OVERLOADED = json.dumps({"type": "error", "error": {"type": "overloaded_error", "message": "Busy"}}).encode()


@pytest.fixture(scope="module")
def upstream() -> Generator[Upstream, None, None]:
    with run_upstream() as running:
        yield running


@asynccontextmanager
async def backend_at(url: str, **changes: Any) -> AsyncGenerator[AnthropicMessagesBackend, None]:
    endpoint = replace(default_endpoint("anthropic", url), **{**LIMITS, **changes})
    backend = AnthropicMessagesBackend(endpoint, chance=lambda: 0.5)
    yield backend
    await backend.aclose()


def turn(model: str = "m", *, stream: bool = True, **params: Any) -> TurnRequest:
    return build_turn(create_from(model="m", stream=stream, **{"input": "hi", **params}), model=model)


async def collect(backend: AnthropicMessagesBackend, turn_request: TurnRequest) -> list[Chunk]:
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


# Requests


@pytest.mark.parametrize("path", ["", "/", "/v1", "/v1/"])
@pytest.mark.parametrize("stream", [True, False])
async def test_an_answer(upstream: Upstream, path: str, stream: bool) -> None:
    async with backend_at(upstream.url + path) as backend:
        chunks = await collect(backend, turn(stream=stream))
    assert "".join(chunk.text for chunk in chunks if isinstance(chunk, TextDelta)) == "You said: hi"
    usage = chunks[-2]
    assert isinstance(usage, UsageReported)
    assert (usage.usage.input_tokens, usage.usage.output_tokens) == (13, 6)
    assert chunks[-1] == Finished("stop")
    headers = upstream.headers[-1]
    assert (headers["x-api-key"], headers["anthropic-version"]) == (KEY, "2023-06-01")
    assert headers["content-type"] == "application/json"
    assert not {"authorization", "anthropic-beta"} & headers.keys()


async def test_a_header_names_the_beta_features(upstream: Upstream) -> None:
    request = create_from(
        model="m",
        input=[
            {"role": "user", "content": "a"},
            {"role": "assistant", "content": "b"},
            {"role": "user", "content": "c"},
        ],
        stream=True,
    )
    origin = f"anthropic_messages@{upstream.url.removeprefix('http://')}"
    mine = opened_reasoning("hm", {"type": "thinking", "signature": "sig-of-hm", "length": 2}, origin=origin)
    first, *rest = request.items
    async with backend_at(upstream.url) as backend:
        await collect(backend, build_turn(request, [first, mine, *rest], model="claude-opus-5-5"))
    assert upstream.headers[-1]["anthropic-beta"] == "thinking-binding-controls-2026-08-01"
    assert upstream.requests[-1]["messages"][1]["content"][0]["thinking"] == "hm"


async def test_headers_of_the_configuration_win(upstream: Upstream) -> None:
    async with backend_at(
        upstream.url, headers={"Anthropic-Version": "2030-01-01", "x-more": "y"}
    ) as backend:
        await collect(backend, turn())
    assert upstream.headers[-1]["anthropic-version"] == "2030-01-01"
    assert upstream.headers[-1]["x-more"] == "y"


async def test_models_and_their_windows(upstream: Upstream) -> None:
    async with backend_at(upstream.url) as backend:
        first, second = await backend.models()
        assert (first.id, first.created, first.owned_by) == ("claude-opus-5", 1_769_904_000, "anthropic")
        assert (second.id, second.created) == ("claude-old", 0)
        assert await backend.context_window("claude-opus-5") == 1_000_000
        assert await backend.context_window("claude-old") is None


async def test_an_invalid_model_list() -> None:
    async with (
        raw_upstream(answering(complete_response(200, b'{"data":[{}]}'))) as raw,
        backend_at(raw.url) as backend,
    ):
        with pytest.raises(BackendBroken, match="Anthropic's format"):
            await backend.models()
        assert await backend.context_window("x") is None
    async with backend_at(raw.url) as backend:
        assert await backend.context_window("x") is None
        with pytest.raises(BackendUnreachable):
            await backend.models()


async def test_name_natives_and_features() -> None:
    async with backend_at("http://localhost:1") as backend:
        assert backend.name == "anthropic"
        assert backend.natives == FUNCTIONS
        assert backend.features("m").keys() == set(get_args(Feature))
        assert all(support.why for support in backend.features("m").values() if support.level != "native")


async def test_omitted_params_are_reported() -> None:
    async with backend_at("http://localhost:1") as backend:
        prepared = backend.prepare(
            turn("claude-opus-5", temperature=0.5, text={"format": {"type": "json_object"}})
        )
        assert len(prepared.downgrades) == 2
        assert prepared.unenforced == {"format"}


# Faults


async def test_refusals_reach_the_caller(upstream: Upstream) -> None:
    async with backend_at(upstream.url) as backend:
        for model, status, code in (("busy", 503, "upstream_error"), ("unknown", 404, "model_not_found")):
            with pytest.raises(BackendRefused) as caught:
                await collect(backend, turn(model))
            assert (caught.value.status, caught.value.code) == (status, code)


async def test_requests_to_an_overloaded_server_are_retried() -> None:
    refusing = answering(complete_response(529, OVERLOADED))
    assert (await run_turn(refusing, refusing, answering(GOOD)))[-1] == Finished("stop")
    error = await fail(refusing, retries=1)
    assert (error.status, error.retryable) == (503, True)


async def test_bad_credentials_are_not_tried_twice() -> None:
    body = json.dumps({"type": "error", "error": {"type": "authentication_error", "message": f"bad {KEY}"}})
    async with (
        raw_upstream(answering(complete_response(401, body.encode()))) as raw,
        backend_at(raw.url) as backend,
    ):
        with pytest.raises(BackendRefused, match="ANTHROPIC_API_KEY") as caught:
            await collect(backend, turn())
        assert len(raw.wires) == 1
    assert caught.value.code == "upstream_auth_error"
    assert "canary" not in caught.value.message


async def test_an_overload_at_the_start_of_a_stream_is_an_error_of_the_turn() -> None:
    event = b"event: error\ndata: %b\n\n" % OVERLOADED
    error = await fail(answering(SSE_HEAD + chunked(START + event) + chunked(b"")))
    assert (error.status, error.retryable) == (503, True)


async def test_an_overload_in_mid_stream_is_a_failure_of_the_answer() -> None:
    event = b"event: error\ndata: %b\n\n" % OVERLOADED
    chunks = await run_turn(answering(SSE_HEAD + chunked(START + TEXT_EVENT + event) + chunked(b"")))
    assert chunks[0] == TextDelta("word")
    assert isinstance(chunks[-1], Failed)
    assert chunks[-1].error.status == 503


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


@pytest.mark.parametrize(
    "body",
    [b"{}", b"nothing", b'{"choices":[{"message":{"content":"chat"}}]}', json.dumps([MESSAGE]).encode()],
)
async def test_an_invalid_message_body(body: bytes) -> None:
    assert isinstance(await fail(answering(complete_response(200, body)), stream=False), BackendBroken)


async def test_an_html_page_of_a_proxy_is_an_error() -> None:
    page = complete_response(200, b"<html>Log in</html>", media="text/html")
    assert "Log in" in (await fail(answering(page))).message


async def test_a_json_body_instead_of_a_stream_is_read() -> None:
    chunks = await run_turn(answering(complete_response(200, json.dumps(MESSAGE).encode())))
    assert chunks == [TextDelta("Hi"), Finished("stop")]


async def test_closing_the_turn_closes_the_connection(upstream: Upstream) -> None:
    async with backend_at(upstream.url) as backend:
        async with aclosing(backend.prepare(turn("hangs")).chunks()) as chunks:
            async for batch in chunks:
                if batch:
                    break
        await asyncio.to_thread(upstream.cut_off.wait, 5)
    assert upstream.cut_off.is_set()


@pytest.mark.parametrize(
    ("model", "feature", "level"),
    [
        ("claude-opus-5-5", "tool_choice_required", "emulated"),
        ("claude-opus-4-6", "tool_choice_required", "native"),
        ("another", "structured_output", "emulated"),
        ("claude-3-5-haiku", "reasoning", "unsupported"),
        ("claude-opus-4-6", "reasoning", "native"),
    ],
)
def test_features_depend_on_the_model(model: str, feature: Feature, level: str) -> None:
    assert message_features(Quirks(), traits_of(model))[feature].level == level
