"""uvicorn's protocol with our additions, on a transport that counts writes."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, cast

import pytest
import uvicorn
from uvicorn.server import ServerState

from antiphon.server.http_protocol import HttpProtocol
from antiphon.server.request_cycle import MAX_JOINED_BYTES
from antiphon.server.types import Message, Receive, Scope, Send

TIMEOUT_SECONDS = 5
Answer = Callable[[Receive, Send], Awaitable[None]]
START: Message = {"type": "http.response.start", "status": 200, "headers": []}


class Transport:
    """Records the written bytes."""

    def __init__(self) -> None:
        self.writes: list[bytes] = []
        self.written = asyncio.Event()
        self.closed = asyncio.Event()

    def write(self, data: bytes) -> None:
        self.writes.append(data)
        self.written.set()

    def close(self) -> None:
        self.closed.set()

    def is_closing(self) -> bool:
        return self.closed.is_set()

    def get_extra_info(self, _name: str) -> None:
        return None

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass


class Connection:
    """A connection to an application with this answer."""

    def __init__(self, answer: Answer) -> None:
        async def app(_scope: Scope, receive: Receive, send: Send) -> None:
            await answer(receive, send)

        config = uvicorn.Config(cast("Any", app), log_config=None, access_log=False, server_header=False)
        config.load()
        self.protocol = HttpProtocol(config=config, server_state=ServerState(), app_state={})
        self.transport = Transport()
        self.protocol.connection_made(cast("asyncio.Transport", self.transport))

    async def request(self, data: bytes) -> None:
        self.protocol.data_received(data)
        async with asyncio.timeout(TIMEOUT_SECONDS):
            await asyncio.wait(self.protocol.tasks)


@pytest.fixture
async def connect() -> AsyncIterator[Callable[[Answer], Connection]]:
    opened: list[Connection] = []

    def connect(answer: Answer) -> Connection:
        opened.append(Connection(answer))
        return opened[-1]

    yield connect
    for connection in opened:
        connection.protocol.connection_lost(None)


def request(method: str = "GET", *headers: str) -> bytes:
    return "\r\n".join([f"{method} / HTTP/1.1", "host: localhost", *headers, "", ""]).encode()


def sized(body: bytes) -> Answer:
    async def answer(_receive: Receive, send: Send) -> None:
        await send({**START, "headers": [(b"content-length", b"%d" % len(body))]})
        await send({"type": "http.response.body", "body": body})

    return answer


@pytest.mark.parametrize("body", [b"", b"whole", b"x" * MAX_JOINED_BYTES])
async def test_head_and_body_are_sent_in_one_write(
    connect: Callable[[Answer], Connection], body: bytes
) -> None:
    connection = connect(sized(body))
    for _ in range(2):  # the connection is kept alive
        await connection.request(request())
        (answer,) = connection.transport.writes
        assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
        assert answer.endswith(b"\r\n\r\n" + body)
        connection.transport.writes.clear()


async def test_a_large_body_is_not_copied(connect: Callable[[Answer], Connection]) -> None:
    body = b"x" * (MAX_JOINED_BYTES + 1)
    connection = connect(sized(body))
    await connection.request(request())
    head, rest = connection.transport.writes
    assert head.endswith(b"\r\n\r\n")
    assert rest is body


async def test_the_head_of_a_stream_is_sent_with_its_first_events(
    connect: Callable[[Answer], Connection],
) -> None:
    async def answer(_receive: Receive, send: Send) -> None:
        await send(START)
        for body in (b"one", b"two"):
            await send({"type": "http.response.body", "body": body, "more_body": True})
        await send({"type": "http.response.body"})

    connection = connect(answer)
    await connection.request(request())
    first, second, last = connection.transport.writes
    assert first.startswith(b"HTTP/1.1 200 OK\r\n")
    assert first.endswith(b"3\r\none\r\n")
    assert (second, last) == (b"3\r\ntwo\r\n", b"0\r\n\r\n")


async def test_an_empty_piece_sends_the_head(connect: Callable[[Answer], Connection]) -> None:
    async def answer(_receive: Receive, send: Send) -> None:
        await send(START)
        await send({"type": "http.response.body", "body": b"", "more_body": True})
        await asyncio.Event().wait()

    connection = connect(answer)
    connection.protocol.data_received(request())
    async with asyncio.timeout(TIMEOUT_SECONDS):
        await connection.transport.written.wait()
    (head,) = connection.transport.writes
    assert head.endswith(b"\r\n\r\n")
    for task in connection.protocol.tasks:
        task.cancel()


async def test_an_answer_to_head_has_no_body_to_wait_for(connect: Callable[[Answer], Connection]) -> None:
    connection = connect(sized(b"whole"))
    await connection.request(request("HEAD"))
    (head,) = connection.transport.writes
    assert head.endswith(b"content-length: 5\r\n\r\n")


async def test_continue_is_sent_at_once(connect: Callable[[Answer], Connection]) -> None:
    async def answer(receive: Receive, send: Send) -> None:
        await receive()
        await sized(b"done")(receive, send)

    connection = connect(answer)
    connection.protocol.data_received(request("POST", "content-length: 1", "expect: 100-continue"))
    async with asyncio.timeout(TIMEOUT_SECONDS):
        await connection.transport.written.wait()
    assert connection.transport.writes == [b"HTTP/1.1 100 Continue\r\n\r\n"]
    await connection.request(b"x")
    assert len(connection.transport.writes) == 2


async def test_an_answer_that_fails_after_its_head_is_truncated(
    connect: Callable[[Answer], Connection],
) -> None:
    async def answer(_receive: Receive, send: Send) -> None:
        await send(START)
        raise AssertionError("broken")

    connection = connect(answer)
    await connection.request(request())
    (head,) = connection.transport.writes
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    assert connection.transport.closed.is_set()
