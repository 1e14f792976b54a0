"""HTTP/1.1 as a server: one connection on httptools. Its requests are answered in `request_cycle.py`.

uvicorn's `Server` opens the connections, and ends them through `shutdown`. Everything that a client can make
a connection hold is bounded here: the head by its bytes, its headers and its time; what was received and not
yet read; answers that the client does not read; requests that are sent ahead.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Iterable
from typing import Any, cast
from urllib.parse import unquote

import httptools
import msgspec
import uvicorn
from uvicorn.protocols.utils import get_local_addr, get_remote_addr
from uvicorn.server import ServerState

from antiphon.errors import AntiphonError, HeadersTooLarge, InvalidRequest, UnsupportedHttpVersion
from antiphon.server.request_cycle import STATUS_LINES, RequestCycle, header_lines
from antiphon.server.types import ASGIApp, Scope

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


_ASGI = {"version": "3.0", "spec_version": "2.3"}


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
        self.transport.write(STATUS_LINES[error.status] + header_lines(headers) + body)
        self.transport.close()


def _head(method: bytes, url: bytes, headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """The head of a request, as it was received."""
    return b"%b %b HTTP/1.1\r\n" % (method, url) + header_lines(headers)


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
