"""The backend on a real socket: what it sends, and every way in which an upstream can fail it."""

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
from tests.backends.anthropic_messages.building import thought
from tests.backends.anthropic_messages.upstream import Upstream, run_upstream
from tests.http.raw_upstream import SSE_HEAD, Script, Wire, answering, chunked, raw_upstream, whole

KEY = "sk-ant-canary-0123456789"
LIMITS: dict[str, Any] = {
    "deadlines": Deadlines(connect=0.3, first_byte=0.3, between=0.3, answer=0.3, total=2.0),
    "backoff": 0.001,
    "heartbeat": 5.0,
    "api_key": KEY,
}
MESSAGE = {"type": "message", "content": [{"type": "text", "text": "Hi"}], "stop_reason": "end_turn"}
START = b'event: message_start\ndata: {"type":"message_start","message":{"usage":{"input_tokens":1}}}\n\n'
WORD = (
    b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,'
    b'"delta":{"type":"text_delta","text":"word"}}\n\n'
)
STOP = b'event: message_stop\ndata: {"type":"message_stop"}\n\n'
GOOD = SSE_HEAD + chunked(START + WORD + STOP) + chunked(b"")
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


async def collect(backend: AnthropicMessagesBackend, asked: TurnRequest) -> list[Chunk]:
    return [chunk async for batch in backend.prepare(asked).chunks() for chunk in batch]


async def play(*scripts: Script, stream: bool = True, **changes: Any) -> list[Chunk]:
    async with raw_upstream(*scripts) as raw, backend_at(raw.url, **changes) as backend:
        return await collect(backend, turn(stream=stream))


async def fail(*scripts: Script, stream: bool = True, **changes: Any) -> BackendError:
    """The error with which a turn fails before it said anything."""
    with pytest.raises(BackendError) as caught:
        await play(*scripts, stream=stream, **changes)
    assert "canary" not in caught.value.message
    return caught.value


# What is sent


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


async def test_a_header_names_what_is_used_ahead_of_its_time(upstream: Upstream) -> None:
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
    mine = thought("hm", {"type": "thinking", "signature": "sig-of-hm", "length": 2}, origin=origin)
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


async def test_a_list_of_models_that_is_none() -> None:
    async with raw_upstream(answering(whole(200, b'{"data":[{}]}'))) as raw, backend_at(raw.url) as backend:
        with pytest.raises(BackendBroken, match="Anthropic's format"):
            await backend.models()
        assert await backend.context_window("x") is None
    async with backend_at(raw.url) as backend:
        assert await backend.context_window("x") is None
        with pytest.raises(BackendUnreachable):
            await backend.models()


async def test_what_it_says_of_itself() -> None:
    async with backend_at("http://localhost:1") as backend:
        assert backend.name == "anthropic"
        assert backend.natives == FUNCTIONS
        assert backend.features("m").keys() == set(get_args(Feature))
        assert all(support.why for support in backend.features("m").values() if support.level != "native")


async def test_what_was_left_out_is_told() -> None:
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


async def test_an_overloaded_server_is_asked_again() -> None:
    refusing = answering(whole(529, OVERLOADED))
    assert (await play(refusing, refusing, answering(GOOD)))[-1] == Finished("stop")
    error = await fail(refusing, retries=1)
    assert (error.status, error.retryable) == (503, True)


async def test_bad_credentials_are_not_tried_twice() -> None:
    body = json.dumps({"type": "error", "error": {"type": "authentication_error", "message": f"bad {KEY}"}})
    async with raw_upstream(answering(whole(401, body.encode()))) as raw, backend_at(raw.url) as backend:
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
    chunks = await play(answering(SSE_HEAD + chunked(START + WORD + event) + chunked(b"")))
    assert chunks[0] == TextDelta("word")
    assert isinstance(chunks[-1], Failed)
    assert chunks[-1].error.status == 503


async def test_a_stream_that_breaks_off_has_failed() -> None:
    async def cut(wire: Wire) -> None:
        await wire.send(SSE_HEAD + chunked(START + WORD))
        wire.close()

    for script in (cut, answering(SSE_HEAD + chunked(START + WORD) + chunked(b""))):
        chunks = await play(script)
        assert chunks[0] == TextDelta("word")
        assert isinstance(chunks[-1], Failed)
        assert isinstance(chunks[-1].error, BackendBroken)


async def test_silence_ends_at_the_deadline() -> None:
    async def silent(wire: Wire) -> None:
        await wire.send(SSE_HEAD + chunked(START + WORD))
        await wire.until_cut_off()

    async def mute(wire: Wire) -> None:
        await wire.until_cut_off()

    chunks = await play(silent)
    assert isinstance(chunks[-1], Failed)
    assert isinstance(chunks[-1].error, BackendTimeout)
    for stream in (True, False):
        assert isinstance(await fail(mute, stream=stream, retries=0), BackendTimeout)


async def test_a_complete_answer_needs_no_end_of_the_connection() -> None:
    async def linger(wire: Wire) -> None:
        await wire.send(SSE_HEAD + chunked(START + WORD + STOP))
        await wire.until_cut_off()

    assert (await play(linger))[-1] == Finished("stop")


@pytest.mark.parametrize(
    "body",
    [b"{}", b"nothing", b'{"choices":[{"message":{"content":"chat"}}]}', json.dumps([MESSAGE]).encode()],
)
async def test_a_body_that_is_no_message(body: bytes) -> None:
    assert isinstance(await fail(answering(whole(200, body)), stream=False), BackendBroken)


async def test_a_page_of_a_proxy_is_no_answer() -> None:
    page = whole(200, b"<html>Log in</html>", media="text/html")
    assert "Log in" in (await fail(answering(page))).message


async def test_a_body_where_a_stream_was_asked_for_is_read_all_the_same() -> None:
    chunks = await play(answering(whole(200, json.dumps(MESSAGE).encode())))
    assert chunks == [TextDelta("Hi"), Finished("stop")]


async def test_leaving_cuts_the_upstream_off(upstream: Upstream) -> None:
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
def test_features_are_those_of_the_model(model: str, feature: Feature, level: str) -> None:
    assert message_features(Quirks(), traits_of(model))[feature].level == level
