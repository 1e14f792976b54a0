"""Sockets on a real uvicorn in this process: handshake, compression, sizes, and server shutdown."""

import asyncio
import gc
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, cast

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from antiphon.backends.scripted import ScriptedBackend
from antiphon.caller import Caller
from antiphon.protocol.profile import OPENAI
from antiphon.server.app import App
from antiphon.server.http_protocol import HttpProtocol
from antiphon.server.types import Receive, Scope, Send
from antiphon.server.websocket.endpoint import SocketClient
from antiphon.server.websocket_protocol import ReceiveLimits, WebSocketProtocol
from antiphon.turn.chunks import TextDelta
from tests.server.test_websocket_streams import Gate
from tests.server.websocket_client import TERMINAL, TEST_TIMEOUT_SECONDS, World
from tests.turn.order import check_order
from tests.uvicorn_here import Server, serve_here

MAX_MESSAGE = 10_000
CREATE = {"type": "response.create", "model": "m", "input": "hi", "store": False}


@dataclass
class Wire:
    """A running server."""

    server: Server
    port: int

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.port}/v1/responses"

    @property
    def sockets(self) -> list[WebSocketProtocol]:
        return [
            protocol
            for protocol in self.server.server_state.connections
            if isinstance(protocol, WebSocketProtocol)
        ]


@asynccontextmanager
async def serving(
    world: World, *, max_message: int = MAX_MESSAGE, receive_limits: ReceiveLimits | None = None
) -> AsyncGenerator[Wire, None]:
    """The endpoint on a free port."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await world.endpoint.serve(
                scope, receive, send, SocketClient(lambda: Caller.of("tenant"), OPENAI, "req_1", "tenant")
            )
            return
        for kind in ("startup", "shutdown"):
            await receive()
            await send({"type": f"lifespan.{kind}.complete"})

    async with serve_here(
        lambda: cast("App", app),
        drain=5,
        max_message=max_message,
        receive_limits=receive_limits,
        on_leaving=lambda: world.lifetimes.drain(0),
    ) as here:
        yield Wire(here.server, here.port)


async def events_of_turn(client: ClientConnection) -> list[dict[str, Any]]:
    """The events of one turn."""
    events: list[dict[str, Any]] = []
    while not events or events[-1]["type"] not in TERMINAL:
        events.append(json.loads(await asyncio.wait_for(client.recv(), TEST_TIMEOUT_SECONDS)))
    return events


@pytest.mark.requirement("PROTOCOL/websocket-compressed")
async def test_an_offer_of_compression_is_declined() -> None:
    async with serving(World(ScriptedBackend.saying("Hel", "lo"))) as wire, connect(wire.url) as client:
        assert client.request is not None
        assert "permessage-deflate" in client.request.headers["sec-websocket-extensions"]
        assert client.protocol.extensions == []
        assert client.response is not None
        assert client.response.headers["x-request-id"] == "req_1"
        await client.send(json.dumps(CREATE))
        check_order(await events_of_turn(client))


async def test_a_message_beyond_the_limit_closes_the_socket() -> None:
    async with serving(World(ScriptedBackend.saying("a"))) as wire, connect(wire.url) as client:
        await client.send(json.dumps({**CREATE, "input": "x" * 2 * MAX_MESSAGE}))
        with pytest.raises(ConnectionClosed) as closed:
            await asyncio.wait_for(client.recv(), TEST_TIMEOUT_SECONDS)
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1009


async def test_a_rejected_handshake_is_answered_with_the_error_object() -> None:
    world = World(ScriptedBackend.saying("a"))
    async with serving(world) as wire:
        world.lifetimes.drain(60)
        with pytest.raises(InvalidStatus) as refused:
            await connect(wire.url).__aenter__()
        assert refused.value.response.status_code == 503
        assert refused.value.response.headers["content-type"] == "application/json"
        error = json.loads(refused.value.response.body or b"")["error"]
        assert error["code"] == "server_unavailable"


@pytest.mark.parametrize(
    "head",
    [
        b"POST /v1/responses HTTP/1.1\r\n",
        b"GET /v1/responses HTTP/1.1\r\nx-big: %b\r\n" % (b"y" * 9000),
        b"GET /v1/responses HTTP/1.1\r\n" + b"x-many: y\r\n" * 200,
        b"GET /v1/responses HTTP/1.1\r\nsec-websocket-version: 12\r\n",
    ],
)
async def test_an_invalid_handshake_is_answered_and_closed(head: bytes) -> None:
    async with serving(World(ScriptedBackend.saying("a"))) as wire:
        reader, writer = await asyncio.open_connection("127.0.0.1", wire.port)
        writer.write(head + b"host: localhost\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n")
        answer = await asyncio.wait_for(reader.read(), TEST_TIMEOUT_SECONDS)
        writer.close()
        assert answer.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 426 ", b"HTTP/1.1 431 "))
        assert wire.sockets == []


async def test_a_server_that_stops_lets_a_turn_end_and_sends_a_close_frame() -> None:
    gate = Gate()
    world = World(gate.backend)
    async with serving(world) as wire, connect(wire.url) as client:
        await client.send(json.dumps(CREATE))
        key = await gate.begun.get()
        world.lifetimes.drain(60)
        wire.sockets[0].shutdown()  # what uvicorn does on shutdown
        key.set()
        events = await events_of_turn(client)
        assert events[-1]["type"] == "response.completed"
        with pytest.raises(ConnectionClosed) as closed:
            await asyncio.wait_for(client.recv(), TEST_TIMEOUT_SECONDS)
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1001


async def test_a_client_that_neither_reads_nor_answers_pings_is_disconnected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(ScriptedBackend([[TextDelta("x" * 2**19)]] * 64))
    async with (
        serving(world) as wire,
        connect(wire.url, compression=None, max_queue=1, close_timeout=0.1) as client,
    ):
        (server_side,) = wire.sockets
        tasks, full = set(wire.server.server_state.tasks), asyncio.Event()
        pause_writing = server_side.pause_writing

        def pause() -> None:
            pause_writing()
            full.set()

        monkeypatch.setattr(server_side, "pause_writing", pause)
        await client.send(json.dumps(CREATE))
        await asyncio.wait_for(full.wait(), TEST_TIMEOUT_SECONDS)
        server_side.keepalive_timeout()
        await asyncio.wait_for(asyncio.gather(*tasks), TEST_TIMEOUT_SECONDS)
        assert wire.sockets == []


async def test_the_watch_over_the_head_ends_with_the_upgrade() -> None:
    async with serving(World(ScriptedBackend.saying("a"))) as wire, connect(wire.url):
        gc.collect()
        assert not [found for found in gc.get_objects() if type(found) is HttpProtocol]
