"""Streams of a socket: turns of one stream are sequential, streams are concurrent, and their number is
limited.
"""

import asyncio
from collections.abc import AsyncGenerator

import pytest

from antiphon.backends.scripted import ScriptedBackend, Step
from antiphon.server.websocket.connection import WebSocketLimits
from antiphon.turn.chunks import Finished, TextDelta
from antiphon.turn.context import TurnRequest
from tests.server.websocket_client import JsonObject, Socket, World
from tests.turn.order import check_order


class Gate:
    """A backend that sends one text delta per turn and waits for a key before it ends."""

    def __init__(self) -> None:
        self.begun: asyncio.Queue[asyncio.Event] = asyncio.Queue()
        self.backend = ScriptedBackend(self.steps)

    async def steps(self, _turn: TurnRequest) -> AsyncGenerator[Step, None]:
        key = asyncio.Event()
        yield [TextDelta("a")]
        self.begun.put_nowait(key)
        await key.wait()
        yield [Finished("stop")]

    async def open(self) -> None:
        """Let the oldest turn end."""
        (await self.begun.get()).set()


@pytest.mark.requirement("PROTOCOL/websocket-lanes")
async def test_streams_are_concurrent_and_frames_carry_their_stream_id() -> None:
    gate = Gate()
    async with World(gate.backend).connect() as socket:
        socket.create(stream_id="slow")
        slow = await gate.begun.get()
        socket.create(stream_id="quick")
        socket.create()
        await gate.open()
        await gate.open()
        received: dict[str | None, list[JsonObject]] = {"slow": [], "quick": [], None: []}
        while not (ended(received["quick"]) and ended(received[None])):
            frame = await socket.frame()
            received[frame.get("stream_id")].append(frame)
        assert not ended(received["slow"])
        slow.set()
        received["slow"] += await socket.answer("slow")
    for events in received.values():
        check_order(events)


def ended(events: list[JsonObject]) -> bool:
    return bool(events) and events[-1]["type"] == "response.completed"


async def test_a_stream_starts_a_turn_when_the_previous_one_has_ended() -> None:
    gate = Gate()
    async with World(gate.backend).connect() as socket:
        socket.create(stream_id="a")
        socket.create(stream_id="a")
        key = await gate.begun.get()
        socket.send_frame({"type": "nonsense"})  # its answer shows that both frames above were read
        while (await socket.frame())["type"] != "error":
            pass
        assert gate.begun.empty()
        key.set()
        await gate.open()


@pytest.mark.requirement("PROTOCOL/websocket-active-limit")
async def test_further_responses_wait_for_running_ones() -> None:
    gate = Gate()
    async with World(gate.backend, WebSocketLimits(responses=2)).connect() as socket:
        for stream in "abc":
            socket.create(stream_id=stream)
        keys = [await gate.begun.get(), await gate.begun.get()]
        socket.send_frame({"type": "nonsense"})
        while (await socket.frame())["type"] != "error":
            pass
        assert gate.begun.empty()
        keys[0].set()
        await gate.open()
        check_order(await socket.answer("c"))


@pytest.mark.requirement("PROTOCOL/websocket-lane-limit")
async def test_the_number_of_streams_is_limited_without_counting_the_default_stream() -> None:
    world = World(ScriptedBackend.saying("a"), WebSocketLimits(streams=2))
    async with world.connect() as socket:
        for stream in ("a", "b", None):
            check_order(await respond_on(socket, stream))
        socket.create(stream_id="c")
        error = await socket.error()
        assert (error["stream_id"], error["error"]["code"]) == ("c", "websocket_stream_limit_reached")
        check_order(await respond_on(socket, "a"))


async def test_a_frame_of_a_stream_too_many_takes_no_room() -> None:
    world = World(ScriptedBackend.saying("a"), WebSocketLimits(streams=1, server_bytes=300_000))
    async with world.connect() as socket:
        check_order(await respond_on(socket, "a"))
        check_order(await respond_on(socket, None))
        for number in range(4):
            socket.create(stream_id=f"b{number}", input="x" * 100_000)
            assert (await socket.error())["error"]["code"] == "websocket_stream_limit_reached"
        socket.create(stream_id="a", input="x" * 100_000)
        check_order(await socket.answer("a"))


async def respond_on(socket: Socket, stream_id: str | None) -> list[JsonObject]:
    socket.create(stream_id=stream_id)
    return await socket.answer(stream_id)


@pytest.mark.parametrize("stream_id", ["", "a" * 257, "a b", "ä", "a\n", 7, ["a"]])
@pytest.mark.requirement("PROTOCOL/websocket-lane-names")
async def test_a_stream_id_has_a_restricted_format(stream_id: object) -> None:
    async with World(ScriptedBackend.saying("a")).connect() as socket:
        socket.create(stream_id=stream_id)
        error = await socket.error()
    assert (error["error"]["code"], error["error"]["param"]) == ("invalid_stream_id", "stream_id")
    assert "stream_id" not in error


@pytest.mark.parametrize("stream_id", ["a", "A.b_c-9", "a" * 256])
@pytest.mark.requirement("PROTOCOL/websocket-lane-names")
async def test_a_name_may_have_letters_digits_and_three_signs(stream_id: str) -> None:
    async with World(ScriptedBackend.saying("a")).connect() as socket:
        check_order(await respond_on(socket, stream_id))


@pytest.mark.parametrize("limits", [WebSocketLimits(waiting=1), WebSocketLimits(waiting_bytes=100)])
async def test_the_number_of_waiting_turns_is_limited(limits: WebSocketLimits) -> None:
    gate = Gate()
    async with World(gate.backend, limits).connect() as socket:
        socket.create()
        key = await gate.begun.get()
        socket.create()
        socket.create()
        while (frame := await socket.frame())["type"] != "error":
            pass
        assert (frame["status"], frame["error"]["code"]) == (429, "websocket_queue_limit_reached")
        key.set()
        await gate.open()
