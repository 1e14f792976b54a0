"""How fast new connections are accepted."""

import asyncio
import socket
from contextlib import ExitStack

import uvicorn
import uvloop

from antiphon.server.http_protocol import HttpProtocol
from antiphon.server.process import ACCEPTS_AT_ONCE, bind, copies_of
from antiphon.server.types import Receive, Scope, Send
from tests.uvicorn_here import Server

CLIENTS = 40 * ACCEPTS_AT_ONCE


async def no_answer(_scope: Scope, _receive: Receive, _send: Send) -> None:
    raise AssertionError("no request is sent")


async def iterations_to_accept_all() -> int:
    """Of the event loop, for connections that were made while it was held."""
    config = uvicorn.Config(no_answer, http=HttpProtocol, lifespan="off", log_config=None)
    server, iterations = Server(config), 0
    with bind("127.0.0.1", 0) as listener, copies_of(listener) as listeners, ExitStack() as clients:
        running = asyncio.create_task(server.serve(sockets=listeners))
        await server.ready.wait()
        for _ in range(CLIENTS):
            clients.enter_context(socket.create_connection(listener.getsockname()))
        while len(server.server_state.connections) < CLIENTS:
            await asyncio.sleep(0)
            iterations += 1
        server.should_exit = True
        await running
    return iterations


def test_several_connections_are_accepted_in_each_iteration_of_the_event_loop() -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        iterations = runner.run(iterations_to_accept_all())
    assert iterations < 2 * CLIENTS // ACCEPTS_AT_ONCE
