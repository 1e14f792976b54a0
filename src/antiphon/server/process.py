"""The server process: uvicorn's `Server` on a socket that we bind, with our protocols, and signals.

SIGTERM and SIGINT begin the drain at once; uvicorn alone notifies the application only after the last stream
has ended. SIGHUP reloads the settings in every worker; uvicorn alone restarts one worker after the other and
cuts its streams. If SIGHUP comes because the terminal was closed, the server stops.
"""

import asyncio
import ctypes
import errno
import gc
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from types import FrameType
from typing import Any, cast

import uvicorn
from uvicorn.supervisors import Multiprocess

from antiphon.errors import AddressInUse, SettingsError
from antiphon.server.app import App
from antiphon.server.http_protocol import HttpProtocol
from antiphon.server.receive_queue import ReceiveQueue
from antiphon.server.websocket_protocol import ReceiveLimits, WebSocketProtocol
from antiphon.thread_priority import let_event_loop_go_first

logger = logging.getLogger(__name__)

PING_SECONDS = 20.0
"""Between two pings of a WebSocket; a client that does not answer within this time is disconnected."""
ACCEPTS_AT_ONCE = 32
"""Connections that are accepted in each iteration of the event loop."""
SWITCH_SECONDS = 0.002
"""After this time, another thread gives the interpreter's lock back to the event loop, which gives it up at
every system call. Python's default is 5 ms; with 0.5 ms, a stored response was read a tenth slower."""
LARGE_BLOCK_BYTES = 1024 * 1024
_M_MMAP_THRESHOLD = -3
"""The name of the parameter in glibc's `malloc.h`."""


def bind(host: str, port: int) -> socket.socket:
    """A socket bound to this address; raises `SettingsError`."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        failure = AddressInUse if error.errno == errno.EADDRINUSE else SettingsError
        raise failure(
            f"Cannot listen on {host}:{port}: {error.strerror}. Choose another port with --port."
        ) from None
    return listener


@contextmanager
def copies_of(listener: socket.socket) -> Generator[list[socket.socket], None, None]:
    """The listener and copies of it. uvloop accepts one connection of each in an iteration of the event loop:
    while iterations take 10 ms, a new client would wait for seconds behind a few hundred others."""
    with ExitStack() as copies:
        yield [listener, *(copies.enter_context(listener.dup()) for _ in range(ACCEPTS_AT_ONCE - 1))]


def make_config(
    build_app: Callable[[], App],
    *,
    workers: int,
    drain: float,
    log_level: str,
    max_message: int,
    receive_limits: ReceiveLimits | None = None,
) -> uvicorn.Config:
    """uvicorn with our protocols and our logging."""
    limits = receive_limits or ReceiveLimits()
    # Compression is declined: 31 kB would become a message of 31 MB, and every event would cost more CPU.
    return uvicorn.Config(
        cast("Any", build_app),
        factory=True,
        http=cast("Any", partial(HttpProtocol, receive_queue=ReceiveQueue())),
        ws=cast("Any", partial(WebSocketProtocol, limits=limits)),
        ws_max_size=max_message,
        ws_ping_interval=PING_SECONDS,
        ws_ping_timeout=PING_SECONDS,
        ws_per_message_deflate=False,
        loop="auto",
        lifespan="on",
        workers=workers,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        log_config=None,
        log_level="warning",  # at debug it logs what clients send, including their keys
        timeout_graceful_shutdown=int(drain) + 3,
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
    receive_limits: ReceiveLimits,
    reread: Callable[[], bool],
) -> None:
    """Serve until a signal to stop; returns when everything has ended. `reread` reloads the settings for new
    workers, and returns whether they are valid."""
    config = make_config(
        build_app,
        workers=workers,
        drain=drain,
        log_level=log_level,
        max_message=max_message,
        receive_limits=receive_limits,
    )
    if workers > 1:
        with copies_of(listener) as listeners:
            Workers(config, listeners, reread).run()
        return
    server = uvicorn.Server(config)

    def stop(_number: int, _frame: FrameType | None) -> None:
        # Before uvicorn handles signals there is nothing to end; afterwards it raises them again.
        if not server.started:
            raise SystemExit(0)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    with copies_of(listener) as listeners:
        server.run(sockets=listeners)


class Workers(Multiprocess):
    """uvicorn's supervisor, except that SIGHUP does not replace the workers: they reload the settings, and so
    does the replacement of one that dies."""

    def __init__(
        self, config: uvicorn.Config, listeners: list[socket.socket], reread: Callable[[], bool]
    ) -> None:
        self._hung_up = hangup()
        self._reread = reread
        super().__init__(config, sockets=listeners)

    def handle_hup(self) -> None:
        """The settings have changed, or the terminal was closed. A worker that has not started yet dies
        of the signal and is replaced."""
        if self._hung_up():
            self.should_exit.set()
        elif self._reread():
            for process in self.processes:
                if process.pid is not None:
                    with suppress(ProcessLookupError):
                        os.kill(process.pid, signal.SIGHUP)


def hangup() -> Callable[[], bool]:
    """A check whether SIGHUP came because the terminal was closed. If the server was started with the signal
    ignored, as by `nohup`, it outlives the terminal."""
    if not hasattr(signal, "SIGHUP"):  # not on Windows
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
    """Call this in the event loop at every SIGHUP. `alone`: no supervisor watches the terminal."""
    loop, hung_up = asyncio.get_running_loop(), hangup()

    def handle(_number: int, _frame: FrameType | None) -> None:
        if alone and hung_up():
            signal.raise_signal(signal.SIGTERM)
        else:
            loop.call_soon_threadsafe(reload)

    if hasattr(signal, "SIGHUP"):
        signal.signal(signal.SIGHUP, handle)


def spare_collector() -> None:
    """Make the garbage collector scan new objects only, and rarely.

    Objects that exist after the start stay, and requests leave few cycles. Without this, a tenth of the time
    is spent on scanning modules and classes again and again.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)


def return_large_blocks() -> None:
    """Make the C library return every freed block of a megabyte or more to the system at once.

    glibc alone raises this threshold up to 32 MB with the blocks that it sees: then the large bodies of a
    moment stay in the process for ever, as holes between other blocks.
    """
    with suppress(OSError, AttributeError):  # a library without `mallopt`: musl, macOS, Windows
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, LARGE_BLOCK_BYTES)


def prefer_event_loop() -> None:
    """Let the event loop go before the other threads of this process."""
    sys.setswitchinterval(SWITCH_SECONDS)
    executor = ThreadPoolExecutor(thread_name_prefix="antiphon-work", initializer=let_event_loop_go_first)
    asyncio.get_running_loop().set_default_executor(executor)


def stop_tracking_generators() -> None:
    """Do not register every async generator of this event loop in a set of weak references.

    asyncio does that to close abandoned ones at its end. Ours are closed by the code that iterates over them,
    and a request has five. One that is abandoned is still closed when it is collected.
    """
    sys.set_asyncgen_hooks(firstiter=None)


def drain_on_signals(grace: float, app: App) -> None:
    """Begin the drain at a signal to stop, then call the previous handler."""
    loop = asyncio.get_running_loop()
    for signal_number in (signal.SIGTERM, signal.SIGINT):
        previous = signal.getsignal(signal_number)

        def drain(number: int, frame: FrameType | None, previous: object = previous) -> None:
            logger.info("stopping: open work gets up to %g s", grace)
            loop.call_soon_threadsafe(app.lifetimes.drain, grace)
            if callable(previous):
                previous(number, frame)

        signal.signal(signal_number, drain)
