"""A connection of the HTTP protocol on a transport that records, and applications for it."""

import asyncio
import json
from collections.abc import Callable
from typing import Any, cast

import uvicorn
from uvicorn.server import ServerState

from antiphon.server.http_protocol import HttpProtocol
from antiphon.server.receive_queue import ReceiveQueue
from antiphon.server.types import ASGIApp, Message, Receive, Scope, Send

TIMEOUT_SECONDS = 5
GET = b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n"


class Transport:
    """Records what was written and how it was closed."""

    def __init__(self) -> None:
        self.written = b""
        self.changed = asyncio.Event()
        self.closed = False
        self.aborted = False
        self.reading = True
        self.unsent = 0

    def write(self, data: bytes) -> None:
        assert not self.closed
        self.written += data
        self.changed.set()

    def close(self) -> None:
        self.closed = True
        self.changed.set()

    def abort(self) -> None:
        self.aborted = True
        self.close()

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def is_closing(self) -> bool:
        return self.closed

    def get_extra_info(self, _name: str) -> None:
        return None

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True


class Connection:
    def __init__(self, app: ASGIApp, receive_queue: ReceiveQueue | None = None) -> None:
        config = uvicorn.Config(cast("Any", app), log_config=None, access_log=False, server_header=False)
        config.load()
        self.protocol = HttpProtocol(
            config=config, server_state=ServerState(), app_state={}, receive_queue=receive_queue
        )
        self.transport = Transport()
        self.protocol.connection_made(cast("asyncio.Transport", self.transport))

    async def send(self, *pieces: bytes) -> bytes:
        """Send this, let every answer end; everything that was written."""
        for piece in pieces:
            self.protocol.data_received(piece)
        async with asyncio.timeout(TIMEOUT_SECONDS):
            while tasks := list(self.protocol.tasks):
                await asyncio.wait(tasks)
        return self.transport.written

    async def until(self, done: Callable[[], bool]) -> None:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            while not done():
                self.transport.changed.clear()
                await self.transport.changed.wait()


class Echo:
    """Answers with the request's path and body, and remembers the scopes."""

    def __init__(self) -> None:
        self.scopes: list[Scope] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scopes.append(scope)
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        text = scope["path"].encode() + b" " + body
        await send(head(len(text)))
        await send({"type": "http.response.body", "body": text})


def head(length: int | None = None, *headers: tuple[bytes, bytes]) -> Message:
    sized = [] if length is None else [(b"content-length", b"%d" % length)]
    return {"type": "http.response.start", "status": 200, "headers": [*sized, *headers]}


Connect = Callable[[ASGIApp], Connection]


def error_of(answer: bytes) -> tuple[int, dict[str, Any]]:
    lines, _, body = answer.partition(b"\r\n\r\n")
    assert b"connection: close" in lines
    return int(lines.split()[1]), json.loads(body)["error"]
