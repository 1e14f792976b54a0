"""What is sent again, when, and what never is."""

import asyncio

import pytest

from antiphon.errors import (
    BackendRefused,
    BackendUnreachable,
)
from antiphon.turn.chunks import HEARTBEAT, Finished, TextDelta
from tests.backends.chat_completions.playing import (
    backend_for,
    collect,
    fail,
    failure_of,
    play,
)
from tests.http.raw_upstream import (
    SSE_HEAD,
    WORD,
    Wire,
    answering,
    chunked,
    good_stream,
    raw_upstream,
    whole,
)


async def test_a_server_that_hangs_up_on_every_request_is_unreachable() -> None:
    async def drop(wire: Wire) -> None:
        wire.close()

    error = await fail(drop)
    assert isinstance(error, BackendUnreachable)
    assert error.retryable


async def test_a_busy_upstream_is_asked_again_after_the_time_it_wants() -> None:
    busy = answering(whole(429, b'{"error":{"message":"slow down"}}', "Retry-After: 0.05"))
    async with raw_upstream(busy, answering(good_stream("ok"))) as upstream, backend_for(upstream) as backend:
        before = asyncio.get_running_loop().time()
        assert await collect(backend) == [[TextDelta("ok"), Finished("stop")]]
        assert asyncio.get_running_loop().time() - before >= 0.05
        assert len(upstream.wires) == 2


async def test_a_pause_that_is_too_long_is_left_to_the_caller() -> None:
    busy = answering(whole(429, b'{"error":{"message":"slow down"}}', "Retry-After: 60"))
    async with raw_upstream(busy) as upstream, backend_for(upstream) as backend:
        with pytest.raises(BackendRefused) as caught:
            await collect(backend)
        assert (caught.value.status, caught.value.retry_after, len(upstream.wires)) == (429, 60.0, 1)


@pytest.mark.parametrize("stream", [True, False])
async def test_failures_before_the_answer_are_tried_again(stream: bool) -> None:
    async def drop(wire: Wire) -> None:
        wire.close()

    sick = answering(whole(500, b"oops"))
    assert await play(sick, drop, answering(good_stream("ok")), stream=stream) == [
        TextDelta("ok"),
        Finished("stop"),
    ]


async def test_retries_are_not_told_as_heartbeats() -> None:
    sick = answering(whole(503, b"{}"))
    async with (
        raw_upstream(sick, sick, answering(good_stream("ok"))) as upstream,
        backend_for(upstream) as backend,
    ):
        assert await collect(backend) == [[TextDelta("ok"), Finished("stop")]]


async def test_a_long_pause_has_heartbeats() -> None:
    busy = answering(whole(503, b"{}", "Retry-After: 0.2"))
    async with (
        raw_upstream(busy, answering(good_stream("ok"))) as upstream,
        backend_for(upstream, heartbeat=0.05) as backend,
    ):
        batches = await collect(backend)
        assert batches[:3] == [HEARTBEAT] * 3
        assert batches[-1] == [TextDelta("ok"), Finished("stop")]


async def test_retries_come_to_an_end() -> None:
    async with raw_upstream(answering(whole(500, b"oops"))) as upstream, backend_for(upstream) as backend:
        with pytest.raises(BackendRefused, match="oops"):
            await collect(backend)
        assert len(upstream.wires) == 3


@pytest.mark.parametrize("status", [400, 401, 404, 422, 501])
async def test_what_will_not_get_better_is_not_tried_again(status: int) -> None:
    async with raw_upstream(answering(whole(status, b"{}"))) as upstream, backend_for(upstream) as backend:
        with pytest.raises(BackendRefused):
            await collect(backend)
        assert len(upstream.wires) == 1


async def test_nothing_is_sent_again_after_the_first_word() -> None:
    error = b'data: {"error":{"message":"overloaded","code":503}}\n\n'
    script = answering(SSE_HEAD + chunked(WORD), chunked(error))
    async with raw_upstream(script) as upstream, backend_for(upstream) as backend:
        found = [chunk for batch in await collect(backend) for chunk in batch]
        assert isinstance(failure_of(found), BackendRefused)
        assert len(upstream.wires) == 1


async def test_an_error_as_the_first_event_is_raised() -> None:
    usage = b'data: {"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":0}}\n\n'
    error = b'data: {"error":{"message":"overloaded","code":503}}\n\n'
    assert (await fail(answering(SSE_HEAD + chunked(usage + error)))).status == 503


async def test_an_idle_connection_that_was_just_closed_costs_no_try() -> None:
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
