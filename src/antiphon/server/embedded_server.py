"""A server inside another program: it leaves signals alone, and ends with its context."""

import asyncio
import socket
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager, suppress

import uvicorn

from antiphon.errors import Unavailable
from antiphon.server.app import App
from antiphon.server.process import copies_of, make_config

MAX_MESSAGE_BYTES = 32 * 1024 * 1024
Build = Callable[[Callable[[App], None]], App]
"""Makes the application, which calls the given function when it has started."""


class _EmbeddedServer(uvicorn.Server):
    """uvicorn without signal handlers."""

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield


@asynccontextmanager
async def serve_embedded(
    build: Build, listener: socket.socket, *, max_message: int = MAX_MESSAGE_BYTES
) -> AsyncGenerator[None, None]:
    """Serve for as long as the context lasts. At its end, connected clients are disconnected."""
    started: asyncio.Future[App] = asyncio.get_running_loop().create_future()
    config = make_config(
        lambda: build(started.set_result), workers=1, drain=0, log_level="warning", max_message=max_message
    )
    server = _EmbeddedServer(config)
    running = asyncio.create_task(_run(server, listener))
    await asyncio.wait({started, running}, return_when=asyncio.FIRST_COMPLETED)
    if not started.done():
        raise Unavailable("The server could not start; see its log.")
    try:
        yield
    finally:
        server.should_exit = True
        started.result().lifetimes.drain(0)
        await running


async def _run(server: uvicorn.Server, listener: socket.socket) -> None:
    with copies_of(listener) as listeners, suppress(SystemExit):  # raised if the application does not start
        await server.serve(sockets=listeners)
