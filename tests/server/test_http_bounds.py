"""What a client may send on a connection: malformed requests, bounds, requests sent ahead."""

import asyncio
import gc
import time
import weakref
from collections import Counter

import pytest

from antiphon.server.http_protocol import (
    MAX_HEAD_BYTES,
    MAX_HEADERS,
    MAX_PIPELINED_REQUESTS,
    MAX_TRAILERS,
    MAX_UNREAD_BODY_BYTES,
    MAX_URL_BYTES,
    HttpProtocol,
)
from antiphon.server.types import Message, Receive, Scope, Send
from tests.server.http_connection import GET, Connect, Connection, Echo, error_of, head

CHUNKED = b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("sent", "status", "code"),
    [
        (b"NONSENSE\r\n\r\n", 400, "invalid_http"),
        (b"GET / HTTP/1.1\r\nhost: a\r\nbad header: x\r\n\r\n", 400, "invalid_http"),
        (
            b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",
            400,
            "invalid_http",
        ),
        (b"CONNECT a:80 HTTP/1.1\r\nhost: a\r\n\r\n", 400, "invalid_http"),
        (b"GET http:// HTTP/1.1\r\nhost: a\r\n\r\n", 400, "invalid_http"),
        (b"GET / HTTP/2.0\r\nhost: a\r\n\r\n", 505, "unsupported_http_version"),
        (b"GET / HTTP/0.9\r\nhost: a\r\n\r\n", 505, "unsupported_http_version"),
        (b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * (MAX_HEADERS + 1) + b"\r\n", 431, "headers_too_large"),
    ],
)
async def test_malformed_requests_get_the_error_object(
    connect: Connect, sent: bytes, status: int, code: str
) -> None:
    connection = connect(Echo())
    found, error = error_of(await connection.send(sent))
    assert (found, error["code"], error["type"]) == (status, code, "invalid_request_error")
    assert connection.transport.closed


@pytest.mark.parametrize("start", [b"GET / HTTP/1.1\r\nx: ", b"GET /", b"GET / HTTP/1.1\r\n"])
async def test_an_endless_head_is_refused_at_the_limit(connect: Connect, start: bytes) -> None:
    connection = connect(Echo())
    connection.protocol.data_received(start)
    sent = 0
    piece = b"y" * 1024 if start != b"GET / HTTP/1.1\r\n" else b"x: y\r\n" * 10
    while not connection.transport.closed:
        connection.protocol.data_received(piece)
        sent += len(piece)
        assert sent <= MAX_HEAD_BYTES + len(piece)
    status, error = error_of(connection.transport.written)
    assert (status, error["code"]) == (431, "headers_too_large")


async def test_the_limit_of_a_head_does_not_count_bodies(connect: Connect) -> None:
    connection = connect(Echo())
    body = b"x" * (2 * MAX_HEAD_BYTES)
    post = b"POST /a HTTP/1.1\r\nhost: a\r\ncontent-length: %d\r\n\r\n" % len(body)
    for _ in range(2):
        await connection.send(post, *(body[at : at + 1000] for at in range(0, len(body), 1000)))
    assert connection.transport.written.count(b"/a " + body) == 2


async def test_endless_trailers_are_refused(connect: Connect) -> None:
    connection = connect(Echo())
    connection.protocol.data_received(
        b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n0\r\nx: "
    )
    sent = 0
    while connection.protocol.parser is not None:
        connection.protocol.data_received(b"y" * 1024)
        sent += 1024
        assert sent <= MAX_HEAD_BYTES + 1024


async def test_many_trailers_of_one_read_are_not_parsed(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed = Counter[bytes]()
    count = HttpProtocol.on_header

    def on_header(protocol: HttpProtocol, name: bytes, value: bytes) -> None:
        parsed[name] += 1
        count(protocol, name, value)

    monkeypatch.setattr(HttpProtocol, "on_header", on_header)
    answer = await connect(Echo()).send(CHUNKED + b"1\r\na\r\n0\r\n" + b"t:u\r\n" * 50_000)
    status, error = error_of(answer)
    assert (status, error["code"]) == (431, "headers_too_large")
    assert parsed[b"t"] == MAX_TRAILERS + 1


async def test_a_body_of_tiny_chunks_is_joined_in_linear_time(connect: Connect) -> None:
    number = 1_000_000
    connection = connect(Echo())
    began = time.process_time()
    answer = await connection.send(CHUNKED + b"1\r\nx\r\n" * number + b"0\r\n\r\n")
    assert time.process_time() - began < 5  # copying what was received before would take a multiple of it
    assert answer.endswith(b"/ " + b"x" * number)


async def test_trailers_are_counted_for_each_request(connect: Connect) -> None:
    connection = connect(Echo())
    request = CHUNKED + b"1\r\na\r\n0\r\n" + b"t:u\r\n" * MAX_TRAILERS + b"\r\n"
    answer = await connection.send(request, request)
    assert answer.count(b"HTTP/1.1 200 OK") == 2


async def test_trailers_are_not_headers(connect: Connect) -> None:
    echo = Echo()
    connection = connect(echo)
    answer = await connection.send(
        b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n0\r\n"
        b"authorization: Bearer other\r\n\r\n"
    )
    assert answer.endswith(b"/ a")
    assert [name for name, _ in echo.scopes[0]["headers"]] == [b"host", b"transfer-encoding"]


async def test_an_offer_of_http_2_is_ignored(connect: Connect) -> None:
    connection = connect(Echo())
    answer = await connection.send(
        b"POST /a?b=c HTTP/1.1\r\nhost: a\r\nconnection: upgrade, http2-settings\r\nupgrade: h2c\r\n"
        b"http2-settings: x\r\ncontent-length: 4\r\n\r\nbo",
        b"dy",
        b"GET /next HTTP/1.1\r\nhost: a\r\n\r\n",
    )
    assert answer.count(b"HTTP/1.1 200 OK") == 2
    assert b"/a body" in answer
    assert answer.endswith(b"/next ")


@pytest.mark.parametrize(
    ("url", "path", "query"),
    [
        (b"/a%20b?c=%20", "/a b", b"c=%20"),
        (b"http://localhost/a?b", "/a", b"b"),
        (b"/a#b", "/a", b""),
        (b"/a?b?c", "/a", b"b?c"),
    ],
)
async def test_targets(connect: Connect, url: bytes, path: str, query: bytes) -> None:
    echo = Echo()
    await connect(echo).send(b"GET %b HTTP/1.1\r\nhost: a\r\n\r\n" % url)
    assert (echo.scopes[0]["path"], echo.scopes[0]["query_string"]) == (path, query)


async def test_requests_sent_ahead_are_answered_in_order(connect: Connect) -> None:
    connection = connect(Echo())
    ahead = b"".join(b"GET /%d HTTP/1.1\r\nhost: a\r\n\r\n" % number for number in range(5))
    answer = await connection.send(ahead)
    assert [int(part.split(b" ")[0]) for part in answer.split(b"\r\n\r\n/")[1:]] == list(range(5))
    assert connection.transport.reading


async def test_of_too_many_requests_sent_ahead_the_first_ones_are_answered(connect: Connect) -> None:
    connection = connect(Echo())
    answer = await connection.send(GET * (MAX_PIPELINED_REQUESTS + 5))
    assert answer.count(b"HTTP/1.1 200 OK") == MAX_PIPELINED_REQUESTS + 1
    assert answer.count(b"HTTP/1.1 400 Bad Request") == 1
    assert connection.transport.closed


async def test_nonsense_is_refused_after_the_answers_to_the_requests_before_it(connect: Connect) -> None:
    connection = connect(Echo())
    answer = await connection.send(GET * 2 + b"NONSENSE\r\n\r\n")
    first, second, refusal = answer.split(b"HTTP/1.1 ")[1:]
    assert first.startswith(b"200 OK")
    assert second.startswith(b"200 OK")
    assert error_of(b"HTTP/1.1 " + refusal)[0] == 400
    assert connection.transport.closed
    assert await connection.send(GET) == answer


POST = b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    "pieces", [(POST + b"ZZ\r\n",), (POST, b"ZZ\r\n"), (POST + b"1\r\na\r\n", b"ZZ\r\n")]
)
async def test_a_malformed_body_is_refused_at_once(connect: Connect, pieces: tuple[bytes, ...]) -> None:
    connection = connect(Echo())
    for piece in pieces:
        connection.protocol.data_received(piece)
        await asyncio.sleep(0)
    status, error = error_of(connection.transport.written)
    assert (status, error["code"]) == (400, "invalid_http")
    assert connection.transport.closed
    assert connection.transport.reading
    assert (await connection.send()).count(b"HTTP/1.1") == 1


async def test_a_malformed_rest_of_an_answered_request_closes_without_a_second_answer(
    connect: Connect,
) -> None:
    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send(head(2))
        await send({"type": "http.response.body", "body": b"no"})

    connection = connect(app)
    answer = await connection.send(POST)
    assert await connection.send(b"ZZ\r\n") == answer
    assert connection.transport.closed


async def test_a_malformed_request_sent_ahead_does_not_disturb_a_stream(connect: Connect) -> None:
    go = asyncio.Event()

    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send(head())
        await send({"type": "http.response.body", "body": b"one", "more_body": True})
        await go.wait()
        await send({"type": "http.response.body", "body": b"two"})

    connection = connect(app)
    connection.protocol.data_received(GET)
    await connection.until(lambda: bool(connection.transport.written))
    connection.protocol.data_received(POST + b"ZZ\r\n")
    go.set()
    stream, _, refusal = (await connection.send()).partition(b"3\r\ntwo\r\n0\r\n\r\n")
    assert stream.endswith(b"3\r\none\r\n")
    assert error_of(refusal)[0] == 400


async def test_a_websocket_behind_an_unanswered_request_is_refused(connect: Connect) -> None:
    connection = connect(Echo())
    handshake = b"GET / HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n"
    answer = await connection.send(GET + handshake)
    assert answer.startswith(b"HTTP/1.1 200 OK")
    assert error_of(answer[answer.rindex(b"HTTP/1.1") :])[0] == 400
    assert b"101" not in answer
    assert connection.transport.closed


async def test_an_unread_body_stops_the_reading(connect: Connect) -> None:
    go = asyncio.Event()
    echo = Echo()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await go.wait()
        await echo(scope, receive, send)

    connection = connect(app)
    body = b"x" * (MAX_UNREAD_BODY_BYTES + 1)
    connection.protocol.data_received(
        b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: %d\r\n\r\n%b" % (len(body) + 1, body)
    )
    assert not connection.transport.reading
    go.set()
    await asyncio.sleep(0.01)
    assert connection.transport.reading
    assert (await connection.send(b"y")).endswith(body + b"y")


async def test_a_body_that_nobody_reads_is_dropped(connect: Connect) -> None:
    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send(head(2))
        await send({"type": "http.response.body", "body": b"no"})

    connection = connect(app)
    post = b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\n\r\n"
    await connection.send(post)
    answer = await connection.send(b"abc" + GET)
    assert answer.count(b"HTTP/1.1 200 OK") == 2


async def test_the_rest_of_the_body_of_an_answered_request_is_not_held(connect: Connect) -> None:
    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send(head(2))
        await send({"type": "http.response.body", "body": b"no"})

    connection = connect(app)
    size = 2 * MAX_UNREAD_BODY_BYTES
    await connection.send(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: %d\r\n\r\n" % size)
    connection.protocol.data_received(b"x" * (size - 1))
    assert connection.transport.reading
    answer = await connection.send(b"x" + GET)
    assert answer.count(b"HTTP/1.1 200 OK") == 2


async def test_no_continue_is_sent_after_the_beginning_of_the_answer(connect: Connect) -> None:
    async def app(_scope: Scope, receive: Receive, send: Send) -> None:
        await send(head(2))
        await send({"type": "http.response.body", "body": b"no", "more_body": True})
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await receive()
        await send({"type": "http.response.body"})

    answer = await connect(app).send(
        b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\nexpect: 100-continue\r\n\r\n"
    )
    assert b"100 Continue" not in answer


async def test_an_answer_before_an_expected_body_closes(connect: Connect) -> None:
    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send(head(2))
        await send({"type": "http.response.body", "body": b"no"})

    connection = connect(app)
    answer = await connection.send(
        b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\nexpect: 100-continue\r\n\r\n"
    )
    assert b"connection: close" in answer
    assert connection.transport.closed


async def test_no_continue_is_sent_for_a_complete_body_or_into_an_answer(connect: Connect) -> None:
    async def app(_scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await send(head())
        await send({"type": "http.response.body", "body": b"one", "more_body": True})
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await receive()
        await send({"type": "http.response.body"})

    answer = await connect(app).send(b"GET / HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\n\r\n")
    assert b"100 Continue" not in answer


@pytest.mark.parametrize(("version", "sent"), [(b"1.1", True), (b"1.0", False)])
async def test_only_http_1_1_clients_are_sent_a_continue(
    connect: Connect, version: bytes, sent: bool
) -> None:
    connection = connect(Echo())
    connection.protocol.data_received(
        b"POST / HTTP/%b\r\nhost: a\r\ncontent-length: 1\r\nexpect: 100-CONTINUE\r\n\r\n" % version
    )
    await asyncio.sleep(0.01)
    assert (b"100 Continue" in connection.transport.written) == sent
    assert (await connection.send(b"x")).endswith(b"/ x")


@pytest.mark.parametrize("version", [b"1.0", b"2.0"])
async def test_an_ignored_upgrade_does_not_change_the_version(connect: Connect, version: bytes) -> None:
    connection = connect(Echo())
    answer = await connection.send(
        b"GET / HTTP/%b\r\nhost: a\r\nconnection: upgrade\r\nupgrade: h2c\r\n\r\n" % version
    )
    assert answer.startswith(b"HTTP/1.1 200 OK" if version == b"1.0" else b"HTTP/1.1 505 ")
    assert connection.transport.closed


async def test_a_trailer_can_close_the_connection(connect: Connect) -> None:
    connection = connect(Echo())
    await connection.send(POST + b"1\r\na\r\n0\r\nconnection: close\r\n\r\n")
    assert connection.transport.closed


async def test_a_long_url_is_refused(connect: Connect) -> None:
    sent = b"GET /%b HTTP/1.1\r\nhost: a\r\n\r\n" % (b"x" * MAX_URL_BYTES)
    assert error_of(await connect(Echo()).send(sent))[0] == 431


async def test_an_application_that_fails_before_its_answer_gives_an_error_object(connect: Connect) -> None:
    async def app(_scope: Scope, _receive: Receive, _send: Send) -> None:
        raise RuntimeError("broken")

    status, error = error_of(await connect(app).send(GET))
    assert (status, error["code"]) == (500, "internal_error")


async def test_a_lost_connection_is_freed_without_the_garbage_collector() -> None:
    async def app(_scope: Scope, receive: Receive, _send: Send) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    connection = Connection(app)
    connection.protocol.data_received(POST)
    connection.protocol.data_received(b"1\r\na\r\n")
    await asyncio.sleep(0)
    connection.protocol.connection_lost(None)
    await connection.send()
    alive = weakref.ref(connection.protocol)
    gc.disable()
    try:
        del connection
        await asyncio.sleep(0)
        assert alive() is None
    finally:
        gc.enable()


async def test_http_1_0_gets_a_body_that_ends_with_the_connection(connect: Connect) -> None:
    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send(head())
        await send({"type": "http.response.body", "body": b"one", "more_body": True})
        await send({"type": "http.response.body", "body": b"two"})

    connection = connect(app)
    answer = await connection.send(b"GET / HTTP/1.0\r\nhost: a\r\n\r\n")
    assert b"chunked" not in answer
    assert answer.endswith(b"\r\n\r\nonetwo")
    assert connection.transport.closed


@pytest.mark.parametrize(
    "messages",
    [
        [head(3), {"type": "http.response.body", "body": b"four"}],
        [head(3), {"type": "http.response.body", "body": b"no"}],
        [head(), head()],
        [{"type": "http.response.body", "body": b"no head"}],
        [{"type": "http.response.trailers"}],
        [head(0, (b"x", b"a\r\nset-cookie: b"))],
        [head(0, (b"x", b"a\nset-cookie: b"))],
        [head(0, (b"x", b"a\rset-cookie: b"))],
        [head(0)],
    ],
)
async def test_an_invalid_answer_closes_the_connection(connect: Connect, messages: list[Message]) -> None:
    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        for message in messages:
            await send(message)

    connection = connect(app)
    assert b"set-cookie" not in await connection.send(GET)
    assert connection.transport.closed


async def test_the_application_notices_the_end_of_the_connection(connect: Connect) -> None:
    received: list[str] = []

    async def app(_scope: Scope, receive: Receive, send: Send) -> None:
        for _ in range(2):
            received.append((await receive())["type"])
        await send(head(0))
        await send({"type": "http.response.body"})

    connection = connect(app)
    connection.protocol.data_received(GET)
    await asyncio.sleep(0)
    connection.protocol.connection_lost(None)
    assert await connection.send() == b""
    assert received == ["http.request", "http.disconnect"]
