"""How long a connection may last: without a request, with a client that does not read, at a shutdown."""

import asyncio

import pytest

from antiphon.server import http_protocol
from antiphon.server.types import Receive, Scope, Send
from tests.server.http_connection import GET, Connect, Echo, head


async def test_a_shutdown_closes_after_the_current_answer(connect: Connect) -> None:
    connection = connect(Echo())
    connection.protocol.data_received(GET)
    connection.protocol.shutdown()
    assert not connection.transport.closed
    assert b"connection: close" in await connection.send()
    assert connection.transport.closed


async def test_a_shutdown_closes_an_idle_connection(connect: Connect) -> None:
    connection = connect(Echo())
    await connection.send(GET)
    connection.protocol.shutdown()
    assert connection.transport.closed


@pytest.fixture
def short_times(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "HEAD_TIMEOUT_SECONDS",
        "IDLE_TIMEOUT_SECONDS",
        "SEND_TIMEOUT_SECONDS",
        "CLOSE_TIMEOUT_SECONDS",
    ):
        monkeypatch.setattr(http_protocol, name, 0.05)
    monkeypatch.setattr(http_protocol, "CHECK_SECONDS", 0.02)


@pytest.mark.usefixtures("short_times")
@pytest.mark.parametrize("sent", [b"", b"GET / HT", GET, GET + b"GET / HT"])
async def test_a_connection_is_not_held_without_a_request(connect: Connect, sent: bytes) -> None:
    connection = connect(Echo())
    await connection.send(sent)
    await connection.until(lambda: connection.transport.closed)
    assert not connection.transport.aborted


@pytest.mark.usefixtures("short_times")
async def test_a_request_that_takes_long_to_answer_is_not_idle(connect: Connect) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await asyncio.sleep(0.2)
        await Echo()(scope, receive, send)

    answer = await connect(app).send(GET)
    assert answer.startswith(b"HTTP/1.1 200 OK")


@pytest.mark.usefixtures("short_times")
@pytest.mark.parametrize("ahead", [b"", b"GET / HT", GET + b"GET / HT"])
async def test_a_long_answer_is_not_cut_off_by_what_was_sent_ahead(connect: Connect, ahead: bytes) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await asyncio.sleep(0.2)
        await Echo()(scope, receive, send)

    connection = connect(app)
    connection.protocol.data_received(GET + ahead)
    await asyncio.sleep(0.1)
    assert not connection.transport.closed
    await connection.send()
    assert connection.transport.written.startswith(b"HTTP/1.1 200 OK")


@pytest.mark.usefixtures("short_times")
async def test_the_time_for_a_head_that_was_sent_ahead_in_part_begins_after_the_answer(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_protocol, "HEAD_TIMEOUT_SECONDS", 0.3)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await asyncio.sleep(0.0 if scope["path"] == "/next" else 0.4)
        await Echo()(scope, receive, send)

    connection = connect(app)
    await connection.send(GET + b"GET /next HT")
    await asyncio.sleep(0.1)
    assert (await connection.send(b"TP/1.1\r\nhost: a\r\n\r\n")).endswith(b"/next ")


@pytest.mark.usefixtures("short_times")
async def test_an_answer_to_a_request_that_came_in_parts_is_not_cut_off(connect: Connect) -> None:
    slow = asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == "/slow":
            await slow.wait()
        await Echo()(scope, receive, send)

    connection = connect(app)
    await connection.send(GET + b"GET /slow HT")
    connection.protocol.data_received(b"TP/1.1\r\nhost: a\r\n\r\n")
    await asyncio.sleep(0.15)
    slow.set()
    assert (await connection.send()).endswith(b"/slow ")


@pytest.mark.usefixtures("short_times")
async def test_a_client_that_reads_slowly_is_not_disconnected(connect: Connect) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        for unsent in range(20, 0, -1):
            connection.transport.unsent = unsent
            await asyncio.sleep(0.015)
        connection.transport.unsent = 0
        await Echo()(scope, receive, send)

    connection = connect(app)
    assert (await connection.send(GET)).startswith(b"HTTP/1.1 200 OK")


@pytest.mark.usefixtures("short_times")
@pytest.mark.parametrize(
    "last", [b"", b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n", b"NONSENSE\r\n"]
)
async def test_a_connection_whose_last_bytes_are_not_read_is_aborted(connect: Connect, last: bytes) -> None:
    connection = connect(Echo())
    await connection.send(GET)
    connection.transport.unsent = 7
    await connection.send(last)
    await connection.until(lambda: connection.transport.aborted)


@pytest.mark.usefixtures("short_times")
async def test_a_client_that_does_not_read_is_disconnected(connect: Connect) -> None:
    received: list[str] = []

    async def app(_scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await send(head())
        await send({"type": "http.response.body", "body": b"x", "more_body": True})
        connection.transport.unsent = 1
        connection.protocol.pause_writing()
        await send({"type": "http.response.body", "body": b"never sent", "more_body": True})
        received.append((await receive())["type"])

    connection = connect(app)
    connection.protocol.data_received(GET)
    await connection.until(lambda: connection.transport.aborted)
    connection.protocol.connection_lost(None)
    assert b"never sent" not in await connection.send()
    assert received == ["http.disconnect"]


async def test_writing_goes_on_when_the_client_reads_again(connect: Connect) -> None:
    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send(head(3))
        connection.protocol.pause_writing()
        await send({"type": "http.response.body", "body": b"end"})

    connection = connect(app)
    connection.protocol.data_received(GET)
    await asyncio.sleep(0.01)
    assert connection.transport.written == b""
    connection.protocol.resume_writing()
    assert (await connection.send()).endswith(b"\r\n\r\nend")
