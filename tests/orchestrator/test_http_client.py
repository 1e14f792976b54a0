"""Calling a foreign Responses server over HTTP, with arbitrary behaviour.

The contract of all clients is in `test_clients_contract`.
"""

import asyncio
import json
import logging
from contextlib import aclosing
from typing import Any

import pytest

from antiphon.errors import ResponsesCallFailed, SettingsError
from antiphon.http.target import Deadlines
from antiphon.orchestrator.client import ResponsesClient
from antiphon.orchestrator.http_client import NO_STREAM, HttpResponsesClient
from tests.http.raw_upstream import (
    DONE,
    SSE_HEAD,
    RawUpstream,
    Script,
    Wire,
    answering,
    chunked,
    complete_response,
    raw_upstream,
)

KEY = "key-of-the-operator"
REQUEST: dict[str, Any] = {"model": "m", "input": "hi"}
RESPONSE: dict[str, Any] = {
    "id": "resp_1",
    "object": "response",
    "status": "completed",
    "output": [],
    "new": "ü",
}
CREATED = {"type": "response.created", "response": {**RESPONSE, "status": "in_progress"}}
COMPLETED = {"type": "response.completed", "response": RESPONSE}
TOOLS = [{"type": "function", "name": "look", "parameters": {"type": "object"}}]


def sse(*events: Any) -> bytes:
    """These events as a server-sent stream."""
    return b"".join(b"data: %b\n\n" % json.dumps(event).encode() for event in events)


def streaming(*pieces: bytes) -> Script:
    return answering(SSE_HEAD, *(chunked(piece) for piece in pieces), chunked(b""))


def responding(body: object = RESPONSE, status: int = 200, *headers: str) -> Script:
    return answering(
        complete_response(status, body if isinstance(body, bytes) else json.dumps(body).encode(), *headers)
    )


def client_of(upstream: RawUpstream, **options: Any) -> HttpResponsesClient:
    settings: dict[str, Any] = {"retries": 0, **options}
    return HttpResponsesClient(upstream.url, **settings)


def sent_bodies(upstream: RawUpstream) -> list[dict[str, Any]]:
    return [json.loads(wire.body) for wire in upstream.wires]


async def failure(script: Script, *, streamed: bool = False, **options: Any) -> ResponsesCallFailed:
    """The error of a call if the server does this."""
    async with raw_upstream(script) as upstream, client_of(upstream, **options) as client:
        with pytest.raises(ResponsesCallFailed) as caught:
            await (consume(client) if streamed else client.create(REQUEST))
    return caught.value


async def consume(client: ResponsesClient) -> list[str]:
    return [event["type"] async for event in client.stream(REQUEST)]


async def test_a_response_body_is_returned_unchanged() -> None:
    body = json.dumps(RESPONSE, indent=2, ensure_ascii=False).encode()
    async with raw_upstream(responding(body)) as upstream, client_of(upstream, api_key=KEY) as client:
        assert await client.create({**REQUEST, "stream": True}) == body
        assert await client.retrieve("resp_1/../../x y") == body
    posted, fetched = upstream.wires
    assert posted.head.startswith("POST /v1/responses HTTP/1.1\r\n")
    assert f"authorization: Bearer {KEY}\r\n" in posted.head
    assert json.loads(posted.body) == {**REQUEST, "stream": False}
    assert fetched.head.startswith("GET /v1/responses/resp_1%2F..%2F..%2Fx%20y HTTP/1.1\r\n")
    assert upstream.connections == 1


async def test_without_a_key_no_authorization_is_sent() -> None:
    async with raw_upstream(responding()) as upstream, client_of(upstream) as client:
        await client.create(REQUEST)
    assert "authorization" not in upstream.wires[0].head.lower()


@pytest.mark.parametrize("address", ["", "/", "/v1", "/v1/"])
async def test_the_path_is_added_to_an_address_without_one(address: str) -> None:
    async with (
        raw_upstream(responding()) as upstream,
        HttpResponsesClient(upstream.url.removesuffix("/v1") + address) as client,
    ):
        await client.create(REQUEST)
    assert upstream.wires[0].head.startswith("POST /v1/responses ")


@pytest.mark.parametrize(
    "address", ["localhost:8080", "ftp://x/v1", "http://", "http://u:hidden-word@localhost"]
)
def test_an_invalid_address_is_rejected_at_once(address: str) -> None:
    with pytest.raises(SettingsError, match="base_url") as caught:
        HttpResponsesClient(address)
    assert "hidden-word" not in caught.value.message


@pytest.mark.parametrize(
    ("status", "body", "message", "code"),
    [
        (400, {"error": {"message": "no such thing", "code": "invalid_value", "param": "x"}}, "no such thing", "invalid_value"),
        (404, {"error": {"message": "gone", "code": 404}}, "gone", "404"),
        (403, {"error": "text alone"}, "answered with status 403: {\"error\": \"text alone\"}", "upstream_error"),
        (400, b"<h1>Bad</h1> Request", "answered with status 400: Bad Request", "upstream_error"),
        (400, b"", "answered with status 400", "upstream_error"),
    ],
)  # fmt: skip
async def test_an_error_carries_status_message_and_body(
    status: int, body: Any, message: str, code: str
) -> None:
    refused = await failure(responding(body, status))
    assert (refused.status, refused.code) == (status, code)
    assert message in refused.message
    assert refused.body == (body if isinstance(body, bytes) else json.dumps(body).encode())


async def test_an_error_carries_retry_after() -> None:
    refused = await failure(responding({"error": {"message": "busy"}}, 429, "retry-after: 7"))
    assert (refused.retry_after, refused.retryable) == (7.0, True)


async def test_a_huge_error_body_is_truncated() -> None:
    refused = await failure(responding(b"x" * 200_000, 400))
    assert refused.body == b"x" * 65_536
    assert len(refused.message) < 500


@pytest.mark.parametrize("streamed", [False, True])
async def test_our_key_is_redacted(streamed: bool, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    body = {"error": {"message": f"who is {KEY}?", "detail": KEY, "code": "x"}}
    for script in (
        responding(body, 500),
        responding(b"no JSON: " + KEY.encode()),
        streaming(sse({"type": "error", "error": {"message": KEY, "code": "x"}})),
    ):
        refused = await failure(script, streamed=streamed, api_key=KEY, retries=1)
        assert KEY not in refused.message
        assert KEY.encode() not in refused.body
    assert KEY not in caplog.text


async def test_transient_errors_are_retried() -> None:
    busy = responding({"error": {"message": "busy"}}, 429, "retry-after: 0")
    async with raw_upstream(busy, busy, responding()) as upstream, client_of(upstream, retries=2) as client:
        assert json.loads(await client.create(REQUEST)) == RESPONSE
    assert sent_bodies(upstream) == [{**REQUEST, "stream": False}] * 3


async def test_permanent_errors_are_not_retried() -> None:
    async with raw_upstream(responding({}, 400)) as upstream, client_of(upstream, retries=2) as client:
        with pytest.raises(ResponsesCallFailed):
            await client.create(REQUEST)
    assert len(upstream.wires) == 1


async def test_a_server_that_is_not_there_is_a_bad_gateway() -> None:
    async with HttpResponsesClient("http://127.0.0.1:1/v1", retries=0) as client:
        for call in (
            client.create(REQUEST),
            client.retrieve("resp_1"),
            client.default_model(),
            consume(client),
        ):
            with pytest.raises(ResponsesCallFailed, match="cannot be reached") as caught:
                await call
            assert (caught.value.status, caught.value.code) == (502, "upstream_unreachable")


@pytest.mark.parametrize(("streamed", "seconds"), [(False, "0.05"), (True, "0.06")])
async def test_a_server_that_is_late_is_a_gateway_timeout(streamed: bool, seconds: str) -> None:
    async def hang(wire: Wire) -> None:
        await wire.until_cut_off()

    late = await failure(hang, streamed=streamed, deadlines=Deadlines(answer=0.05, first_byte=0.06))
    assert (late.status, late.code) == (504, "upstream_timeout")
    assert f"within {seconds} s" in late.message


@pytest.mark.parametrize("body", [b"", b"{", b"[1]", b"7", b"\xff", b"null"])
async def test_a_body_that_is_no_json_object_is_a_bad_gateway(body: bytes) -> None:
    broken = await failure(responding(body))
    assert (broken.status, broken.code, broken.body) == (502, "upstream_protocol_error", body)
    assert "did not answer like a Responses server" in broken.message


@pytest.mark.parametrize(
    "script",
    [
        answering(complete_response(200, b"<html>login</html>", media="text/html")),
        answering(complete_response(302, b"", "location: http://elsewhere/")),
        answering(b"SSH-2.0-OpenSSH\r\n"),
    ],
)
async def test_an_invalid_http_response_is_a_bad_gateway(script: Script) -> None:
    for streamed in (False, True):
        assert (await failure(script, streamed=streamed)).status == 502


async def test_a_stream_ends_with_its_terminal_event_and_keeps_the_connection_open() -> None:
    ended = asyncio.Event()

    async def wait_before_the_end(wire: Wire) -> None:
        await wire.send(SSE_HEAD + chunked(events))
        await ended.wait()
        await wire.send(chunked(DONE) + chunked(b""))

    events = sse(CREATED, {"type": "keepalive"}, {"type": "some.new.event"}, COMPLETED)
    async with raw_upstream(wait_before_the_end, responding()) as upstream, client_of(upstream) as client:
        kinds = await consume(client)
        ended.set()
        await client.create(REQUEST)
        assert not upstream.cut_off.is_set()
    assert kinds == ["response.created", "keepalive", "some.new.event", "response.completed"]
    assert sent_bodies(upstream)[0] == {**REQUEST, "stream": True}


@pytest.mark.parametrize(
    "pieces",
    [
        [sse(CREATED)[:20], sse(CREATED)[20:] + sse(COMPLETED)],
        [sse(CREATED, COMPLETED).replace(b"\n", b"\r\n")],
        [b": a comment\n\n" + b"event: response.created\nid: 1\n" + sse(CREATED) + sse(COMPLETED)],
        [sse(CREATED) + b"data: " + json.dumps(COMPLETED).encode()],
        [
            sse(CREATED)
            + b"data: "
            + json.dumps(COMPLETED, indent=1).replace("\n", "\ndata: ").encode()
            + b"\n\n"
        ],
    ],
    ids=["cut anywhere", "crlf", "other fields", "no blank line at the end", "several lines"],
)
async def test_every_way_to_write_a_stream_is_read(pieces: list[bytes]) -> None:
    async with raw_upstream(streaming(*pieces)) as upstream, client_of(upstream) as client:
        assert await consume(client) == ["response.created", "response.completed"]


@pytest.mark.parametrize("kind", ["response.completed", "response.incomplete", "response.failed"])
async def test_every_end_is_an_answer(kind: str) -> None:
    fault = {"type": "error", "error": {"message": "told before the end"}}
    events = sse(CREATED, fault, {"type": kind, "response": RESPONSE})
    async with raw_upstream(streaming(events)) as upstream, client_of(upstream) as client:
        assert await consume(client) == ["response.created", kind]


@pytest.mark.parametrize(
    ("pieces", "message", "code", "body"),
    [
        ([sse(CREATED)], "closed the stream", "upstream_protocol_error", b""),
        ([sse(CREATED), DONE, sse(COMPLETED)], "closed the stream", "upstream_protocol_error", b""),
        ([sse(CREATED), b"data: {\n\n"], "did not answer like", "upstream_protocol_error", b"{"),
        ([sse(CREATED, [1])], "did not answer like", "upstream_protocol_error", b"[1]"),
        ([sse({"type": []}), DONE], "closed the stream", "upstream_protocol_error", b""),
        ([sse({"type": "error", "error": {"message": "out of tokens", "code": "quota"}})], "out of tokens", "quota", b'{"error":{"message":"out of tokens","code":"quota"}}'),
        ([sse({"type": "error", "message": "flat words"}), DONE], "flat words", "upstream_protocol_error", b'{"error":{"type":"error","message":"flat words"}}'),
    ],
)  # fmt: skip
async def test_a_stream_without_an_end_is_a_bad_gateway(
    pieces: list[bytes], message: str, code: str, body: bytes
) -> None:
    broken = await failure(streaming(*pieces), streamed=True)
    assert (broken.status, broken.code, broken.body) == (502, code, body)
    assert message in broken.message


async def test_a_truncated_stream_is_a_bad_gateway() -> None:
    async def cut(wire: Wire) -> None:
        await wire.send(SSE_HEAD + chunked(sse(CREATED)))
        wire.abort()

    assert (await failure(cut, streamed=True)).status == 502


async def test_an_event_without_end_is_a_bad_gateway() -> None:
    piece = chunked(b"x" * 1_000_000)
    broken = await failure(answering(SSE_HEAD, chunked(b"data: "), *[piece] * 9), streamed=True)
    assert (broken.status, broken.code) == (502, "upstream_protocol_error")
    assert "size limit" in broken.message


async def test_a_non_streamed_answer_to_a_stream_request_is_a_distinct_failure() -> None:
    refused = await failure(responding(), streamed=True)
    assert (refused.status, refused.code) == (502, NO_STREAM)


async def test_closing_a_stream_closes_the_connection() -> None:
    async def begin(wire: Wire) -> None:
        await wire.send(SSE_HEAD + chunked(sse(CREATED)))
        await wire.until_cut_off()

    async with raw_upstream(begin) as upstream, client_of(upstream) as client:
        async with aclosing(client.stream(REQUEST)) as events:
            assert (await anext(events))["type"] == "response.created"
        await asyncio.wait_for(upstream.cut_off.wait(), 10)


async def test_the_default_model_is_looked_up_once() -> None:
    models = {"data": [{"id": "first", "object": "model"}, {"id": "second"}]}
    async with raw_upstream(responding(models)) as upstream, client_of(upstream) as client:
        assert [await client.default_model(), await client.default_model()] == ["first", "first"]
        assert await client.models() == ["first", "second"]
        assert await client_of(upstream, model="named").default_model() == "named"
    assert [wire.head.split()[1] for wire in upstream.wires] == ["/v1/models", "/v1/models"]


async def test_a_server_without_models_requires_a_model_name() -> None:
    async with raw_upstream(responding({"data": []})) as upstream, client_of(upstream) as client:
        with pytest.raises(ResponsesCallFailed, match="lists no models"):
            await client.default_model()


async def test_tools_are_sent_once() -> None:
    async with raw_upstream(responding()) as upstream, client_of(upstream) as client:
        await client.create({**REQUEST, "tools": TOOLS})
        await client.create({**REQUEST, "previous_response_id": "resp_1"})
    assert ["tools" in body for body in sent_bodies(upstream)] == [True, False]


async def test_tools_are_sent_again_to_servers_that_forget_them() -> None:
    second = streaming(sse({"type": "response.completed", "response": {**RESPONSE, "id": "resp_2"}}))
    third = responding({**RESPONSE, "id": "resp_3"})
    async with (
        raw_upstream(responding(), second, third) as upstream,
        client_of(upstream, resend_tools=True) as client,
    ):
        await client.create({**REQUEST, "tools": [{"function": TOOLS[0]}]})
        async for _ in client.stream({**REQUEST, "previous_response_id": "resp_1"}):
            pass
        await client.create({**REQUEST, "previous_response_id": "resp_2"})
        await client.create({**REQUEST, "previous_response_id": "unknown"})
    assert [body.get("tools") for body in sent_bodies(upstream)] == [TOOLS, TOOLS, TOOLS, None]
