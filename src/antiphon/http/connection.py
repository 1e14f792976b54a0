"""HTTP/1.1 as a client, on asyncio transports and httptools: the part of it that calls of an API need.

Keep-alive connections, one request at a time on each; bodies with a length, in chunks, or up to the close;
back-pressure; bounded heads. No redirects, cookies, proxies, compression or pipelining.

A wait on an `IncomingResponse` can be interrupted without loss (`interrupt`): heartbeats and deadlines cost
nothing per read.
"""

import asyncio
import ssl
from collections import deque
from collections.abc import Sequence
from typing import cast

import httptools

from antiphon.errors import AntiphonError, drop_tracebacks
from antiphon.http.egress import ALLOW_CONFIGURED, Destination, EgressPolicy

MAX_HEAD_BYTES = 64 * 1024
"""Size limit of status line and headers together."""
MAX_UNREAD_BYTES = 256 * 1024
"""Beyond this many unread bytes the server is made to wait."""
MAX_READ_BYTES = 16 * 1024
"""More is read in slices, and other tasks run before each further one: a server that floods does not hold the
event loop."""
MAX_WRITTEN_BYTES = 256 * 1024
"""Of a large request, in one iteration of the event loop: to write 31 MB at once held it for 60 ms."""
MAX_IDLE_CONNECTIONS = 256
"""Of one pool; beyond this the connection that is idle for the longest time is closed."""
IDLE_TIMEOUT_SECONDS = 60.0
"""An idle connection is closed after this time, at the latest after twice of it."""
SPARE_FROM_CONNECTIONS = 8
"""From so many open connections on, one more is opened when the last idle one is taken. Servers with fewer
may have a thread for each."""
INTERRUPTED = b""
"""The result of a `read` that was interrupted."""


class ConnectionFault(Exception):
    """The response cannot be received."""


class Disconnected(ConnectionFault):
    """The connection was closed before the first byte of the response."""


class CutOff(ConnectionFault):
    """The connection was closed in the middle of the response."""


class NotHttp(ConnectionFault):
    """The bytes received are not an HTTP response within our limits."""


class IncomingResponse:
    """The response to one request, as it arrives."""

    __slots__ = (
        "_connection",
        "_fault",
        "_interrupted",
        "_pieces",
        "_size",
        "_sliced",
        "_waiter",
        "complete",
        "headers",
        "media_type",
        "started",
        "status",
    )

    def __init__(self, connection: "Connection") -> None:
        self._connection = connection
        self._waiter: asyncio.Future[None] | None = None
        self._interrupted = False
        self._fault: ConnectionFault | None = None
        self._pieces: list[bytes] = []
        self._size = 0
        self._sliced = False
        """Whether the last read left bytes unread."""
        self.status = 0
        self.headers: dict[str, str] = {}
        self.media_type = ""
        """Without its parameters, in lower case."""
        self.started = False
        """Whether the head is complete."""
        self.complete = False
        """Whether the body is complete."""

    async def head(self) -> bool:
        """Wait for the head; False if the wait was interrupted."""
        while not self.started:
            if self._fault is not None:
                raise self._fault
            self._waiter = self._connection.loop.create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
            if self._interrupted:
                self._interrupted = False
                return False
        return True

    @property
    def exhausted(self) -> bool:
        """Whether everything was read."""
        return self.complete and not self._pieces

    def read_now(self) -> bytes:
        """Unread bytes, if they came in one piece; else `read` is needed."""
        if len(self._pieces) != 1 or self._sliced:
            return b""
        self._size = 0
        self._connection.resume()
        return self._pieces.pop()

    async def read(self) -> bytes | None:
        """Unread bytes, or `INTERRUPTED`; None after the last ones."""
        while not self._pieces:
            if self.complete:
                return None
            if self._fault is not None:
                raise self._fault
            # As in `head`, without a coroutine of its own: this is where every token arrives.
            self._waiter = self._connection.loop.create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
            if self._interrupted:
                self._interrupted = False
                return INTERRUPTED
        if self._sliced:
            await asyncio.sleep(0)
        if self._size > MAX_READ_BYTES:
            return self._slice()
        data = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        self._pieces = []
        self._size = 0
        self._sliced = False
        if self._connection.paused:
            self._connection.resume()
        return data

    def _slice(self) -> bytes:
        """The first unread bytes. The server waits on until the others are read, too."""
        size = end = 0
        while end == 0 or size + len(self._pieces[end]) <= MAX_READ_BYTES:
            size += len(self._pieces[end])
            end += 1
        data = b"".join(self._pieces[:end])
        del self._pieces[:end]
        self._size -= size
        self._sliced = True
        return data

    def interrupt(self) -> None:
        """End the current wait, if there is one."""
        if self._waiter is not None and not self._waiter.done():
            self._interrupted = True
            self._waiter.set_result(None)

    @property
    def waiting(self) -> bool:
        """Whether a reader waits for bytes."""
        return self._waiter is not None

    def close(self, *, linger: float = 0.0) -> None:
        """Release the connection: to the pool if the response is complete, else it is aborted.

        With `linger`, a response that is not complete gets so many seconds to become so.
        """
        self._connection.release(self, linger)

    def wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def fail(self, fault: ConnectionFault) -> None:
        """End the response with a fault."""
        if not self.complete and self._fault is None:
            self._fault = fault
        self.wake()

    def take(self, data: bytes) -> bool:
        """Add a piece of the body; returns whether too much is unread."""
        if len(data) <= MAX_READ_BYTES:
            self._pieces.append(data)
        else:
            starts = range(0, len(data), MAX_READ_BYTES)
            self._pieces += [data[start : start + MAX_READ_BYTES] for start in starts]
        self._size += len(data)
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)
        return self._size > MAX_UNREAD_BYTES


class Connection(asyncio.Protocol):
    """One connection. httptools calls the `on_` methods while it parses."""

    def __init__(self, loop: asyncio.AbstractEventLoop, pool: "Pool") -> None:
        self.loop = loop
        self._pool = pool
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._response: IncomingResponse | None = None
        self._head_size = 0
        self._framed = False
        self._bodiless = False
        self.paused = False
        """Whether the server is kept from sending more until what it has sent is read."""
        self._unsent: deque[bytes] = deque()
        """Pieces of the request."""
        self._blocked = False
        """Whether the server does not read what was sent."""
        self._keep_alive = False
        self._lingering: asyncio.TimerHandle | None = None
        self.idle_since = 0.0

    @property
    def usable(self) -> bool:
        """Whether a request can be sent now."""
        return self._transport is not None and not self._transport.is_closing() and self._response is None

    def send(
        self, request: bytes, pieces: Sequence[bytes] = (), *, bodiless: bool = False
    ) -> IncomingResponse:
        """Send a request. `pieces` of its body follow it; `bodiless`: its method is HEAD, whose response ends
        with its headers."""
        assert self._transport is not None
        assert self._response is None
        response = self._response = IncomingResponse(self)
        self._head_size = 0
        self._framed = self._keep_alive = False
        self._bodiless = bodiless
        self._transport.write(request)
        if pieces:
            self._unsent.extend(pieces)
            self._send_pieces()
        return response

    def _send_pieces(self) -> None:
        """Write some of the pieces, and the next ones in the next iteration, or when the server has read."""
        written = 0
        while self._unsent and self._transport is not None and not self._blocked:
            if written >= MAX_WRITTEN_BYTES:
                self.loop.call_soon(self._send_pieces)
                return
            piece = self._unsent.popleft()
            written += len(piece)
            self._transport.write(piece)

    def pause_writing(self) -> None:
        """Called by the transport when much was not sent yet."""
        self._blocked = True

    def resume_writing(self) -> None:
        """Called by the transport when that was sent."""
        self._blocked = False
        self._send_pieces()

    def release(self, response: IncomingResponse, linger: float) -> None:
        """Called when the reader needs the response no longer."""
        if response is not self._response:
            return
        self.resume()
        if not response.complete and linger:
            self._lingering = self.loop.call_later(linger, self.abort)
            return
        self._response = None
        is_open = self._transport is not None and not self._transport.is_closing()
        if response.complete and self._keep_alive and is_open and not self._unsent:
            self._pool.put_back(self)
        else:
            self.abort()

    def resume(self) -> None:
        """Receive again after a pause."""
        if self.paused and self._transport is not None:
            self.paused = False
            self._transport.resume_reading()

    def abort(self) -> None:
        """Close the connection at once."""
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is no subclass of asyncio's

    def data_received(self, data: bytes) -> None:
        response = self._response
        if response is None:
            self.abort()  # bytes without a request
            return
        if not response.started:
            self._head_size += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._give_up(NotHttp(str(error)[:200]))
        if not response.started and self._head_size > MAX_HEAD_BYTES:
            self._give_up(NotHttp("its headers are too large"))

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._unsent.clear()
        self._pool.forget(self)
        if self._lingering is not None:
            self._lingering.cancel()
            self._lingering = None
        response = self._response
        if response is None:
            return
        if response.started and not self._framed and exc is None:
            # A body without a length ends with the connection.
            response.complete = True
            response.wake()
        else:
            response.fail(CutOff() if self._head_size else Disconnected())

    def _give_up(self, fault: ConnectionFault) -> None:
        if self._response is not None:
            self._response.fail(fault)
        self.abort()

    def on_status(self, _reason: bytes) -> None:
        if self._response is not None:
            self._response.headers = {}

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._response is not None:
            self._response.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        """The head is complete. A 1xx response is not the final one."""
        response = self._response
        status = self._parser.get_status_code()
        if response is None or 100 <= status < 200:
            return
        response.status = status
        response.media_type = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        response.started = True
        self._framed = "content-length" in response.headers or "transfer-encoding" in response.headers
        self._keep_alive = self._parser.should_keep_alive() and not self._bodiless
        response.complete = self._bodiless  # the parser waits for a body that will not come
        response.wake()

    def on_body(self, data: bytes) -> None:
        if self._response is None or self._lingering is not None:
            return
        if self._response.take(data) and not self.paused and self._transport is not None:
            self.paused = True
            self._transport.pause_reading()

    def on_message_complete(self) -> None:
        response = self._response
        if response is None or not response.started:
            return
        response.complete = True
        response.wake()
        if self._lingering is not None:
            self._lingering.cancel()
            self._lingering = None
            self.release(response, 0.0)


class Pool:
    """The connections to one origin; of the idle ones the newest is used first, so that the others can be
    closed when they are not needed any more."""

    def __init__(
        self, host: str, port: int, tls: ssl.SSLContext | None, egress: EgressPolicy = ALLOW_CONFIGURED
    ) -> None:
        self._destination = Destination(host, port, tls is not None)
        self._tls = tls
        self._egress = egress
        self._idle: list[Connection] = []
        self._open: set[Connection] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._cleanup: asyncio.TimerHandle | None = None
        self._spare: asyncio.Task[None] | None = None
        """Opens a connection that no request waits for."""

    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop of the connections. Cached: `get_running_loop` makes a system call."""
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        return self._loop

    def take(self) -> Connection | None:
        """An idle connection, or None."""
        while self._idle:
            connection = self._idle.pop()
            if connection.usable:
                if not self._idle and len(self._open) >= SPARE_FROM_CONNECTIONS and self._spare is None:
                    self._spare = self.loop().create_task(self._open_spare())
                return connection
        return None

    async def _open_spare(self) -> None:
        """Open a connection for the next request. On a busy server, one that has to open its own waits for
        five iterations of the event loop, and for the handshake of TLS."""
        try:
            self.put_back(await self.connect())
        except (OSError, AntiphonError) as error:  # a request that needs a connection reports it
            drop_tracebacks(error)
        finally:
            self._spare = None

    async def connect(self) -> Connection:
        """Open a connection that the egress policy permits. Raises `OSError` or the error of the policy."""
        loop = self.loop()
        host = await self._egress.permit(self._destination)
        _, connection = await loop.create_connection(
            lambda: Connection(loop, self),
            host,
            self._destination.port,
            ssl=self._tls,
            server_hostname=self._destination.host if self._tls else None,
        )
        self._open.add(connection)
        return connection

    def put_back(self, connection: Connection) -> None:
        connection.idle_since = connection.loop.time()
        self._idle.append(connection)
        if len(self._idle) > MAX_IDLE_CONNECTIONS:
            self._idle.pop(0).abort()
        if self._cleanup is None:
            self._cleanup = connection.loop.call_later(IDLE_TIMEOUT_SECONDS, self._close_idle)

    def _close_idle(self) -> None:
        """Close the connections that nobody has used for a while; the list is ordered by that time."""
        loop = self.loop()
        before = loop.time() - IDLE_TIMEOUT_SECONDS
        while self._idle and self._idle[0].idle_since <= before:
            self._idle.pop(0).abort()
        self._cleanup = loop.call_later(IDLE_TIMEOUT_SECONDS, self._close_idle) if self._idle else None

    def forget(self, connection: Connection) -> None:
        self._open.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)

    def close(self) -> None:
        """Abort all connections."""
        if self._cleanup is not None:
            self._cleanup.cancel()
        if self._spare is not None:
            self._spare.cancel()
        for connection in list(self._open):
            connection.abort()
