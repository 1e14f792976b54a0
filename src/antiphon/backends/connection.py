"""HTTP/1.1 to an upstream, on asyncio transports and httptools: as much of it as a gateway needs.

Keep-alive connections, one request at a time on each; bodies with a length, in chunks, or up to the close;
back-pressure; bounded heads. No redirects, cookies, proxies, compression or pipelining: a model's server
needs none of them, and each would be a way to be surprised.

A wait on an `Answer` can be interrupted from outside without harm (`Answer.interrupt`): that is how
heartbeats and deadlines cost nothing per read.
"""

import asyncio
import ssl
from typing import cast

import httptools

MAX_HEAD = 64 * 1024
"""Bytes of status line and headers that an answer may have."""
HIGH_WATER = 256 * 1024
"""Bytes that may wait to be read before the upstream is made to wait."""
INTERRUPTED = b""
"""What `Answer.read` returns when it was interrupted."""


class ConnectionFault(Exception):
    """The exchange cannot go on."""


class Disconnected(ConnectionFault):
    """The connection was closed before a byte of the answer came."""


class CutOff(ConnectionFault):
    """The connection was closed in the middle of the answer."""


class NotHttp(ConnectionFault):
    """What came is not an HTTP answer that we read."""


class Answer:
    """The answer to one request, as it arrives."""

    __slots__ = (
        "_connection",
        "_fault",
        "_interrupted",
        "_pieces",
        "_size",
        "_waiter",
        "complete",
        "headers",
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
        self.status = 0
        self.headers: dict[str, str] = {}
        self.started = False
        """Whether the whole head has come."""
        self.complete = False
        """Whether the whole body has come."""

    async def head(self) -> bool:
        """Wait for the head; False if the wait was interrupted."""
        while not self.started:
            if self._fault is not None:
                raise self._fault
            if not await self._wait():
                return False
        return True

    async def read(self) -> bytes | None:
        """All bytes that have come and were not read yet, or `INTERRUPTED`; None after the last."""
        while not self._pieces:
            if self.complete:
                return None
            if self._fault is not None:
                raise self._fault
            if not await self._wait():
                return INTERRUPTED
        data = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        self._pieces = []
        self._size = 0
        self._connection.resume()
        return data

    def interrupt(self) -> None:
        """End a wait that is under way."""
        if self._waiter is not None and not self._waiter.done():
            self._interrupted = True
            self._waiter.set_result(None)

    @property
    def waiting(self) -> bool:
        """Whether somebody waits for more."""
        return self._waiter is not None

    def close(self, *, linger: float = 0.0) -> None:
        """Let go of the connection: it goes back to the pool when the answer is complete, else it is cut.

        With `linger`, the end of an answer whose content is known gets so many seconds to arrive.
        """
        self._connection.release(self, linger)

    async def _wait(self) -> bool:
        """Wait for something to happen; False if that was an interruption."""
        self._waiter = self._connection.loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None
        interrupted, self._interrupted = self._interrupted, False
        return not interrupted

    def wake(self) -> None:
        """Something happened."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def fail(self, fault: ConnectionFault) -> None:
        """Nothing more will come."""
        if not self.complete and self._fault is None:
            self._fault = fault
        self.wake()

    def take(self, data: bytes) -> bool:
        """A piece of the body; whether the upstream should wait."""
        self._pieces.append(data)
        self._size += len(data)
        self.wake()
        return self._size > HIGH_WATER


class Connection(asyncio.Protocol):
    """One connection. httptools calls the `on_` methods while it parses."""

    def __init__(self, loop: asyncio.AbstractEventLoop, pool: "Pool") -> None:
        self.loop = loop
        self._pool = pool
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._answer: Answer | None = None
        self._head_size = 0
        self._framed = False
        self._paused = False
        self._keep_alive = False
        self._lingering: asyncio.TimerHandle | None = None

    @property
    def usable(self) -> bool:
        """Whether another request can be sent."""
        return self._transport is not None and not self._transport.is_closing() and self._answer is None

    def send(self, request: bytes) -> Answer:
        """Send a request; its answer begins to arrive."""
        assert self._transport is not None
        assert self._answer is None
        answer = self._answer = Answer(self)
        self._head_size = 0
        self._framed = self._keep_alive = False
        self._transport.write(request)
        return answer

    def release(self, answer: Answer, linger: float) -> None:
        """The reader is done with its answer."""
        if answer is not self._answer:
            return
        self.resume()
        if not answer.complete and linger:
            self._lingering = self.loop.call_later(linger, self.abort)
            return
        self._answer = None
        if answer.complete and self._keep_alive and self._transport and not self._transport.is_closing():
            self._pool.put_back(self)
        else:
            self.abort()

    def resume(self) -> None:
        """There is room again."""
        if self._paused and self._transport is not None:
            self._paused = False
            self._transport.resume_reading()

    def abort(self) -> None:
        """Cut the connection."""
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """asyncio: connected."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is no subclass of asyncio's

    def data_received(self, data: bytes) -> None:
        """asyncio: bytes."""
        answer = self._answer
        if answer is None:
            self.abort()  # nobody asked
            return
        if not answer.started:
            self._head_size += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._give_up(NotHttp(str(error)[:200]))
        if not answer.started and self._head_size > MAX_HEAD:
            self._give_up(NotHttp("its headers are too large"))

    def connection_lost(self, exc: Exception | None) -> None:
        """asyncio: gone."""
        self._transport = None
        self._pool.forget(self)
        if self._lingering is not None:
            self._lingering.cancel()
            self._lingering = None
        answer = self._answer
        if answer is None:
            return
        if answer.started and not self._framed and exc is None:
            # A body without a length ends with the connection.
            answer.complete = True
            answer.wake()
        else:
            answer.fail(CutOff() if self._head_size else Disconnected())

    def _give_up(self, fault: ConnectionFault) -> None:
        if self._answer is not None:
            self._answer.fail(fault)
        self.abort()

    def on_status(self, _reason: bytes) -> None:
        """httptools: the status line is read."""
        if self._answer is not None:
            self._answer.headers = {}

    def on_header(self, name: bytes, value: bytes) -> None:
        """httptools: a header."""
        if self._answer is not None:
            self._answer.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        """httptools: the head is whole. A 1xx is not the answer yet."""
        answer = self._answer
        status = self._parser.get_status_code()
        if answer is None or 100 <= status < 200:
            return
        answer.status = status
        answer.started = True
        self._framed = "content-length" in answer.headers or "transfer-encoding" in answer.headers
        self._keep_alive = self._parser.should_keep_alive()
        answer.wake()

    def on_body(self, data: bytes) -> None:
        """httptools: a piece of the body."""
        if self._answer is None or self._lingering is not None:
            return
        if self._answer.take(data) and not self._paused and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()

    def on_message_complete(self) -> None:
        """httptools: the answer is whole."""
        answer = self._answer
        if answer is None or not answer.started:
            return
        answer.complete = True
        answer.wake()
        if self._lingering is not None:
            self._lingering.cancel()
            self._lingering = None
            self.release(answer, 0.0)


class Pool:
    """The idle connections to one origin, newest first."""

    def __init__(self, host: str, port: int, tls: ssl.SSLContext | None) -> None:
        self._host, self._port, self._tls = host, port, tls
        self._idle: list[Connection] = []
        self._open: set[Connection] = set()
        self._loop: asyncio.AbstractEventLoop | None = None

    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop of the connections. Remembered: asking for the running one is a system call."""
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        return self._loop

    def take(self) -> Connection | None:
        """An idle connection, if there is one."""
        while self._idle:
            connection = self._idle.pop()
            if connection.usable:
                return connection
        return None

    async def connect(self) -> Connection:
        """A new connection; `OSError` says why there is none."""
        loop = self.loop()
        _, connection = await loop.create_connection(
            lambda: Connection(loop, self),
            self._host,
            self._port,
            ssl=self._tls,
            server_hostname=self._host if self._tls else None,
        )
        self._open.add(connection)
        return connection

    def put_back(self, connection: Connection) -> None:
        """It is idle."""
        self._idle.append(connection)

    def forget(self, connection: Connection) -> None:
        """It is gone."""
        self._open.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)

    def close(self) -> None:
        """Cut all connections."""
        for connection in list(self._open):
            connection.abort()
