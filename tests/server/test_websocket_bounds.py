"""What one client of a WebSocket can make the server hold: bytes, fragments, pings, unread answers."""

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager, suppress

import pytest
from websockets.asyncio.client import connect
from websockets.frames import Frame

from antiphon.backends.scripted import ScriptedBackend, Step
from antiphon.server import websocket_protocol
from antiphon.server.websocket.connection import WebSocketLimits
from antiphon.server.websocket_protocol import UNCHARGED_BYTES, ReceiveLimits, WebSocketProtocol
from antiphon.turn.chunks import Finished, TextDelta
from antiphon.turn.context import TurnRequest
from tests.server.raw_websocket import (
    CONTINUATION,
    PING,
    TEXT,
    RawWebSocket,
    close_code,
    frame,
    raw_websocket,
)
from tests.server.test_websocket_wire import CREATE, Wire, events_of_turn, serving
from tests.server.websocket_client import TEST_TIMEOUT_SECONDS, World
from tests.turn.order import check_order

LARGE = 300_000
UNFINISHED = frame(TEXT, b"x" * LARGE)[:-1]


@pytest.fixture(autouse=True)
def short_closing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(websocket_protocol, "CLOSE_HANDSHAKE_SECONDS", 0.2)


def large_create(size: int = LARGE) -> bytes:
    return frame(TEXT, json.dumps({**CREATE, "input": "x" * size}).encode())


async def until(done: Callable[[], bool]) -> None:
    async with asyncio.timeout(TEST_TIMEOUT_SECONDS):
        while not done():  # noqa: ASYNC110 -- conditions of the transport, which nothing announces
            await asyncio.sleep(0.01)


@asynccontextmanager
async def raw(wire: Wire, receive_bytes: int | None = None) -> AsyncGenerator[RawWebSocket, None]:
    """A connection of a client that blocks; the server runs in this thread."""
    opened = raw_websocket(wire.port, receive_bytes=receive_bytes)
    socket = await asyncio.to_thread(opened.__enter__)
    try:
        yield socket
    finally:
        opened.__exit__(None, None, None)


async def closed_with(wire: Wire, *sent: bytes) -> int | None:
    """Send this; the code with which the server closes the connection."""

    def drive() -> int | None:
        with raw_websocket(wire.port, compressed=True) as socket:
            for data in sent:
                socket.send(data)
            return close_code(socket.read_to_end())

    return await asyncio.to_thread(drive)


def world() -> World:
    return World(ScriptedBackend.saying("a"))


async def test_the_fragments_of_a_message_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(websocket_protocol, "MAX_FRAGMENTS", 100)
    begun, empty = frame(TEXT, b"{", final=False), frame(CONTINUATION, b"", final=False)
    async with serving(world()) as wire:
        assert await closed_with(wire, begun + empty * 100) == 1009
        async with connect(wire.url) as client:  # the same number is served, and counted for each message
            for _ in range(2):
                text = json.dumps(CREATE)
                await client.send([text[:60], *[""] * 97, text[60:]])
                check_order(await events_of_turn(client))


async def test_all_connections_share_a_budget_for_large_messages() -> None:
    limits = ReceiveLimits(max_bytes=2 * LARGE, message_seconds=60)
    async with serving(world(), max_message=10 * LARGE, receive_limits=limits) as wire:
        async with raw(wire) as first, raw(wire) as second:
            for socket in (first, second):
                await asyncio.to_thread(socket.send, UNFINISHED)
            await until(lambda: limits.charged_bytes == 2 * (LARGE - 1 - UNCHARGED_BYTES))
            assert await closed_with(wire, UNFINISHED) == 1013
            async with connect(wire.url) as client:  # small messages need no budget
                await client.send(json.dumps(CREATE))
                check_order(await events_of_turn(client))
        await until(lambda: limits.charged_bytes == 0)
        async with connect(wire.url) as client:
            await client.send(json.dumps({**CREATE, "input": "x" * LARGE}))
            check_order(await events_of_turn(client))
            await until(lambda: limits.charged_bytes == 0)


async def test_fragments_count_against_the_budget() -> None:
    limits = ReceiveLimits(max_bytes=LARGE, message_seconds=60)
    pieces = frame(TEXT, b"x" * 1000, final=False) + frame(CONTINUATION, b"x" * 1000, final=False) * 400
    async with serving(world(), max_message=10 * LARGE, receive_limits=limits) as wire:
        assert await closed_with(wire, pieces) == 1013
        await until(lambda: limits.charged_bytes == 0)


@pytest.mark.parametrize(
    "begun", [UNFINISHED, frame(TEXT, b"{", final=False), frame(TEXT, b"", final=False), b"\x81"]
)
async def test_a_message_that_does_not_end_is_not_waited_for(
    begun: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(websocket_protocol, "CHECK_SECONDS", 0.02)
    limits = ReceiveLimits(message_seconds=0.1)
    async with serving(world(), max_message=10 * LARGE, receive_limits=limits) as wire:
        assert await closed_with(wire, begun) == 1008
        assert limits.charged_bytes == 0


async def test_an_idle_connection_has_no_incomplete_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(websocket_protocol, "CHECK_SECONDS", 0.02)
    async with (
        serving(world(), receive_limits=ReceiveLimits(message_seconds=0.1)) as wire,
        connect(wire.url) as client,
    ):
        for _ in range(2):
            await client.send(json.dumps(CREATE))
            check_order(await events_of_turn(client))
            await asyncio.sleep(0.3)


async def test_messages_that_came_ahead_are_not_parsed_before_the_application_takes_one() -> None:
    limits = ReceiveLimits()
    async with serving(world(), max_message=10 * LARGE, receive_limits=limits) as wire:

        def drive() -> bytes:
            with raw_websocket(wire.port) as socket:
                for _ in range(8):
                    socket.send(large_create())
                received = b""
                while received.count(b'"response.completed"') < 8:
                    received += socket.socket.recv(2**16)
                return received

        highest, ended = 0, asyncio.create_task(asyncio.to_thread(drive))
        while not ended.done():
            highest = max(highest, limits.charged_bytes)
            await asyncio.sleep(0)
        await ended
        assert highest < 3 * LARGE


async def test_a_close_frame_behind_a_broken_text_is_answered() -> None:
    close = frame(0x8, (1000).to_bytes(2, "big"))
    async with serving(world()) as wire:
        assert await closed_with(wire, frame(TEXT, b"\xff")) == 1007
        assert await closed_with(wire, frame(TEXT, b"\xff") + close) == 1000


@pytest.mark.parametrize("payload", [b"", b"x" * 125])
async def test_pings_are_counted(payload: bytes) -> None:
    async with serving(world()) as wire:
        assert await closed_with(wire, frame(PING, payload) * 2000) == 1008


async def test_unread_answers_to_pings_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(websocket_protocol, "MAX_CONTROL_FRAMES", 10**9)
    async with serving(world()) as wire:

        def drive() -> None:
            with raw_websocket(wire.port, receive_bytes=4096) as socket:
                while socket.send(frame(PING, b"x" * 125) * 1000):
                    pass

        await asyncio.wait_for(asyncio.to_thread(drive), TEST_TIMEOUT_SECONDS)
        await until(lambda: not wire.sockets)


async def test_small_frames_do_not_hold_the_event_loop() -> None:
    async with serving(world()) as wire:
        begun, empty = frame(TEXT, b"{", final=False), frame(CONTINUATION, b"", final=False)
        driving = asyncio.create_task(closed_with(wire, begun + empty * 60_000))
        longest, seen = 0.0, time.monotonic()
        while not driving.done():
            await asyncio.sleep(0)
            longest, seen = max(longest, time.monotonic() - seen), time.monotonic()
        assert await driving == 1009
        assert longest < 0.25


async def test_floods_of_frames_are_parsed_in_small_slices_one_in_each_iteration(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(websocket_protocol, "MAX_PARSE_SECONDS", 0.0)
    counted = 0
    handle = WebSocketProtocol.handle_cont

    def counting(protocol: WebSocketProtocol, event: Frame) -> None:
        nonlocal counted
        counted += 1
        handle(protocol, event)

    monkeypatch.setattr(WebSocketProtocol, "handle_cont", counting)
    begun, empty = frame(TEXT, b"{", final=False), frame(CONTINUATION, b"", final=False)
    async with serving(world()) as wire:
        floods = [asyncio.create_task(closed_with(wire, begun + empty * 20_000)) for _ in range(4)]
        slices = list[int]()
        while not all(flood.done() for flood in floods):
            before = counted
            await asyncio.sleep(0)
            slices.append(counted - before)
    assert [flood.result() for flood in floods] == [1009] * 4
    small = websocket_protocol.MIN_SLOW_BYTES // len(empty) + 1
    assert sum(size > small for size in slices) <= 3 * len(floods)  # the first of each, and of its rest


async def test_a_connection_waits_for_its_turn_while_others_parse(monkeypatch: pytest.MonkeyPatch) -> None:
    limits, parsed = ReceiveLimits(), list[Frame]()

    def handle(_protocol: WebSocketProtocol, event: Frame) -> None:
        parsed.append(event)

    monkeypatch.setattr(WebSocketProtocol, "handle_text", handle)
    async with serving(world(), receive_limits=limits) as wire, raw(wire):
        await until(lambda: bool(wire.sockets))
        (server_side,) = wire.sockets
        limits.parse_later(lambda: None, asyncio.get_running_loop())
        server_side.data_received(frame(TEXT, b"{", final=False))
        assert not parsed
        await until(lambda: bool(parsed))


async def test_what_a_closed_connection_still_sends_is_read_slowly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(websocket_protocol, "MAX_FRAGMENTS", 100)
    reads = 0
    receive = WebSocketProtocol.data_received

    def counting(protocol: WebSocketProtocol, data: bytes) -> None:
        nonlocal reads
        reads += protocol.close_sent
        receive(protocol, data)

    monkeypatch.setattr(WebSocketProtocol, "data_received", counting)
    begun, empty = frame(TEXT, b"{", final=False), frame(CONTINUATION, b"", final=False)
    async with serving(world()) as wire:
        with suppress(ConnectionResetError):
            assert await closed_with(wire, begun + empty * 101, *[empty * 50_000] * 400) in (1009, None)
    pauses = websocket_protocol.CLOSE_HANDSHAKE_SECONDS / websocket_protocol.DISCARD_PAUSE_SECONDS
    assert 2 <= reads <= pauses + 5


class Flood:
    """A backend that sends without end, and notes whether its turn was closed."""

    def __init__(self, delta: str) -> None:
        self._delta = delta
        self.closed = asyncio.Event()

    async def steps(self, _turn: TurnRequest) -> AsyncGenerator[Step, None]:
        try:
            while True:
                yield [TextDelta(self._delta)]
                await asyncio.sleep(0)
        finally:
            self.closed.set()


async def test_a_client_that_does_not_read_is_disconnected_and_its_turns_are_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("antiphon.server.process.PING_SECONDS", 0.3)
    flood = Flood("x" * 100_000)
    async with (
        serving(World(ScriptedBackend(flood.steps))) as wire,
        raw(wire, receive_bytes=4096) as socket,
    ):
        (server_side,) = wire.sockets
        for number in range(8):
            socket.send(frame(TEXT, json.dumps({**CREATE, "stream_id": f"s{number}"}).encode()))
        highest = 0

        def ended() -> bool:
            nonlocal highest
            highest = max(highest, server_side.transport.get_write_buffer_size())
            return not wire.sockets

        await until(ended)
        await asyncio.wait_for(flood.closed.wait(), TEST_TIMEOUT_SECONDS)
        assert 0 < highest < 500_000


async def test_a_closed_connection_whose_rest_is_not_read_is_aborted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(websocket_protocol, "CHECK_SECONDS", 0.02)
    monkeypatch.setattr(websocket_protocol, "CLOSE_TIMEOUT_SECONDS", 0.1)
    limited = World(ScriptedBackend([[TextDelta("x" * 2**20)]] * 16), WebSocketLimits(seconds=0.3))
    async with serving(limited) as wire, raw(wire, receive_bytes=4096) as socket:
        socket.send(frame(TEXT, json.dumps(CREATE).encode()))
        await until(lambda: bool(wire.sockets))
        (server_side,) = wire.sockets
        await until(lambda: server_side.transport.get_write_buffer_size() > 0)
        server_side.close_sent = True
        server_side.transport.close()
        await until(lambda: not wire.sockets)


def texts(turn: TurnRequest) -> Iterator[Step]:
    yield [TextDelta("\U0001f600 and " * 100_000)]
    yield [TextDelta("the end"), Finished("stop")]


async def test_large_events_are_sent_in_fragments_that_no_other_event_interrupts() -> None:
    async with (
        serving(World(ScriptedBackend(texts))) as wire,
        connect(wire.url, max_size=None) as client,
    ):
        names = [f"s{number}" for number in range(4)]
        for name in names:
            await client.send(json.dumps({**CREATE, "stream_id": name}))
        events: dict[str, list[dict[str, object]]] = {name: [] for name in names}
        open_streams, fragments = set(names), 0
        while open_streams:
            pieces = [piece async for piece in client.recv_streaming()]
            fragments = max(fragments, len(pieces))
            event = json.loads("".join(str(piece) for piece in pieces))
            events[event["stream_id"]].append(event)
            if event["type"] == "response.completed":
                open_streams.remove(event["stream_id"])
        assert fragments > 1
        for received in events.values():
            check_order(received)


async def test_large_frames_of_all_connections_have_a_limit() -> None:
    bounded = World(ScriptedBackend.saying("a"), WebSocketLimits(server_bytes=LARGE))
    async with serving(bounded, max_message=10 * LARGE) as wire, connect(wire.url) as client:
        for _ in range(2):  # a turn that has ended gives its bytes back
            await client.send(json.dumps({**CREATE, "input": "x" * (LARGE - 1000)}))
            check_order(await events_of_turn(client))
        await client.send(json.dumps({**CREATE, "input": "x" * LARGE}))
        error = json.loads(await asyncio.wait_for(client.recv(), TEST_TIMEOUT_SECONDS))
        assert (error["status"], error["error"]["code"]) == (429, "websocket_queue_limit_reached")
