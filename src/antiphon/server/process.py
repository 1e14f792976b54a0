"""The server process: uvicorn on a socket that we bind, with a deadline for headers and a clean end.

SIGTERM and SIGINT begin the drain at once; uvicorn alone would tell the application only after the last
stream has ended. SIGHUP reads the settings again in every worker; uvicorn alone would end one worker after
the other, with its streams. If the terminal is gone, SIGHUP means that: then it is the end.
"""

import asyncio
import gc
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any, cast

import msgspec
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from uvicorn.supervisors import Multiprocess

from antiphon.errors import InvalidRequest, SettingsError
from antiphon.server.app import App

logger = logging.getLogger(__name__)

HEADER_TIMEOUT = 10.0
"""Seconds within which a request's head must be complete."""
PING_INTERVAL = 20.0
"""Seconds between two pings of a WebSocket; a client that does not answer for as long is gone."""
CLOSE_TIMEOUT = 2.0
"""Seconds that a client gets to answer our goodbye."""


MAX_JOINED_BYTES = 64 * 1024
"""Up to this size the first bytes of a body are copied behind the head."""


class JoinedHead:
    """The transport of one answer until its first body bytes, which then leave with the head in one write.

    uvicorn writes the head and the body one after the other: two system calls and, without Nagle's algorithm,
    two packets for each JSON answer.
    """

    __slots__ = ("_cycle", "_head", "_transport")

    def __init__(self, cycle: RequestResponseCycle) -> None:
        self._cycle = cycle
        self._transport = cycle.transport
        self._head: bytes | None = None

    def write(self, data: bytes) -> None:
        """Hold the head; send it with whatever follows, be it empty."""
        if not self._cycle.response_started:  # 100 Continue
            self._transport.write(data)
        elif self._head is None:
            self._head = data
        else:
            self._cycle.transport = self._transport
            if len(data) <= MAX_JOINED_BYTES:
                self._transport.write(self._head + data)
            else:
                self._transport.write(self._head)
                self._transport.write(data)

    def is_closing(self) -> bool:
        return self._transport.is_closing()

    def close(self) -> None:
        """Send a held head first: the application failed after it."""
        if self._head is not None:
            self._transport.write(self._head)
        self._transport.close()


class GuardedProtocol(HttpToolsProtocol):
    """uvicorn's protocol, except that an incomplete head does not hold a connection for ever, and that an
    answer's head leaves with the first bytes of its body.

    One timer per connection checks the head's deadline; a request costs two assignments.
    """

    _timer: asyncio.TimerHandle | None = None
    _head_since: float | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride] -- uvicorn's own narrowing
        """A new connection must say something."""
        super().connection_made(transport)
        self._head_since = self.loop.time()
        self._set_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing left to watch."""
        self._cancel_timer()
        super().connection_lost(exc)

    def handle_websocket_upgrade(self) -> None:
        """From here on the connection belongs to another protocol, and we would not hear of its end."""
        self._cancel_timer()
        super().handle_websocket_upgrade()

    def on_message_begin(self) -> None:
        """The first byte of a head."""
        super().on_message_begin()
        self._head_since = self.loop.time()

    def on_headers_complete(self) -> None:
        """The head is complete, and the task that answers was created; it runs later."""
        self._head_since = None
        previous = self.cycle
        super().on_headers_complete()
        if self.cycle is not previous and self.scope["method"] != "HEAD":  # has no body
            self.cycle.transport = cast("asyncio.Transport", JoinedHead(self.cycle))

    def _set_timer(self) -> None:
        self._timer = self.loop.call_later(HEADER_TIMEOUT / 2, self._look)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        if self._head_since is not None and self.loop.time() - self._head_since >= HEADER_TIMEOUT:
            self.transport.close()
        else:
            self._set_timer()


def _bad_handshake() -> bytes:
    """The answer to a handshake that is none, whole."""
    error = InvalidRequest(
        "This WebSocket handshake cannot be read. Send a GET with at most 128 headers of up to 8 kB.",
        code="invalid_handshake",
    )
    body = msgspec.json.encode({"error": error.to_wire()})
    head = (
        "HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\n"
        f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
    )
    return head.encode() + body


_BAD_HANDSHAKE = _bad_handshake()


class DrainedWebSocket(WebSocketsSansIOProtocol):
    """uvicorn's protocol, except that the application ends an open socket, not the server's shutdown.

    At a signal to stop, uvicorn alone would cut every socket at once, in the middle of an answer.
    """

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A new socket."""
        super().connection_made(transport)
        self.close_timeout = CLOSE_TIMEOUT

    def data_received(self, data: bytes) -> None:
        """Bytes of a handshake or of frames. uvicorn alone never answers a handshake that it cannot read."""
        super().data_received(data)
        if self.conn.handshake_exc is not None and not self.handshake_initiated:
            self.close_sent = True
            self.transport.write(_BAD_HANDSHAKE)
            self.transport.close()

    def shutdown(self) -> None:
        """The server stops: the drain gives open sockets their time and then closes them."""
        if self.close_sent or not self.handshake_complete:
            super().shutdown()

    def keepalive_timeout(self) -> None:
        """The client does not answer, so it may not read either: do not wait until it has read the rest."""
        super().keepalive_timeout()
        self.transport.abort()


def bind(host: str, port: int) -> socket.socket:
    """A socket on this address; the error says what to do."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise SettingsError(
            f"Cannot listen on {host}:{port}: {error.strerror}. Choose another port with --port."
        ) from None
    return listener


def make_config(
    build_app: Callable[[], App], *, workers: int, drain: float, log_level: str, max_message: int
) -> uvicorn.Config:
    """How uvicorn serves us: our protocols, our logging, its framing."""
    return uvicorn.Config(
        cast("Any", build_app),
        factory=True,
        http=GuardedProtocol,
        ws=DrainedWebSocket,
        ws_max_size=max_message,
        ws_ping_interval=PING_INTERVAL,
        ws_ping_timeout=PING_INTERVAL,
        ws_per_message_deflate=True,
        loop="auto",
        lifespan="on",
        workers=workers,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        log_config=None,
        log_level="warning",  # at debug it would log what clients send, their keys included
        timeout_graceful_shutdown=int(drain) + 3,
        timeout_keep_alive=75,
        backlog=2048,
    )


def serve(
    build_app: Callable[[], App],
    listener: socket.socket,
    *,
    workers: int,
    drain: float,
    log_level: str,
    max_message: int,
    reread: Callable[[], bool],
) -> None:
    """Serve until told to stop; returns when everything has ended. `reread`: read the settings again, for
    workers to come; whether they are good."""
    config = make_config(
        build_app, workers=workers, drain=drain, log_level=log_level, max_message=max_message
    )
    if workers > 1:
        Workers(config, listener, reread).run()
        return
    server = uvicorn.Server(config)

    def stop(_number: int, _frame: FrameType | None) -> None:
        # Before uvicorn listens for signals there is nothing to end; after it did, it raises them again.
        if not server.started:
            raise SystemExit(0)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    server.run(sockets=[listener])


class Workers(Multiprocess):
    """uvicorn's supervisor, except that SIGHUP does not replace the workers: they live on and read the
    settings again, as does whoever takes the place of one that dies."""

    def __init__(self, config: uvicorn.Config, listener: socket.socket, reread: Callable[[], bool]) -> None:
        self._hung_up = hangup()
        self._reread = reread
        super().__init__(config, sockets=[listener])

    def handle_hup(self) -> None:
        """The settings have changed, or the terminal is gone. One that has not started yet dies of the signal
        and is replaced."""
        if self._hung_up():
            self.should_exit.set()
        elif self._reread():
            for process in self.processes:
                if process.pid is not None:
                    with suppress(ProcessLookupError):
                        os.kill(process.pid, signal.SIGHUP)


def hangup() -> Callable[[], bool]:
    """How to find out whether SIGHUP means the end of the terminal that we were started from. Who began us
    with the signal ignored, as `nohup` does, wants us to outlive it."""
    if not hasattr(signal, "SIGHUP"):  # Windows has none
        return lambda: False
    bound = signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN and _has_terminal()
    return lambda: bound and not _has_terminal()


def _has_terminal() -> bool:
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return False
    return True


def reload_on_signal(reload: Callable[[], None], *, alone: bool) -> None:
    """From now on, SIGHUP calls this in the event loop. `alone`: no supervisor minds the terminal for us."""
    loop, hung_up = asyncio.get_running_loop(), hangup()

    def hear(_number: int, _frame: FrameType | None) -> None:
        if alone and hung_up():
            signal.raise_signal(signal.SIGTERM)
        else:
            loop.call_soon_threadsafe(reload)

    if hasattr(signal, "SIGHUP"):
        signal.signal(signal.SIGHUP, hear)


def spare_collector() -> None:
    """Let the garbage collector look at new objects only, and seldom.

    What stands after the start stays; a request leaves next to no cycles. Without this, a tenth of the time
    goes into looking at modules and classes again and again.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)


def stop_tracking_generators() -> None:
    """Do not register every async generator of this event loop in a set of weak references.

    asyncio does that to close abandoned ones at its end. Ours are closed by the code that iterates over them,
    and a request has five. One that is abandoned is still closed when it is collected.
    """
    sys.set_asyncgen_hooks(firstiter=None)


def drain_on_signals(grace: float, app: App) -> None:
    """From now on, a signal to stop begins the drain, and then goes where it went before."""
    loop = asyncio.get_running_loop()
    for signal_number in (signal.SIGTERM, signal.SIGINT):
        previous = signal.getsignal(signal_number)

        def drain(number: int, frame: FrameType | None, previous: object = previous) -> None:
            logger.info("told to stop: open work gets up to %g s", grace)
            loop.call_soon_threadsafe(app.lifetimes.drain, grace)
            if callable(previous):
                previous(number, frame)

        signal.signal(signal_number, drain)
