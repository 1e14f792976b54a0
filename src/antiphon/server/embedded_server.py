"""A server beside something else in one process: it leaves signals alone, and ends when its context does."""

import asyncio
import socket
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager, suppress

import uvicorn

from antiphon.errors import Unavailable
from antiphon.server.app import App
from antiphon.server.process import make_config

MAX_MESSAGE = 32 * 1024 * 1024
Build = Callable[[Callable[[App], None]], App]
"""Makes the application; what it is given is to be called when that has started."""


class _Beside(uvicorn.Server):
    """uvicorn, but signals are not for it."""

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """None."""
        yield


@asynccontextmanager
async def serve_embedded(
    build: Build, listener: socket.socket, *, max_message: int = MAX_MESSAGE
) -> AsyncGenerator[None, None]:
    """Serve for as long as the context lasts. Whoever is still connected at its end is cut off."""
    started: asyncio.Future[App] = asyncio.get_running_loop().create_future()
    config = make_config(
        lambda: build(started.set_result), workers=1, drain=0, log_level="warning", max_message=max_message
    )
    server = _Beside(config)
    running = asyncio.create_task(_run(server, listener))
    await asyncio.wait({started, running}, return_when=asyncio.FIRST_COMPLETED)
    if not started.done():
        raise Unavailable("The server could not start; its log says why.")
    try:
        yield
    finally:
        server.should_exit = True
        started.result().lifetimes.drain(0)
        await running


async def _run(server: uvicorn.Server, listener: socket.socket) -> None:
    with suppress(SystemExit):  # its way to say that the application did not start
        await server.serve(sockets=[listener])
