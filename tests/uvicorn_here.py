"""An application on a real uvicorn, in this process and on a free port of loopback."""

import asyncio
import socket
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import uvicorn

from antiphon.server.app import App
from antiphon.server.process import bind, copies_of, make_config
from antiphon.server.websocket_protocol import ReceiveLimits

TEST_TIMEOUT_SECONDS = 60.0


class Server(uvicorn.Server):
    """A uvicorn server whose start can be awaited."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.ready.set()


@dataclass(frozen=True)
class Here:
    """A running server."""

    server: Server
    port: int


@asynccontextmanager
async def serve_here(
    app: Callable[[], App],
    *,
    drain: float = 0,
    max_message: int = 2**20,
    receive_limits: ReceiveLimits | None = None,
    on_leaving: Callable[[], None] = lambda: None,
) -> AsyncGenerator[Here, None]:
    """Serve it until the end of the block; `on_leaving` is called when the server is stopped."""
    config = make_config(
        app,
        workers=1,
        drain=drain,
        log_level="warning",
        max_message=max_message,
        receive_limits=receive_limits,
    )
    with bind("127.0.0.1", 0) as listener, copies_of(listener) as listeners:
        server = Server(config)
        running = asyncio.create_task(server.serve(sockets=listeners))
        await asyncio.wait_for(server.ready.wait(), TEST_TIMEOUT_SECONDS)
        try:
            yield Here(server, listener.getsockname()[1])
        finally:
            server.should_exit = True
            on_leaving()
            await asyncio.wait_for(running, TEST_TIMEOUT_SECONDS)
