"""Every way in which an upstream can fail, on a real socket."""

import asyncio
import contextlib
import json
import socket
import tracemalloc
from typing import Any

import pytest

from antiphon.errors import (
    BackendBroken,
    BackendRefused,
    BackendTimeout,
    BackendUnreachable,
)
from antiphon.http.target import Deadlines
from antiphon.turn.chunks import Chunk, Finished, TextDelta
from tests.backends.chat_completions.client_support import (
    COMPLETION,
    backend_for,
    collect,
    fail,
    failure_of,
    hang,
    run_turn,
    turn,
)
from tests.http.raw_upstream import (
    CLOSING_HEAD,
    DONE,
    SSE_HEAD,
    STOP,
    TEXT_EVENT,
    RawUpstream,
    Wire,
    answering,
    chunked,
    complete_response,
    good_stream,
    raw_upstream,
)


async def test_a_refused_connection() -> None:
    async with raw_upstream(hang) as upstream:
        pass
    async with backend_for(upstream) as backend:
        with pytest.raises(BackendUnreachable, match="cannot be reached"):
            await collect(backend)


async def test_an_unknown_host_is_reported() -> None:
    async with backend_for(RawUpstream("http://no-such-host.invalid/v1"), retries=0) as backend:
        with pytest.raises(BackendUnreachable):
            await collect(backend)


async def test_connecting_times_out() -> None:
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        address = full.getsockname()
        with socket.create_connection(address), contextlib.ExitStack() as stack:
            filler = stack.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(address)
            upstream = RawUpstream(f"http://{address[0]}:{address[1]}/v1")
            async with backend_for(upstream, retries=1, deadlines=Deadlines(connect=0.1)) as backend:
                with pytest.raises(BackendTimeout, match="No connection") as caught:
                    await collect(backend)
                assert caught.value.retryable


async def test_a_truncated_error_body_is_reported_as_far_as_received() -> None:
    async def half(wire: Wire) -> None:
        await wire.send(complete_response(500, b"x" * 100)[:-50])
        wire.close()

    error = await fail(half)
    assert isinstance(error, BackendRefused)
    assert "xxx" in error.message


async def test_silence_before_the_head_ends_at_the_deadline() -> None:
    for stream in (True, False):
        error = await fail(hang, stream=stream)
        assert isinstance(error, BackendTimeout)
        assert error.code == "upstream_timeout"


async def test_silence_after_the_head_ends_at_the_deadline() -> None:
    async def head_only(wire: Wire) -> None:
        await wire.send(SSE_HEAD)
        await hang(wire)

    assert isinstance(await fail(head_only), BackendTimeout)


async def test_comments_are_no_sign_of_life() -> None:
    async def drip(wire: Wire) -> None:
        await wire.send(SSE_HEAD)
        while True:
            await wire.send(chunked(b": ping\n\n"))
            await asyncio.sleep(0.01)

    assert "did not begin" in (await fail(drip)).message


async def test_silence_between_events_is_a_failure() -> None:
    async def stall(wire: Wire) -> None:
        await wire.send(SSE_HEAD + chunked(TEXT_EVENT))
        while True:
            await wire.send(chunked(b": ping\n\n"))
            await asyncio.sleep(0.01)

    found = await run_turn(stall, deadlines=Deadlines(between=0.1, first_byte=5.0))
    assert found[0] == TextDelta("word")
    assert isinstance(failure_of(found), BackendTimeout)


async def test_the_timeout_between_events_does_not_apply_to_the_first_byte() -> None:
    async def slow(wire: Wire) -> None:
        await wire.send(SSE_HEAD)
        await asyncio.sleep(0.15)
        await wire.send(chunked(TEXT_EVENT + STOP + DONE) + chunked(b""))

    found = await run_turn(slow, deadlines=Deadlines(first_byte=1.0, between=0.05))
    assert found == [TextDelta("word"), Finished("stop")]


async def test_an_answer_may_not_take_for_ever() -> None:
    async def chatter(wire: Wire) -> None:
        await wire.send(SSE_HEAD)
        while True:
            await wire.send(chunked(TEXT_EVENT))
            await asyncio.sleep(0.01)

    found = await run_turn(chatter, deadlines=Deadlines(total=0.15))
    assert "longer than 0.15 s" in failure_of(found).message


async def test_empty_lines_in_a_body_do_not_reset_the_timeout() -> None:
    async def drip(wire: Wire) -> None:
        await wire.send(SSE_HEAD.replace(b"text/event-stream", b"application/json"))
        while True:
            await wire.send(chunked(b"\n"))
            await asyncio.sleep(0.01)

    assert isinstance(await fail(drip, stream=False), BackendTimeout)


async def test_a_slow_consumer_does_not_cause_a_timeout() -> None:
    async def two(wire: Wire) -> None:
        await wire.send(SSE_HEAD + chunked(TEXT_EVENT))
        await asyncio.sleep(0.2)
        await wire.send(chunked(TEXT_EVENT + STOP + DONE) + chunked(b""))

    limits = Deadlines(first_byte=0.1, between=0.1)
    async with raw_upstream(two) as upstream, backend_for(upstream, deadlines=limits) as backend:
        found: list[Chunk] = []
        async for batch in backend.prepare(turn()).chunks():
            found += batch
            await asyncio.sleep(0.15)
        assert found == [TextDelta("word"), TextDelta("word"), Finished("stop")]


@pytest.mark.parametrize("end", ["close", "abort"])
async def test_a_truncated_stream_fails_the_turn_whatever_was_emitted(end: str) -> None:
    async def cut(wire: Wire) -> None:
        await wire.send(SSE_HEAD + chunked(TEXT_EVENT))
        await asyncio.sleep(0.02)
        await wire.send(b"ff\r\ndata: {")
        await asyncio.sleep(0.02)
        getattr(wire, end)()

    found = await run_turn(cut)
    assert found[0] == TextDelta("word")
    assert isinstance(failure_of(found), BackendBroken)


async def test_chunks_just_before_a_disconnect_are_emitted() -> None:
    async def cut(wire: Wire) -> None:
        await wire.send(SSE_HEAD + chunked(TEXT_EVENT))
        wire.close()

    found = await run_turn(cut)
    assert found[0] == TextDelta("word")
    assert isinstance(failure_of(found), BackendBroken)


async def test_a_truncated_close_delimited_body_is_a_failure_too() -> None:
    async def cut(wire: Wire) -> None:
        await wire.send(CLOSING_HEAD + TEXT_EVENT)
        wire.close()

    assert isinstance(failure_of(await run_turn(cut)), BackendBroken)


async def test_a_disconnect_before_the_first_delta_is_an_error() -> None:
    async def cut(wire: Wire) -> None:
        await wire.send(CLOSING_HEAD + b": hello\n\n")
        wire.close()

    assert isinstance(await fail(cut), BackendBroken)


async def test_a_complete_answer_does_not_wait_for_the_end_of_the_body(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def forgets(wire: Wire) -> None:
        await wire.send(SSE_HEAD + chunked(TEXT_EVENT + STOP))
        await hang(wire)

    monkeypatch.setattr("antiphon.backends.streamed_turn.END_TIMEOUT_SECONDS", 0.05)
    found = await asyncio.wait_for(run_turn(forgets, deadlines=Deadlines()), 1)
    assert found == [TextDelta("word"), Finished("stop")]


async def test_half_a_body_is_an_error() -> None:
    async def half(wire: Wire) -> None:
        await wire.send(complete_response(200, json.dumps(COMPLETION).encode())[:-5])
        wire.close()

    assert isinstance(await fail(half, stream=False), BackendBroken)
    assert isinstance(
        await fail(answering(complete_response(200, b'{"choices":[')), stream=False), BackendBroken
    )


@pytest.mark.parametrize("stream", [True, False])
async def test_a_page_instead_of_an_answer_is_shown_briefly(stream: bool) -> None:
    page = b"<html><title>Login</title>sk-canary-0123456789 " + b"x " * 5000
    error = await fail(answering(complete_response(200, page, media="text/html")), stream=stream)
    assert isinstance(error, BackendBroken)
    assert "Login [redacted] x x" in error.message
    assert len(error.message) < 300


async def test_garbage_in_a_stream_is_a_failure_and_the_next_turn_is_unharmed() -> None:
    garbage = answering(SSE_HEAD + chunked(TEXT_EVENT + b"data: {nonsense}\n\n"))
    async with (
        raw_upstream(garbage, answering(good_stream("ok"))) as upstream,
        backend_for(upstream) as backend,
    ):
        first = [chunk for batch in await collect(backend) for chunk in batch]
        assert isinstance(failure_of(first), BackendBroken)
        assert await collect(backend) == [[TextDelta("ok"), Finished("stop")]]


async def test_something_that_is_not_http_is_an_error() -> None:
    async def telnet(wire: Wire) -> None:
        await wire.send(b"Welcome to the machine\r\n\r\n")

    assert isinstance(await fail(telnet), BackendBroken)


async def test_a_compressed_answer_is_rejected() -> None:
    answer = complete_response(200, b"\x1f\x8b" + b"0" * 50, "Content-Encoding: gzip")
    assert "compressed" in (await fail(answering(answer))).message


async def test_a_redirect_is_not_followed() -> None:
    async with raw_upstream(
        answering(complete_response(307, b"", "Location: http://127.0.0.1:1/elsewhere")),
        answering(good_stream("no")),
    ) as upstream:
        async with backend_for(upstream) as backend:
            with pytest.raises(BackendBroken, match="not followed"):
                await collect(backend)
        assert len(upstream.wires) == 1


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param([CLOSING_HEAD, b"data: ", *[b"x" * 65536] * 1024], id="line"),
        pytest.param([CLOSING_HEAD, *[b"data: x\n" * 8192] * 1024], id="event"),
        pytest.param(
            [CLOSING_HEAD.replace(b"text/event-stream", b"application/json"), *[b" " * 65536] * 1024],
            id="body",
        ),
        pytest.param([b"HTTP/1.1 200 OK\r\n", *[b"x-h: " + b"y" * 65536] * 1024], id="header"),
        pytest.param([b"HTTP/1.1 200 OK\r\n", *[b"x-h: y\r\n" * 8192] * 1024], id="headers"),
        pytest.param([b"HTTP/1.1 500 X\r\nConnection: close\r\n\r\n", *[b"z" * 65536] * 1024], id="error"),
    ],
)
async def test_an_endless_answer_does_not_fill_the_memory(answer: list[bytes]) -> None:
    async def flood(wire: Wire) -> None:
        for piece in answer:
            await wire.send(piece)

    tracemalloc.start()
    try:
        limits: dict[str, Any] = {"max_event_bytes": 1 << 20, "max_body_bytes": 1 << 20, "retries": 0}
        await fail(flood, deadlines=Deadlines(), **limits)
        assert tracemalloc.get_traced_memory()[1] < 12 << 20
    finally:
        tracemalloc.stop()
