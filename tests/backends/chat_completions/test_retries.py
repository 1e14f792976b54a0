"""Which requests are retried, when, and which are never retried."""

import asyncio

import pytest

from antiphon.errors import (
    BackendRefused,
    BackendUnreachable,
)
from antiphon.turn.chunks import HEARTBEAT, Finished, TextDelta
from tests.backends.chat_completions.client_support import (
    backend_for,
    collect,
    fail,
    failure_of,
    run_turn,
)
from tests.http.raw_upstream import (
    SSE_HEAD,
    TEXT_EVENT,
    Wire,
    answering,
    chunked,
    complete_response,
    good_stream,
    raw_upstream,
)


async def test_a_server_that_hangs_up_on_every_request_is_unreachable() -> None:
    async def drop(wire: Wire) -> None:
        wire.close()

    error = await fail(drop)
    assert isinstance(error, BackendUnreachable)
    assert error.retryable


async def test_a_busy_upstream_is_retried_after_its_retry_after_time() -> None:
    busy = answering(complete_response(429, b'{"error":{"message":"slow down"}}', "Retry-After: 0.05"))
    async with raw_upstream(busy, answering(good_stream("ok"))) as upstream, backend_for(upstream) as backend:
        before = asyncio.get_running_loop().time()
        assert await collect(backend) == [[TextDelta("ok"), Finished("stop")]]
        assert asyncio.get_running_loop().time() - before >= 0.05
        assert len(upstream.wires) == 2


async def test_a_pause_that_is_too_long_is_left_to_the_caller() -> None:
    busy = answering(complete_response(429, b'{"error":{"message":"slow down"}}', "Retry-After: 60"))
    async with raw_upstream(busy) as upstream, backend_for(upstream) as backend:
        with pytest.raises(BackendRefused) as caught:
            await collect(backend)
        assert (caught.value.status, caught.value.retry_after, len(upstream.wires)) == (429, 60.0, 1)


@pytest.mark.parametrize("stream", [True, False])
async def test_failures_before_the_answer_are_tried_again(stream: bool) -> None:
    async def drop(wire: Wire) -> None:
        wire.close()

    sick = answering(complete_response(500, b"oops"))
    assert await run_turn(sick, drop, answering(good_stream("ok")), stream=stream) == [
        TextDelta("ok"),
        Finished("stop"),
    ]


async def test_retries_do_not_emit_heartbeats() -> None:
    sick = answering(complete_response(503, b"{}"))
    async with (
        raw_upstream(sick, sick, answering(good_stream("ok"))) as upstream,
        backend_for(upstream) as backend,
    ):
        assert await collect(backend) == [[TextDelta("ok"), Finished("stop")]]


async def test_a_long_pause_has_heartbeats() -> None:
    busy = answering(complete_response(503, b"{}", "Retry-After: 0.2"))
    async with (
        raw_upstream(busy, answering(good_stream("ok"))) as upstream,
        backend_for(upstream, heartbeat=0.05) as backend,
    ):
        batches = await collect(backend)
        assert batches[:3] == [HEARTBEAT] * 3
        assert batches[-1] == [TextDelta("ok"), Finished("stop")]


async def test_retries_come_to_an_end() -> None:
    async with (
        raw_upstream(answering(complete_response(500, b"oops"))) as upstream,
        backend_for(upstream) as backend,
    ):
        with pytest.raises(BackendRefused, match="oops"):
            await collect(backend)
        assert len(upstream.wires) == 3


@pytest.mark.parametrize("status", [400, 401, 404, 422, 501])
async def test_permanent_errors_are_not_retried(status: int) -> None:
    async with (
        raw_upstream(answering(complete_response(status, b"{}"))) as upstream,
        backend_for(upstream) as backend,
    ):
        with pytest.raises(BackendRefused):
            await collect(backend)
        assert len(upstream.wires) == 1


async def test_no_retry_after_the_first_delta() -> None:
    error = b'data: {"error":{"message":"overloaded","code":503}}\n\n'
    script = answering(SSE_HEAD + chunked(TEXT_EVENT), chunked(error))
    async with raw_upstream(script) as upstream, backend_for(upstream) as backend:
        found = [chunk for batch in await collect(backend) for chunk in batch]
        assert isinstance(failure_of(found), BackendRefused)
        assert len(upstream.wires) == 1


async def test_an_error_as_the_first_event_is_raised() -> None:
    usage = b'data: {"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":0}}\n\n'
    error = b'data: {"error":{"message":"overloaded","code":503}}\n\n'
    assert (await fail(answering(SSE_HEAD + chunked(usage + error)))).status == 503


async def test_a_closed_idle_connection_does_not_count_as_an_attempt() -> None:
    async def drop(wire: Wire) -> None:
        wire.close()

    good = answering(good_stream("ok"))
    async with raw_upstream(good, drop, good) as upstream, backend_for(upstream, retries=0) as backend:
        for _ in range(2):
            assert await collect(backend) == [[TextDelta("ok"), Finished("stop")]]
        assert (len(upstream.wires), upstream.connections) == (3, 2)


async def test_a_new_connection_that_is_dropped_is_a_try() -> None:
    async def drop(wire: Wire) -> None:
        wire.close()

    async with raw_upstream(drop) as upstream, backend_for(upstream, retries=0) as backend:
        with pytest.raises(BackendUnreachable):
            await collect(backend)
        assert len(upstream.wires) == 1
