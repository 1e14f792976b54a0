"""One request of a connection and the answer to it, as the `receive` and `send` of ASGI."""

import asyncio
import http
import logging
from collections.abc import Iterable
from typing import Literal, Protocol

import msgspec
from uvicorn.server import ServerState

from antiphon.errors import AntiphonError
from antiphon.server.types import ASGIApp, Message, Scope

logger = logging.getLogger(__name__)

MAX_JOINED_BYTES = 64 * 1024
"""Up to this size the first bytes of a body are copied behind the head."""
MAX_WRITE_BYTES = 256 * 1024
"""More is written in pieces, each when the client has read most of the one before: this bounds what is
buffered for a client that does not read."""

_PHRASES = {status.value: status.phrase for status in http.HTTPStatus}
STATUS_LINES = {
    status: f"HTTP/1.1 {status} {_PHRASES.get(status, '')}\r\n".encode() for status in range(200, 600)
}
_BODILESS = (204, 304)
_CLOSE = (b"connection", b"close")
_DISCONNECT: Message = {"type": "http.disconnect"}


class Connection(Protocol):
    """The connection of a request, as far as the request needs it."""

    loop: asyncio.AbstractEventLoop
    transport: asyncio.Transport
    server_state: ServerState
    until_writable: asyncio.Future[None] | None
    """Wait for this before you write, if it is not `None`."""

    def resume_reading(self) -> None:
        """Receive more of the body, if that was paused."""
        ...

    def write(self, data: bytes) -> None:
        """Send this after what was sent before."""
        ...

    def answer_ended(self, cycle: "RequestCycle") -> None:
        """The answer is complete."""
        ...


class RequestCycle:
    """A request until its answer is complete."""

    __slots__ = (
        "_body",
        "_connection",
        "_continued",
        "_disconnected",
        "_framing",
        "_head",
        "_more_body",
        "_phase",
        "_remaining",
        "_scope",
        "_unread",
        "_unsent",
        "_waiter",
        "keep_alive",
        "task",
    )

    def __init__(self, connection: Connection, scope: Scope, *, keep_alive: bool) -> None:
        self._connection = connection
        self._scope = scope
        self.keep_alive = keep_alive
        self.task: asyncio.Task[None] | None = None
        self._continued = False
        """Whether the client was asked to send the body."""
        self._body: bytes | bytearray = b""
        """Received and not yet read; a bytearray if it came in pieces: one read may hold thousands."""
        self._more_body = True
        self._unread = False
        """Whether a piece of the body, or its end, waits to be read by the application."""
        self._disconnected = False
        self._waiter: asyncio.Future[None] | None = None
        self._phase: Literal["unanswered", "begun", "sending", "answered"] = "unanswered"
        self._head = b""
        self._unsent = b""
        """What a cancelled `send` has left."""
        self._framing: Literal["length", "chunked", "none"] = "length"
        """How the client finds the end of the body: by its length or that of the connection, or by chunks."""
        self._remaining: int | None = None
        """The bytes of the body that are still due, where the head gives their number."""

    @property
    def unanswered(self) -> bool:
        """Whether nothing of the answer was sent."""
        return self._phase in ("unanswered", "begun")

    @property
    def answered(self) -> bool:
        """Whether the answer is complete."""
        return self._phase == "answered"

    async def run(self, app: ASGIApp) -> None:
        """Let the application answer."""
        try:
            await app(self._scope, self.receive, self.send)
        except Exception:
            logger.exception("the application failed")
        except BaseException:
            self._break_off()
            raise
        finally:
            if self.task is not None:
                self._connection.server_state.tasks.discard(self.task)
        if self._phase != "answered" and not self._disconnected:
            logger.error("the application did not complete its answer")
            self._break_off()

    def _break_off(self) -> None:
        """Close the connection, so that the client does not take the part for the whole."""
        connection = self._connection
        if self._phase == "begun":
            connection.write(self._head)
        elif self._phase == "unanswered":
            error = AntiphonError(code="internal_error")
            connection.write(error_answer(error, connection.server_state.default_headers))
        connection.transport.close()

    # The request

    def receive_piece(self, body: bytes) -> int:
        """More of the body has arrived. Returns how many bytes of it wait to be read."""
        if self._phase == "answered":
            return 0
        if not self._body:
            self._body = body
        elif isinstance(self._body, bytearray):
            self._body += body
        else:
            self._body = bytearray(self._body) + body
        self._wake()
        return len(self._body)

    def receive_end(self) -> None:
        """The body is complete."""
        self._more_body = False
        self._wake()

    def disconnect(self) -> None:
        """The connection is closed."""
        self._disconnected = True
        self._wake()

    def _wake(self) -> None:
        self._unread = True
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def receive(self) -> Message:
        """ASGI: the next piece of the body, or the end of the connection."""
        if self._more_body and self._awaits_continue():
            self._continued = True
            self._connection.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        while not (self._unread or self._disconnected or self._phase == "answered"):
            self._connection.resume_reading()
            self._waiter = waiter = self._connection.loop.create_future()
            await waiter
        if self._disconnected or self._phase == "answered":
            return _DISCONNECT
        body, self._body, self._unread = self._body, b"", False
        return {"type": "http.request", "body": bytes(body), "more_body": self._more_body}

    def _awaits_continue(self) -> bool:
        """Whether the client sends the body only when it is asked to."""
        return (
            self._phase == "unanswered"
            and not (self._continued or self._body or self._disconnected)
            and self._scope["http_version"] == "1.1"
            and any(
                name == b"expect" and value.lower() == b"100-continue"
                for name, value in self._scope["headers"]
            )
        )

    # The answer

    async def send(self, message: Message) -> None:
        """ASGI: the head of the answer, then its body. The head leaves with the first piece of the body: one
        system call and one packet for a JSON answer."""
        kind, is_writable = message["type"], self._connection.until_writable is None
        if kind == "http.response.body":
            body, more = message.get("body", b""), message.get("more_body", False)
            if not is_writable or self._unsent or len(body) > MAX_WRITE_BYTES:
                await self._send_pieces(body, more=more)
            elif self._disconnected:
                return
            elif more and body and self._phase == "sending" and self._framing == "chunked":
                # The hot path: events of a stream that has begun.
                self._connection.write(b"%x\r\n%b\r\n" % (len(body), body))
            else:
                self._send_body(body, more=more)
        elif kind == "http.response.start":
            if not is_writable:
                await self._until_writable()
            if not self._disconnected:
                self._begin(message["status"], message.get("headers", ()))
        else:
            raise RuntimeError(f"An answer has no message of the type {kind}.")

    async def _send_pieces(self, body: bytes, *, more: bool) -> None:
        """Send a body, a large one in pieces, as fast as the client reads. If this is cancelled, the rest is
        sent before the next body: no event is lost or cut."""
        rest: bytes | memoryview = self._unsent + body if self._unsent else body
        self._unsent = b""
        try:
            await self._until_writable()
            while len(rest) > MAX_WRITE_BYTES and not self._disconnected:
                rest = memoryview(rest)
                self._send_body(bytes(rest[:MAX_WRITE_BYTES]), more=True)
                rest = rest[MAX_WRITE_BYTES:]
                await self._until_writable()
        except asyncio.CancelledError:
            self._unsent = bytes(rest)
            raise
        if not self._disconnected:
            self._send_body(bytes(rest), more=more)

    async def _until_writable(self) -> None:
        while (waiter := self._connection.until_writable) is not None and not self._disconnected:
            await asyncio.shield(waiter)

    def _begin(self, status: int, headers: Iterable[tuple[bytes, bytes]]) -> None:
        if self._phase != "unanswered":
            raise RuntimeError("An answer has one head only.")
        if self._more_body and self._awaits_continue():  # whether the client still sends it is not known
            self.keep_alive = False
        kept = [*self._connection.server_state.default_headers, *headers]
        for header in headers:
            if header[0] == b"content-length":
                self._remaining = int(header[1])
            elif header == _CLOSE:
                self.keep_alive = False
                kept.remove(header)
        if status in _BODILESS or self._scope["method"] == "HEAD":
            self._framing, self._remaining = "none", None
        elif self._remaining is None and self._scope["http_version"] == "1.1":
            self._framing = "chunked"
            kept.append((b"transfer-encoding", b"chunked"))
        elif self._remaining is None:  # HTTP/1.0: the body ends with the connection
            self.keep_alive = False
        if not self.keep_alive:
            kept.append(_CLOSE)
        self._head = STATUS_LINES[status] + header_lines(kept)
        self._phase = "begun"

    def _send_body(self, body: bytes, *, more: bool) -> None:
        if self._phase in ("unanswered", "answered"):
            raise RuntimeError("A body belongs between the head of an answer and its end.")
        body = self._framed(body, more=more)
        if self._phase == "begun":
            self._phase = "sending"
            if len(body) <= MAX_JOINED_BYTES:
                body = self._head + body
            else:
                self._connection.write(self._head)
        if body:
            self._connection.write(body)
        if not more:
            self._phase = "answered"
            self._wake()
            self._connection.answer_ended(self)

    def _framed(self, body: bytes, *, more: bool) -> bytes:
        if self._remaining is not None:
            self._remaining -= len(body)
            if self._remaining < 0 or (self._remaining and not more):
                raise RuntimeError("The body does not have the length that its head gives.")
            return body
        if self._framing == "none":
            return b""
        if self._framing == "chunked":
            body = b"%x\r\n%b\r\n" % (len(body), body) if body else b""
            return body if more else body + b"0\r\n\r\n"
        return body


def header_lines(headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """These headers, with the empty line behind them."""
    lines = list(map(b": ".join, headers))
    text = b"".join(lines)
    if b"\n" in text or b"\r" in text:
        raise RuntimeError("A header has a line break.")
    lines.append(b"\r\n")
    return b"\r\n".join(lines)


def error_answer(error: AntiphonError, headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """The complete answer to a request that does not reach the application."""
    body = msgspec.json.encode({"error": error.to_wire()})
    own = (
        (b"content-type", b"application/json"),
        (b"content-length", b"%d" % len(body)),
        (b"connection", b"close"),
    )
    return STATUS_LINES[error.status] + header_lines((*headers, *own)) + body
