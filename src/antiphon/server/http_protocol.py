"""HTTP/1.1 as a server: one connection on httptools, and the answers to its requests as ASGI.

uvicorn's `Server` opens the connections, and ends them through `shutdown`. Everything that a client can make
a connection hold is bounded here: the head by its bytes, its headers and its time; what was received and not
yet read; answers that the client does not read; requests that are sent ahead.
"""

import asyncio
import http
import logging
from collections import deque
from collections.abc import Iterable
from typing import Any, Literal, cast
from urllib.parse import unquote

import httptools
import msgspec
import uvicorn
from uvicorn.protocols.utils import get_local_addr, get_remote_addr
from uvicorn.server import ServerState

from antiphon.errors import AntiphonError, HeadersTooLarge, InvalidRequest, UnsupportedHttpVersion
from antiphon.server.types import ASGIApp, Message, Scope

logger = logging.getLogger(__name__)

HEAD_TIMEOUT_SECONDS = 10.0
"""A request's head must be complete within this time."""
IDLE_TIMEOUT_SECONDS = 75.0
"""A connection without a request is closed after this time."""
SEND_TIMEOUT_SECONDS = 60.0
"""A client that reads too slowly to empty the write buffer within this time is disconnected."""
CHECK_SECONDS = 5.0
"""Between two checks of these times, by one timer per connection."""
MAX_HEAD_BYTES = 64 * 1024
MAX_HEADERS = 200
MAX_UNREAD_BODY_BYTES = 64 * 1024
"""Beyond this, nothing more is received until the application has read the body."""
MAX_PIPELINED_REQUESTS = 32
MAX_JOINED_BYTES = 64 * 1024
"""Up to this size the first bytes of a body are copied behind the head."""

_STATUS_LINES = {
    status: f"HTTP/1.1 {status} {phrase}\r\n".encode()
    for status in range(200, 600)
    for phrase in [http.HTTPStatus(status).phrase if status in set(http.HTTPStatus) else ""]
}
_BODILESS = (204, 304)
_ASGI = {"version": "3.0", "spec_version": "2.3"}
_DISCONNECT: Message = {"type": "http.disconnect"}


class HttpProtocol(asyncio.Protocol):
    """One connection. httptools calls the `on_` methods while it parses."""

    def __init__(
        self,
        config: uvicorn.Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        if not config.loaded:
            config.load()
        self._config = config
        self._app = cast("ASGIApp", cast("Any", config).loaded_app)
        self._app_state = app_state
        self.loop = _loop or asyncio.get_running_loop()
        self.server_state = server_state
        self.tasks = server_state.tasks
        self.parser: httptools.HttpRequestParser | None = None
        self.transport: asyncio.Transport
        self._head_since: float | None = None
        """Since when the head of a request is due."""
        self._idle_since: float | None = None
        self._blocked_since: float | None = None
        """Since when the client does not read."""
        self._writable: asyncio.Future[None] | None = None
        self._reading = True
        self._url = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._unparsed_bytes = 0
        """Received since the last head began, or since the last byte of a body."""
        self._received: RequestCycle | None = None
        """The request whose body is received."""
        self._answered: RequestCycle | None = None
        """The request that the application answers."""
        self._pipelined: deque[RequestCycle] = deque()

    # The transport's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport = cast("asyncio.Transport", transport)
        self.server_state.connections.add(self)  # pyright: ignore[reportArgumentType] -- a union of uvicorn's own
        self._client, self._server = get_remote_addr(transport), get_local_addr(transport)
        self._scheme = "https" if transport.get_extra_info("sslcontext") else "http"
        self._new_parser()
        self._head_since = self.loop.time()
        self._timer = self.loop.call_later(CHECK_SECONDS, self._check_times)

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._release()
        for cycle in (self._received, self._answered, *self._pipelined):
            if cycle is not None:
                cycle.disconnect()
        self._pipelined.clear()
        self.resume_writing()

    def data_received(self, data: bytes) -> None:
        if self.parser is None:
            return
        self._unparsed_bytes += len(data)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._upgrade(self.parser, data[upgrade.args[0] :])
        except httptools.HttpParserError as error:
            cause = error.__context__
            self._refuse(cause if isinstance(cause, AntiphonError) else _malformed())
        else:
            if self._unparsed_bytes > MAX_HEAD_BYTES:
                self._refuse(_head_too_large())

    def pause_writing(self) -> None:
        """The client reads more slowly than the application answers."""
        if self._writable is None:
            self._writable = self.loop.create_future()
            self._blocked_since = self.loop.time()

    def resume_writing(self) -> None:
        if self._writable is not None:
            self._blocked_since = None
            waiter, self._writable = self._writable, None
            waiter.set_result(None)

    def shutdown(self) -> None:
        """The server stops: close now, or after the current answer."""
        if self._answered is None:
            self.transport.close()
        else:
            self._answered.keep_alive = False

    def _check_times(self) -> None:
        now = self.loop.time()
        if _over(self._blocked_since, now, SEND_TIMEOUT_SECONDS):
            logger.info("a client did not read its answer for %g s: disconnected", SEND_TIMEOUT_SECONDS)
            self.transport.abort()
        elif _over(self._head_since, now, HEAD_TIMEOUT_SECONDS) or _over(
            self._idle_since, now, IDLE_TIMEOUT_SECONDS
        ):
            self.transport.close()
        else:
            self._timer = self.loop.call_later(CHECK_SECONDS, self._check_times)

    def _new_parser(self) -> None:
        self.parser = httptools.HttpRequestParser(self)
        # A request behind one with `Connection: close` is ignored, not an error that replaces the answer.
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)

    def _release(self) -> None:
        """This protocol handles the connection no longer."""
        self.server_state.connections.discard(self)  # pyright: ignore[reportArgumentType] -- a union of uvicorn's own
        self._timer.cancel()
        self.parser = None

    # The parser's side

    def on_message_begin(self) -> None:
        self._url, self._headers, self._unparsed_bytes = b"", [], 0
        self._idle_since = None
        if self._head_since is None:
            self._head_since = self.loop.time()

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._head_since is None:  # a trailer
            return
        if len(self._headers) >= MAX_HEADERS:
            raise _head_too_large()
        self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        self._head_since = None
        parser = self.parser
        assert parser is not None
        if parser.should_upgrade():  # the parser stops behind this head
            return
        version = parser.get_http_version()
        if version not in ("1.1", "1.0"):
            raise UnsupportedHttpVersion
        if len(self._pipelined) >= MAX_PIPELINED_REQUESTS:
            raise InvalidRequest(
                f"More than {MAX_PIPELINED_REQUESTS} requests were sent ahead on one connection."
            )
        path, raw_path, query = _split_url(self._url)
        scope: Scope = {
            "type": "http",
            "asgi": _ASGI,
            "http_version": version,
            "method": parser.get_method().decode("ascii"),
            "scheme": self._scheme,
            "path": path,
            "raw_path": raw_path,
            "query_string": query,
            "root_path": "",
            "headers": self._headers,
            "client": self._client,
            "server": self._server,
        }
        cycle = RequestCycle(self, scope, keep_alive=version == "1.1" and parser.should_keep_alive())
        self._received = cycle
        if self._answered is None:
            self._start(cycle)
        else:
            self.pause_reading()
            self._pipelined.append(cycle)

    def on_body(self, body: bytes) -> None:
        self._unparsed_bytes = 0
        if self._received is not None and self._received.receive_piece(body) > MAX_UNREAD_BODY_BYTES:
            self.pause_reading()

    def on_message_complete(self) -> None:
        self._unparsed_bytes = 0
        if self._received is not None:
            self._received.receive_end()
            self._received = None

    # The application's side

    def _start(self, cycle: "RequestCycle") -> None:
        self._answered = cycle
        cycle.task = self.loop.create_task(cycle.run(self._app))
        self.tasks.add(cycle.task)

    def answer_ended(self, cycle: "RequestCycle") -> None:
        """Begin the next request, or close."""
        self.server_state.total_requests += 1
        self._answered = None
        if not cycle.keep_alive:
            self.transport.close()
        if self.transport.is_closing():
            return
        self.resume_reading()
        if self._pipelined:
            self._start(self._pipelined.popleft())
        else:
            self._idle_since = self.loop.time()

    def pause_reading(self) -> None:
        if self._reading:
            self._reading = False
            self.transport.pause_reading()

    def resume_reading(self) -> None:
        if not self._reading:
            self._reading = True
            self.transport.resume_reading()

    def writable(self) -> asyncio.Future[None] | None:
        """Wait for this before you write, if it is not `None`."""
        return self._writable

    # Endings

    def _upgrade(self, parser: httptools.HttpRequestParser, rest: bytes) -> None:
        """Hand the connection over to the WebSocket protocol. Any other upgrade is ignored, as HTTP allows:
        Java's client offers HTTP/2 in this way with every request."""
        url, headers = self._url, self._headers
        method = parser.get_method()
        if method == b"CONNECT":
            self._refuse(_malformed())
            return
        offered = [value.strip().lower() for name, value in headers if name == b"upgrade"]
        if offered != [b"websocket"]:
            self._new_parser()
            plain = [header for header in headers if header[0] != b"upgrade"]
            self.data_received(_head(method, url, plain) + rest)
            return
        self._release()
        open_websocket = cast("Any", self._config.ws_protocol_class)
        protocol = open_websocket(
            config=self._config, server_state=self.server_state, app_state=self._app_state
        )
        protocol.connection_made(self.transport)
        protocol.data_received(_head(method, url, headers))
        self.transport.set_protocol(protocol)

    def _refuse(self, error: AntiphonError) -> None:
        """Answer what cannot be parsed and close; a current answer is completed first."""
        self.parser = None
        logger.info("a request was refused: %d %s", error.status, error.message)
        if self._answered is not None:
            self._answered.keep_alive = False
            self.pause_reading()
            return
        body = msgspec.json.encode({"error": error.to_wire()})
        headers = (
            *self.server_state.default_headers,
            (b"content-type", b"application/json"),
            (b"content-length", b"%d" % len(body)),
            (b"connection", b"close"),
        )
        self.transport.write(_STATUS_LINES[error.status] + _lines(headers) + body)
        self.transport.close()


class RequestCycle:
    """One request and the answer to it, as the `receive` and `send` of ASGI."""

    __slots__ = (
        "_body",
        "_disconnected",
        "_expects_continue",
        "_framing",
        "_head",
        "_more_body",
        "_phase",
        "_protocol",
        "_remaining",
        "_scope",
        "_unread",
        "_waiter",
        "keep_alive",
        "task",
    )

    def __init__(self, protocol: HttpProtocol, scope: Scope, *, keep_alive: bool) -> None:
        self._protocol = protocol
        self._scope = scope
        self.keep_alive = keep_alive
        self.task: asyncio.Task[None] | None = None
        self._expects_continue = (b"expect", b"100-continue") in scope["headers"]
        self._body = b""
        self._more_body = True
        self._unread = False
        """Whether a piece of the body, or its end, waits to be read by the application."""
        self._disconnected = False
        self._waiter: asyncio.Future[None] | None = None
        self._phase: Literal["unanswered", "begun", "sending", "answered"] = "unanswered"
        self._head = b""
        self._framing: Literal["length", "chunked", "none"] = "length"
        """How the client finds the end of the body: by its length or that of the connection, or by chunks."""
        self._remaining: int | None = None
        """The bytes of the body that are still due, where the head gives their number."""

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
                self._protocol.tasks.discard(self.task)
        if self._phase != "answered" and not self._disconnected:
            logger.error("the application did not complete its answer")
            self._break_off()

    def _break_off(self) -> None:
        """Close the connection, so that the client does not take the part for the whole."""
        if self._phase == "begun":
            self._protocol.transport.write(self._head)
        self._protocol.transport.close()

    # The request

    def receive_piece(self, body: bytes) -> int:
        """More of the body has arrived. Returns how many bytes of it wait to be read."""
        if self._phase == "answered":
            return 0
        self._body = self._body + body if self._body else body
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
        if self._expects_continue and not self._disconnected:
            self._expects_continue = False
            self._protocol.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        while not (self._unread or self._disconnected or self._phase == "answered"):
            self._protocol.resume_reading()
            self._waiter = waiter = self._protocol.loop.create_future()
            await waiter
        if self._disconnected or self._phase == "answered":
            return _DISCONNECT
        body, self._body, self._unread = self._body, b"", False
        return {"type": "http.request", "body": body, "more_body": self._more_body}

    # The answer

    async def send(self, message: Message) -> None:
        """ASGI: the head of the answer, then its body. The head leaves with the first piece of the body: one
        system call and one packet for a JSON answer."""
        while (writable := self._protocol.writable()) is not None and not self._disconnected:
            await asyncio.shield(writable)
        if self._disconnected:
            return
        kind = message["type"]
        if kind == "http.response.body":
            self._send_body(message.get("body", b""), more=message.get("more_body", False))
        elif kind == "http.response.start":
            self._begin(message["status"], message.get("headers", ()))
        else:
            raise RuntimeError(f"An answer has no message of the type {kind}.")

    def _begin(self, status: int, headers: Iterable[tuple[bytes, bytes]]) -> None:
        if self._phase != "unanswered":
            raise RuntimeError("An answer has one head only.")
        if self._expects_continue:  # whether the client still sends the body is not known
            self.keep_alive = False
        kept = list(self._protocol.server_state.default_headers)
        for header in headers:
            name, value = header
            if name == b"content-length":
                self._remaining = int(value)
            elif name == b"connection" and value == b"close":
                self.keep_alive = False
                continue
            kept.append(header)
        if status in _BODILESS or self._scope["method"] == "HEAD":
            self._framing, self._remaining = "none", None
        elif self._remaining is None and self._scope["http_version"] == "1.1":
            self._framing = "chunked"
            kept.append((b"transfer-encoding", b"chunked"))
        elif self._remaining is None:  # HTTP/1.0: the body ends with the connection
            self.keep_alive = False
        if not self.keep_alive:
            kept.append((b"connection", b"close"))
        self._head = _STATUS_LINES[status] + _lines(kept)
        self._phase = "begun"

    def _send_body(self, body: bytes, *, more: bool) -> None:
        if self._phase in ("unanswered", "answered"):
            raise RuntimeError("A body belongs between the head of an answer and its end.")
        body = self._framed(body, more=more)
        transport = self._protocol.transport
        if self._phase == "begun":
            self._phase = "sending"
            if len(body) <= MAX_JOINED_BYTES:
                body = self._head + body
            else:
                transport.write(self._head)
        if body:
            transport.write(body)
        if not more:
            self._phase = "answered"
            self._wake()
            self._protocol.answer_ended(self)

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


def _lines(headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """These headers, with the empty line behind them."""
    lines = [b"%b: %b\r\n" % header for header in headers]
    text = b"".join(lines)
    if text.count(b"\n") != len(lines) or text.count(b"\r") != len(lines):
        raise RuntimeError("A header has a line break.")
    return text + b"\r\n"


def _head(method: bytes, url: bytes, headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """The head of a request, as it was received."""
    return b"%b %b HTTP/1.1\r\n" % (method, url) + _lines(headers)


def _split_url(url: bytes) -> tuple[str, bytes, bytes]:
    """The path, the path as it was sent, and the query of a request's target."""
    if url.startswith(b"/") and b"#" not in url:
        raw_path, _, query = url.partition(b"?")
    else:
        try:
            parsed = httptools.parse_url(url)
        except httptools.HttpParserError:
            raise _malformed() from None
        raw_path, query = parsed.path or b"", parsed.query or b""
    path = raw_path.decode("ascii")
    return (unquote(path) if "%" in path else path), raw_path, query


def _over(since: float | None, now: float, seconds: float) -> bool:
    return since is not None and now - since >= seconds


def _malformed() -> AntiphonError:
    return InvalidRequest("This is not a valid HTTP/1.1 request.", code="invalid_http")


def _head_too_large() -> AntiphonError:
    return HeadersTooLarge(
        f"The head of a request has at most {MAX_HEAD_BYTES} bytes and {MAX_HEADERS} headers."
    )
