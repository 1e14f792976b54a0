"""The client on a real socket: valid answers, heartbeats, and reuse of connections."""

import asyncio
import json
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import replace

import pytest

from antiphon.backends.chat_completions.client import ChatCompletionsBackend
from antiphon.backends.registry import default_endpoint
from antiphon.errors import (
    BackendError,
    SettingsError,
)
from antiphon.turn.chunks import HEARTBEAT, Chunk, Finished, TextDelta, UsageReported
from tests.backends.chat_completions.client_support import (
    COMPLETION,
    backend_for,
    collect,
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
    Wire,
    answering,
    chunked,
    complete_response,
    event,
    good_stream,
    raw_upstream,
)


async def test_a_stream_is_read_to_its_end() -> None:
    assert await run_turn(answering(good_stream("Hel", "lo\u2028"))) == [
        TextDelta("Hel"),
        TextDelta("lo\u2028"),
        Finished("stop"),
    ]


async def test_events_of_one_read_are_one_batch() -> None:
    async with raw_upstream(answering(good_stream("a", "b"))) as upstream, backend_for(upstream) as backend:
        assert await collect(backend) == [[TextDelta("a"), TextDelta("b"), Finished("stop")]]


async def test_without_streaming_one_body_is_requested() -> None:
    async with (
        raw_upstream(answering(complete_response(200, json.dumps(COMPLETION).encode()))) as upstream,
        backend_for(upstream) as backend,
    ):
        assert await collect(backend, stream=False) == [[TextDelta("Hi"), Finished("stop")]]
        assert "stream" not in json.loads(upstream.wires[0].body)


async def test_the_content_type_decides_how_the_answer_is_read() -> None:
    body = answering(
        complete_response(200, json.dumps(COMPLETION).encode(), media="application/json; charset=utf-8")
    )
    assert await run_turn(body, stream=True) == [TextDelta("Hi"), Finished("stop")]
    assert await run_turn(answering(good_stream("Hi")), stream=False) == [TextDelta("Hi"), Finished("stop")]


async def test_the_request_carries_our_key_and_no_client_headers() -> None:
    async with (
        raw_upstream(answering(good_stream("a"))) as upstream,
        backend_for(upstream, headers={"x-team": "blue"}) as backend,
    ):
        await collect(backend)
        wire = upstream.wires[0]
        head, *lines = wire.head.strip().split("\r\n")
        assert head == "POST /v1/chat/completions HTTP/1.1"
        headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
        assert headers.pop("content-length") == str(len(wire.body))
        assert headers.pop("host") in upstream.url
        assert headers == {
            "authorization": "Bearer sk-canary-0123456789",
            "content-type": "application/json",
            "accept": "application/json, text/event-stream",
            "accept-encoding": "identity",
            "user-agent": "antiphon",
            "x-team": "blue",
        }


async def test_a_large_body_with_images_is_sent_completely() -> None:
    text = "x" * 3_000_000
    async with raw_upstream(answering(good_stream("a"))) as upstream, backend_for(upstream) as backend:
        [_ async for _ in backend.prepare(turn(text=text)).chunks()]
        assert json.loads(upstream.wires[0].body)["messages"][0]["content"] == text


async def test_a_connection_is_reused_after_a_complete_answer() -> None:
    async with raw_upstream(answering(good_stream("a"))) as upstream, backend_for(upstream) as backend:
        for _ in range(3):
            await collect(backend)
        assert (upstream.connections, len(upstream.wires)) == (1, 3)


async def test_a_connection_is_used_again_even_if_its_last_bytes_come_late() -> None:
    late = answering(SSE_HEAD + chunked(TEXT_EVENT + STOP + DONE), chunked(b""))
    async with raw_upstream(late) as upstream, backend_for(upstream) as backend:
        await collect(backend)
        await asyncio.sleep(0.02)
        await collect(backend)
        assert upstream.connections == 1


async def test_closing_the_turn_cuts_the_upstream_off_at_once() -> None:
    async def endless(wire: Wire) -> None:
        await wire.send(SSE_HEAD + chunked(TEXT_EVENT))
        await wire.until_cut_off()

    async with raw_upstream(endless) as upstream, backend_for(upstream) as backend:
        async with aclosing(backend.prepare(turn()).chunks()) as batches:
            assert await anext(batches) == [TextDelta("word")]
        await asyncio.wait_for(upstream.cut_off.wait(), 0.2)


async def test_cancelling_the_task_cuts_the_upstream_off_at_once() -> None:
    async with raw_upstream(hang) as upstream, backend_for(upstream) as backend:
        task = asyncio.create_task(collect(backend))
        await asyncio.wait_for(upstream.request_received.wait(), 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.wait_for(upstream.cut_off.wait(), 0.2)


async def test_cancelling_the_task_in_mid_stream_is_not_mistaken_for_a_heartbeat() -> None:
    async def endless(wire: Wire) -> None:
        await wire.send(SSE_HEAD + chunked(TEXT_EVENT))
        await wire.until_cut_off()

    async with raw_upstream(endless) as upstream, backend_for(upstream, heartbeat=0.02) as backend:
        received: list[Sequence[Chunk]] = []
        enough = asyncio.Event()

        async def listen() -> None:
            async with aclosing(backend.prepare(turn()).chunks()) as batches:
                async for batch in batches:
                    if (
                        batch is not HEARTBEAT or received
                    ):  # a loaded machine may be late with the first delta
                        received.append(batch)
                    if len(received) == 3:
                        enough.set()

        task = asyncio.create_task(listen())
        await asyncio.wait_for(enough.wait(), 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert received[:3] == [[TextDelta("word")], HEARTBEAT, HEARTBEAT]


async def test_configured_headers_replace_ours() -> None:
    async with (
        raw_upstream(answering(good_stream("a"))) as upstream,
        backend_for(upstream, headers={"authorization": "Basic abc"}) as backend,
    ):
        await collect(backend)
        head = upstream.wires[0].head.lower()
        assert head.count("authorization") == 1
        assert "basic abc" in head


async def test_an_endpoint_without_a_key_sends_no_authorization() -> None:
    async with (
        raw_upstream(answering(good_stream("a"))) as upstream,
        backend_for(upstream, api_key="") as backend,
    ):
        await collect(backend)
        assert "authorization" not in upstream.wires[0].head.lower()


@pytest.mark.parametrize(
    "address",
    [
        "http://host:port/v1",
        "http:///v1",
        "http://me:secret@host/v1",
        "http://host/v1?key=1",
        "http://host/a b",
    ],
)
async def test_an_invalid_address_is_rejected_at_startup(address: str) -> None:
    with pytest.raises(SettingsError, match="base_url"):
        ChatCompletionsBackend(default_endpoint("plain", address))


async def test_a_header_that_cannot_be_sent_is_rejected_at_startup() -> None:
    endpoint = replace(default_endpoint("plain", "http://localhost/v1"), headers={"x": "\u20ac"})
    with pytest.raises(SettingsError, match="header"):
        ChatCompletionsBackend(endpoint)


async def test_a_queue_may_send_empty_lines_before_the_body() -> None:
    head = SSE_HEAD.replace(b"text/event-stream", b"application/json")
    body = json.dumps(COMPLETION).encode()
    script = answering(head, chunked(b"\n"), chunked(b"\n"), chunked(body), chunked(b""))
    assert await run_turn(script, stream=False) == [TextDelta("Hi"), Finished("stop")]


async def test_heartbeats_come_while_the_upstream_thinks() -> None:
    async def slow(wire: Wire) -> None:
        await asyncio.sleep(0.07)
        await wire.send(SSE_HEAD)
        for _ in range(7):
            await wire.send(chunked(b": ping\n\n" + event({"content": ""})))
            await asyncio.sleep(0.01)
        await wire.send(chunked(TEXT_EVENT + STOP + DONE) + chunked(b""))

    async with raw_upstream(slow) as upstream, backend_for(upstream, heartbeat=0.03) as backend:
        batches = await collect(backend)
        assert batches[-1] == [TextDelta("word"), Finished("stop")]
        assert batches.count(HEARTBEAT) >= 3
        assert len(upstream.wires) == 1


async def test_no_heartbeat_is_sent_while_events_arrive() -> None:
    async def talk(wire: Wire) -> None:
        await wire.send(SSE_HEAD)
        for _ in range(20):
            await wire.send(chunked(TEXT_EVENT))
            await asyncio.sleep(0.02)
        await wire.send(chunked(STOP + DONE) + chunked(b""))

    async with raw_upstream(talk) as upstream, backend_for(upstream, heartbeat=0.2) as backend:
        assert HEARTBEAT not in await collect(backend)


async def test_heartbeats_come_while_a_body_is_written() -> None:
    async def slow(wire: Wire) -> None:
        answer = complete_response(200, json.dumps(COMPLETION).encode())
        await wire.send(answer[:-10])
        await asyncio.sleep(0.1)
        await wire.send(answer[-10:])

    async with raw_upstream(slow) as upstream, backend_for(upstream, heartbeat=0.03) as backend:
        batches = await collect(backend, stream=False)
        assert batches[0] == HEARTBEAT
        assert batches[-1] == [TextDelta("Hi"), Finished("stop")]


async def test_a_stream_may_end_by_closing() -> None:
    async def closing(wire: Wire) -> None:
        await wire.send(CLOSING_HEAD + TEXT_EVENT + STOP.rstrip())
        wire.close()

    assert await run_turn(closing) == [TextDelta("word"), Finished("stop")]


async def test_models_are_listed() -> None:
    body = b'{"object":"list","data":[{"id":"a","created":5,"owned_by":"me"},{"id":"b"}]}'
    async with (
        raw_upstream(answering(complete_response(200, body))) as upstream,
        backend_for(upstream) as backend,
    ):
        found = await backend.models()
        assert [(model.id, model.created, model.owned_by) for model in found] == [
            ("a", 5, "me"),
            ("b", 0, "plain"),
        ]
        assert upstream.wires[0].head.startswith("GET /v1/models HTTP/1.1")


async def test_models_may_take_a_while() -> None:
    async def slow(wire: Wire) -> None:
        answer = complete_response(200, b'{"data":[{"id":"a"}]}')
        for piece in (answer[:40], answer[40:-5], answer[-5:]):
            await asyncio.sleep(0.05)
            await wire.send(piece)

    async with raw_upstream(slow) as upstream, backend_for(upstream, heartbeat=0.02) as backend:
        assert [model.id for model in await backend.models()] == ["a"]


@pytest.mark.parametrize(
    "answer",
    [
        complete_response(200, b"[]"),
        complete_response(500, b"x"),
        complete_response(200, b"x", media="text/html"),
    ],
)
async def test_an_invalid_model_list_is_an_error(answer: bytes) -> None:
    async with raw_upstream(answering(answer)) as upstream, backend_for(upstream) as backend:
        with pytest.raises(BackendError):
            await backend.models()
        await backend.aclose()


async def test_usage_is_emitted_before_the_end() -> None:
    usage = b'data: {"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1}}\n\n'
    found = await run_turn(
        answering(SSE_HEAD + chunked(TEXT_EVENT + STOP), chunked(usage + DONE) + chunked(b""))
    )
    assert [type(chunk) for chunk in found] == [TextDelta, UsageReported, Finished]
