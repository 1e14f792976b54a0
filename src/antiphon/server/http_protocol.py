"""HTTP/1.1 as a server: one connection on httptools. Its requests are answered in `request_cycle.py`.

uvicorn's `Server` opens the connections, and ends them through `shutdown`. Everything that a client can make
a connection hold is bounded here: the head by its bytes, its headers and its time; trailers; what was
received and not yet read; answers that the client does not read; requests that are sent ahead.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Iterable
from typing import Any, Literal, cast
from urllib.parse import unquote

import httptools
import uvicorn
from uvicorn.protocols.utils import get_local_addr, get_remote_addr
from uvicorn.server import ServerState

from antiphon.errors import (
    AntiphonError,
    HeadersTooLarge,
    InvalidRequest,
    UnsupportedHttpVersion,
    drop_tracebacks,
)
from antiphon.server.receive_queue import ReceiveQueue
from antiphon.server.request_cycle import RequestCycle, error_answer, header_lines
from antiphon.server.send_watch import CHECK_SECONDS, CLOSE_TIMEOUT_SECONDS, SEND_TIMEOUT_SECONDS, SendWatch
from antiphon.server.types import ASGIApp, Scope

logger = logging.getLogger(__name__)

HEAD_TIMEOUT_SECONDS = 10.0
"""A request's head must be complete within this time."""
IDLE_TIMEOUT_SECONDS = 75.0
"""A connection without a request is closed after this time."""
MAX_HEAD_BYTES = 64 * 1024
MAX_HEADERS = 200
MAX_TRAILERS = 200
MAX_URL_BYTES = 16 * 1024
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
        *,
        receive_queue: ReceiveQueue | None = None,
    ) -> None:
        if not config.loaded:
            config.load()
        self._config = config
        self._app = cast("ASGIApp", cast("Any", config).loaded_app)
        self._app_state = app_state
        self._receive_queue = receive_queue or ReceiveQueue()
        self.loop = _loop or asyncio.get_running_loop()
        self.server_state = server_state
        self.tasks = server_state.tasks
        self.parser: httptools.HttpRequestParser | None = None
        self.transport: asyncio.Transport
        self._head_since: float | None = None
        """Since when the head of a request is due."""
        self._idle_since: float | None = None
        self._written_bytes = 0
        """Handed to the transport so far."""
        self._closing = False
        self.until_writable: asyncio.Future[None] | None = None
        self._reading: Literal["yes", "paused", "queued"] = "yes"
        self._url = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._trailers = 0
        self._unparsed_bytes = 0
        """Received since the last head began, or since the last byte of a body."""
        self._received: RequestCycle | None = None
        """The request whose body is received."""
        self._answered: RequestCycle | None = None
        """The request that the application answers."""
        self._refusal: AntiphonError | None = None
        """Why what follows the requests so far cannot be parsed; sent after their answers."""
        self._pipelined: deque[RequestCycle] = deque()

    # The transport's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport = cast("asyncio.Transport", transport)
        self.server_state.connections.add(self)  # pyright: ignore[reportArgumentType] -- a union of uvicorn's own
        self._client, self._server = get_remote_addr(transport), get_local_addr(transport)
        self._scheme = "https" if transport.get_extra_info("sslcontext") else "http"
        self._new_parser()
        self._head_since = self.loop.time()
        self._send_watch = SendWatch(self._head_since)
        self._timer = self.loop.call_later(CHECK_SECONDS, self._check_times)

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._release()
        for cycle in (self._received, self._answered, *self._pipelined):
            if cycle is not None:
                cycle.disconnect()
        self._pipelined.clear()
        self._received = self._answered = None
        self.resume_writing()

    def data_received(self, data: bytes) -> None:
        if self.parser is None:
            return
        self._unparsed_bytes += len(data)
        parser, behind_upgrade = self.parser, None
        try:
            parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            behind_upgrade = data[upgrade.args[0] :]
        except httptools.HttpParserError as error:
            cause = error.__context__
            drop_tracebacks(error)  # their frames hold the connection with its headers
            self._refuse(cause if isinstance(cause, AntiphonError) else _malformed())
            return
        if behind_upgrade is not None:
            self._upgrade(parser, behind_upgrade)
        elif self._unparsed_bytes > MAX_HEAD_BYTES:
            self._refuse(_head_too_large())

    def pause_writing(self) -> None:
        """The client reads more slowly than the application answers."""
        if self.until_writable is None:
            self.until_writable = self.loop.create_future()

    def resume_writing(self) -> None:
        if self.until_writable is not None:
            waiter, self.until_writable = self.until_writable, None
            waiter.set_result(None)

    def shutdown(self) -> None:
        """The server stops: close now, or after the current answer."""
        if self._answered is None:
            self._close()
        else:
            self._answered.keep_alive = False

    def _check_times(self) -> None:
        self._timer = self.loop.call_later(CHECK_SECONDS, self._check_times)
        now, unsent = self.loop.time(), self.transport.get_write_buffer_size()
        stalled = self._send_watch.stalled_seconds(unsent, self._written_bytes - unsent, now)
        if stalled >= (CLOSE_TIMEOUT_SECONDS if self._closing else SEND_TIMEOUT_SECONDS):
            logger.info("a client does not read its answer: disconnected")
            self.transport.abort()
        if self._answered is None and (
            _over(self._head_since, now, HEAD_TIMEOUT_SECONDS)
            or _over(self._idle_since, now, IDLE_TIMEOUT_SECONDS)
        ):
            self._close()

    def _close(self) -> None:
        """Close when everything is sent; the timer waits for that."""
        self._closing = True
        self.transport.close()

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
            self._trailers += 1
            if self._trailers > MAX_TRAILERS:  # a read holds tens of thousands
                raise _head_too_large()
            return
        if len(self._headers) >= MAX_HEADERS:
            raise _head_too_large()
        self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        self._head_since = None
        self._trailers = 0
        parser = self.parser
        assert parser is not None
        if parser.should_upgrade():  # the parser stops behind this head
            return
        version = parser.get_http_version()
        if version not in ("1.1", "1.0"):
            raise UnsupportedHttpVersion
        if len(self._url) > MAX_URL_BYTES:
            raise _head_too_large()
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
            self._pipelined.append(cycle)

    def on_body(self, body: bytes) -> None:
        self._unparsed_bytes = 0
        if self._received is not None and self._received.receive_piece(body) > MAX_UNREAD_BODY_BYTES:
            self.pause_reading()

    def on_message_complete(self) -> None:
        self._unparsed_bytes = 0
        cycle, self._received = self._received, None
        if cycle is not None:
            cycle.receive_end()
            if self.parser is not None and not self.parser.should_keep_alive():  # a trailer may say so
                cycle.keep_alive = False
                if cycle.answered:
                    self._close()

    # The application's side

    def _start(self, cycle: RequestCycle) -> None:
        self._answered = cycle
        cycle.task = self.loop.create_task(cycle.run(self._app))
        self.tasks.add(cycle.task)

    def answer_ended(self, cycle: RequestCycle) -> None:
        """Begin the next request, or close."""
        self.server_state.total_requests += 1
        self._answered = None
        if not cycle.keep_alive:
            self._close()
        if self.transport.is_closing():
            return
        self.resume_now()
        if self._pipelined:
            self._start(self._pipelined.popleft())
        elif self._refusal is not None:
            self._send_refusal(self._refusal)
        elif self._head_since is not None:  # of a request that was sent ahead in part
            self._head_since = self.loop.time()
        else:
            self._idle_since = self.loop.time()

    def pause_reading(self) -> None:
        if self._reading == "yes":
            self._reading = "paused"
            self.transport.pause_reading()

    def resume_reading(self) -> None:
        """Receive more of a body, when this connection's turn has come."""
        if self._reading == "paused":
            self._reading = "queued"
            self._receive_queue.resume(self)

    def resume_now(self) -> None:
        """Receive again, if that was paused."""
        if self._reading != "yes" and not self.transport.is_closing():
            self._reading = "yes"
            self.transport.resume_reading()

    def write(self, data: bytes) -> None:
        """Send this after what was sent before."""
        self._written_bytes += len(data)
        self.transport.write(data)

    # Endings

    def _upgrade(self, parser: httptools.HttpRequestParser, rest: bytes) -> None:
        """Hand the connection over to the WebSocket protocol. Any other upgrade is ignored, as HTTP allows:
        Java's client offers HTTP/2 in this way with every request."""
        method, version = parser.get_method(), parser.get_http_version()
        headers = self._headers
        if method == b"CONNECT":
            self._refuse(_malformed())
        elif [value.strip().lower() for name, value in headers if name == b"upgrade"] != [b"websocket"]:
            self._new_parser()
            plain = [header for header in headers if header[0] != b"upgrade"]
            self.data_received(_head(method, self._url, version, plain) + rest)
        elif self._answered is not None:
            self._refuse(
                InvalidRequest("A WebSocket needs a connection without other requests.", code="invalid_http")
            )
        else:
            self._release()
            open_websocket = cast("Any", self._config.ws_protocol_class)
            protocol = open_websocket(
                config=self._config, server_state=self.server_state, app_state=self._app_state
            )
            protocol.connection_made(self.transport)
            protocol.data_received(_head(method, self._url, version, headers))
            self.transport.set_protocol(protocol)

    def _refuse(self, error: AntiphonError) -> None:
        """Answer what cannot be parsed, and close. Requests before it are answered first; nothing more is
        parsed."""
        self.parser = None
        logger.info("a request was refused: %d %s", error.status, error.message)
        broken, self._received = self._received, None
        if broken is not None and broken.answered:
            self._close()
        elif self._answered is None:
            self._send_refusal(error)
        elif broken is not None and broken is self._answered:
            # Its body is malformed: the application learns that no more comes, and answers nothing.
            broken.disconnect()
            if broken.unanswered:
                self._answered = None
                self._send_refusal(error)
            else:
                self._close()
        else:
            if broken is not None:
                self._pipelined.remove(broken)
            self._refusal = error

    def _send_refusal(self, error: AntiphonError) -> None:
        self.write(error_answer(error, self.server_state.default_headers))
        self._close()


def _head(method: bytes, url: bytes, version: str, headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """The head of a request, as it was received."""
    return b"%b %b HTTP/%b\r\n" % (method, url, version.encode()) + header_lines(headers)


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
    return InvalidRequest("This is not a valid HTTP request.", code="invalid_http")


def _head_too_large() -> AntiphonError:
    return HeadersTooLarge(
        f"The head of a request has at most {MAX_HEAD_BYTES} bytes and {MAX_HEADERS} headers."
    )
