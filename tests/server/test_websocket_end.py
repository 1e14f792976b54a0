"""Admission of connections, and their end by age or by the server's drain."""

import asyncio

import msgspec
import pytest

from antiphon.backends.scripted import ScriptedBackend
from antiphon.errors import MissingKey, Unauthorized, Unavailable
from antiphon.server.types import Message, Scope
from antiphon.server.websocket.channel import refuse
from antiphon.server.websocket.connection import WebSocketLimits
from tests.server.test_websocket_streams import Gate
from tests.server.websocket_client import Socket, World
from tests.turn.order import check_order

AT_ONCE = WebSocketLimits(seconds=0)


def world() -> World:
    return World(ScriptedBackend.saying("a"))


async def until_begun(gate: Gate, socket: Socket) -> asyncio.Event:
    socket.create()
    return await gate.begun.get()


@pytest.mark.requirement("PROTOCOL/websocket-age")
async def test_a_connection_beyond_its_maximum_age_is_closed_with_an_error() -> None:
    async with World(ScriptedBackend.saying("a"), AT_ONCE).connect() as socket:
        error = await socket.error()
        assert error["error"]["code"] == "websocket_connection_limit_reached"
        assert (await socket.receive())["code"] == 1000


async def test_a_running_turn_is_finished_before_an_old_connection_closes() -> None:
    gate = Gate()
    async with World(gate.backend, WebSocketLimits(seconds=0.05)).connect() as socket:
        key = await until_begun(gate, socket)
        while (late := await socket.respond(stream_id="late", generate=False))["type"] != "error":
            pass
        assert late["error"]["code"] == "websocket_connection_limit_reached"
        key.set()
        while (await socket.frame())["type"] != "response.completed":
            pass
        assert (await socket.error())["error"]["code"] == "websocket_connection_limit_reached"
        assert (await socket.receive())["code"] == 1000


async def test_an_idle_connection_is_closed_when_the_server_drains() -> None:
    here = world()
    async with here.connect() as socket:
        here.lifetimes.drain(60)
        closing = await socket.receive()
    assert (closing["type"], closing["code"]) == ("websocket.close", 1001)


async def test_a_running_turn_gets_the_drain_timeout() -> None:
    gate = Gate()
    here = World(gate.backend)
    async with here.connect() as socket:
        key = await until_begun(gate, socket)
        here.lifetimes.drain(60)
        socket.create(stream_id="late")
        while (frame := await socket.frame())["type"] != "error":
            pass
        assert (frame["status"], frame["stream_id"]) == (503, "late")
        key.set()
        while (await socket.frame())["type"] != "response.completed":
            pass
        assert (await socket.receive())["code"] == 1001


async def test_a_turn_that_outlives_the_drain_is_ended() -> None:
    gate = Gate()
    here = World(gate.backend)
    async with here.connect() as socket:
        await until_begun(gate, socket)
        here.lifetimes.drain(0)
        events = await socket.answer()
        check_order(events)
        assert events[-1]["response"]["error"]["code"] == "server_error"
        assert (await socket.receive())["code"] == 1001


async def test_a_slow_client_misses_no_event_when_its_turn_is_ended() -> None:
    here = World(Gate().backend)
    async with here.connect() as socket:
        socket.readable.clear()
        socket.create()
        first = await socket.blocked.get()
        here.lifetimes.drain(0)
        assert await socket.blocked.get() == first
        socket.readable.set()
        check_order(await socket.answer())


async def test_a_client_may_disconnect_during_its_last_turn() -> None:
    gate = Gate()
    async with World(gate.backend, WebSocketLimits(seconds=0.05)).connect() as socket:
        await until_begun(gate, socket)
        while (await socket.respond(stream_id="late", generate=False))["type"] != "error":
            pass
    assert socket.task.done()


async def refusal(socket: Socket) -> tuple[int, str | None]:
    start, body = await socket.receive(), await socket.receive()
    assert (b"content-type", b"application/json") in start["headers"]
    assert (b"x-request-id", b"req_1") in start["headers"]
    return start["status"], msgspec.json.decode(body["body"])["error"]["code"]


async def test_connections_are_rejected_while_the_server_drains() -> None:
    here = world()
    here.lifetimes.drain(60)
    assert await refusal(Socket(here.endpoint)) == (503, "server_unavailable")


async def test_a_handshake_without_a_valid_key_is_told_how_to_authenticate() -> None:
    for error, challenge in ((Unauthorized(), b"Bearer"), (MissingKey(), b"Bearer"), (Unavailable(), None)):
        sent: list[Message] = []

        async def send(message: Message, sent: list[Message] = sent) -> None:
            sent.append(message)

        scope: Scope = {"type": "websocket", "extensions": {"websocket.http.response": {}}}
        await refuse(scope, send, error, "req_1")
        assert dict(sent[0]["headers"]).get(b"www-authenticate") == challenge


async def test_where_a_handshake_cannot_be_answered_it_is_closed() -> None:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    await refuse({"type": "websocket"}, send, Unauthorized(), "req_1")
    assert [message["type"] for message in sent] == ["websocket.close"]
