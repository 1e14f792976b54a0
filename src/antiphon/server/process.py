"""The server process: uvicorn on a socket that we bind, with a deadline for headers and a clean end.

SIGTERM and SIGINT begin the drain at once; uvicorn alone would tell the application only after the last
stream has ended.
"""

import asyncio
import gc
import logging
import signal
import socket
from collections.abc import Callable
from types import FrameType
from typing import Any, cast

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.supervisors import Multiprocess

from antiphon.errors import SettingsError
from antiphon.server.app import App

logger = logging.getLogger(__name__)

HEADER_TIMEOUT = 10.0
"""Seconds within which a request's head must be complete."""


class GuardedProtocol(HttpToolsProtocol):
    """uvicorn's protocol, except that half a request's head does not hold a connection for ever.

    One timer per connection looks now and then; a request costs it two assignments.
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
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        """The first byte of a head."""
        super().on_message_begin()
        self._head_since = self.loop.time()

    def on_headers_complete(self) -> None:
        """The head is whole."""
        self._head_since = None
        super().on_headers_complete()

    def _set_timer(self) -> None:
        self._timer = self.loop.call_later(HEADER_TIMEOUT / 2, self._look)

    def _look(self) -> None:
        if self._head_since is not None and self.loop.time() - self._head_since >= HEADER_TIMEOUT:
            self.transport.close()
        else:
            self._set_timer()


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


def serve(
    build_app: Callable[[], App], listener: socket.socket, *, workers: int, drain: float, log_level: str
) -> None:
    """Serve until told to stop; returns when everything has ended."""
    config = uvicorn.Config(
        cast("Any", build_app),
        factory=True,
        http=GuardedProtocol,
        ws="none",
        loop="auto",
        lifespan="on",
        workers=workers,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        log_config=None,
        log_level=log_level if log_level == "debug" else "warning",
        timeout_graceful_shutdown=int(drain) + 3,
        timeout_keep_alive=75,
        backlog=2048,
    )
    if workers > 1:
        Multiprocess(config, sockets=[listener]).run()
        return
    server = uvicorn.Server(config)

    def stop(_number: int, _frame: FrameType | None) -> None:
        # Before uvicorn listens for signals there is nothing to end; after it did, it raises them again.
        if not server.started:
            raise SystemExit(0)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    server.run(sockets=[listener])


def spare_collector() -> None:
    """Let the garbage collector look at new objects only, and seldom.

    What stands after the start stays; a request leaves next to no cycles. Without this, a tenth of the time
    goes into looking at modules and classes again and again.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)


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
