"""Turns on a WebSocket: frames, events and rejections."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from antiphon.backends.scripted import ScriptedBackend, Step
from antiphon.errors import BackendBroken, BackendRefused
from antiphon.turn.chunks import Finished, TextDelta
from antiphon.turn.context import TurnRequest
from tests.server.websocket_client import World, id_of
from tests.turn.order import check_order


def world_with(*deltas: str) -> World:
    return World(ScriptedBackend.saying(*deltas))


def texts_of(turn: TurnRequest) -> list[Any]:
    """The texts of a turn's messages."""
    texts: list[Any] = []
    for item in turn.items:
        content: Any = getattr(item, "content", None)
        texts.append(content if isinstance(content, str) else content[0].text)
    return texts


@pytest.mark.requirement("PROTOCOL/websocket-turn")
async def test_a_create_is_answered_by_the_events_of_a_stream() -> None:
    async with world_with("Hel", "lo").connect() as socket:
        socket.create()
        events = await socket.answer()
    check_order(events)
    assert [event["delta"] for event in events if event["type"] == "response.output_text.delta"] == [
        "Hel",
        "lo",
    ]
    assert not any("stream_id" in event for event in events)


@pytest.mark.parametrize("extra", [{"stream": True}, {"background": False}, {"generate": True}, {"x": 1}])
@pytest.mark.requirement("PROTOCOL/websocket-stream-flag", "PROTOCOL/divergence-socket-stream")
async def test_params_of_other_transports_are_tolerated(extra: dict[str, object]) -> None:
    async with world_with("a").connect() as socket:
        socket.create(**extra)
        check_order(await socket.answer())


@pytest.mark.requirement("PROTOCOL/websocket-sequential")
async def test_turns_go_one_after_another() -> None:
    async with world_with("a").connect() as socket:
        socket.create()
        socket.create()
        first, second = await socket.answer(), await socket.answer()
    check_order(first)
    check_order(second)


@pytest.mark.requirement("PROTOCOL/websocket-generate-false")
async def test_without_generate_no_model_is_called_and_the_state_can_be_continued() -> None:
    world = world_with("a")
    async with world.connect() as socket:
        socket.create(input="base", generate=False)
        events = await socket.answer()
        assert [event["type"] for event in events] == [
            "response.created",
            "response.in_progress",
            "response.completed",
        ]
        assert events[-1]["response"]["output"] == []
        assert world.backend.turns == []
        await socket.respond(input="next", previous_response_id=id_of(events[-1]))
    assert texts_of(world.backend.turns[0]) == ["base", "next"]


@pytest.mark.requirement("PROTOCOL/websocket-store-false", "PROTOCOL/websocket-unknown-previous")
async def test_an_unstored_response_can_be_continued_only_on_its_socket() -> None:
    world = world_with("a")
    async with world.connect() as socket, world.connect() as other:
        first = id_of(await socket.respond(input="one"))
        second = id_of(await socket.respond(input="two", previous_response_id=first, stream_id="stream"))
        await socket.respond(input="three", previous_response_id=second)
        assert texts_of(world.backend.turns[-1]) == ["one", "a", "two", "a", "three"]
        refused = await other.respond(previous_response_id=first)
        assert (refused["status"], refused["error"]["code"]) == (400, "previous_response_not_found")
        assert refused["error"]["param"] == "previous_response_id"
    assert world.store.saved == []


async def test_a_stored_response_is_in_the_store() -> None:
    world = world_with("a")
    async with world.connect() as socket:
        response_id = id_of(await socket.respond(store=True))
    assert [stored.response.id for stored in world.store.saved] == [response_id]


@pytest.mark.parametrize(
    ("message", "code", "param"),
    [
        ("{", "invalid_json", None),
        ("[]", "invalid_type", None),
        ("{}", "missing_required_parameter", "type"),
        ('{"type":"response.steer"}', "unsupported_event", "type"),
        ('{"type":"nonsense"}', "unsupported_event", "type"),
        (b"{}", "invalid_frame", None),
        ('{"type":"response.create","input":"x"}', "missing_required_parameter", "model"),
        ('{"type":"response.create","model":"m"}', "missing_required_parameter", "input"),
        (
            '{"type":"response.create","model":"m","input":"x","background":true}',
            "unsupported_parameter",
            "background",
        ),
        (
            '{"type":"response.create","model":"m","input":"x","generate":"no"}',
            "invalid_type",
            "generate",
        ),
        ('{"type":"response.create","model":"unknown","input":"x"}', "model_not_found", "model"),
    ],
)
@pytest.mark.requirement("PROTOCOL/websocket-errors", "PROTOCOL/divergence-steer")
async def test_an_invalid_frame_is_answered_by_an_error_frame_and_the_socket_stays_open(
    message: str | bytes, code: str, param: str | None
) -> None:
    async with world_with("a").connect() as socket:
        if isinstance(message, bytes):
            socket.send_bytes(message)
        else:
            socket.send_frame(message)
        error = await socket.error()
        assert error["status"] in (400, 404)
        assert (error["error"]["code"], error["error"]["param"]) == (code, param)
        assert error["error"]["type"] == "invalid_request_error"
        assert set(error) == {"type", "status", "error"}
        socket.create()
        check_order(await socket.answer())


async def test_an_error_waits_for_the_turn_before_it() -> None:
    async with world_with("a").connect() as socket:
        socket.create()
        socket.create(temperature=9)
        check_order(await socket.answer())
        assert (await socket.error())["error"]["param"] == "temperature"


@pytest.mark.requirement("PROTOCOL/websocket-refused-turn")
async def test_a_backend_that_refuses_is_an_error_frame_with_its_status() -> None:
    refusal = BackendRefused("too fast", status=429, retry_after=7)
    async with World(ScriptedBackend([refusal])).connect() as socket:
        socket.create(stream_id="a")
        error = await socket.error()
    assert (error["status"], error["stream_id"]) == (429, "a")
    assert error["error"]["type"] == "rate_limit_error"
    assert error["error"]["headers"] == {"retry-after": "7"}


@pytest.mark.requirement("PROTOCOL/divergence-socket-error")
async def test_a_failure_after_the_first_event_is_sent_as_events() -> None:
    world = World(ScriptedBackend([[TextDelta("a")], BackendBroken("cut")]))
    async with world.connect() as socket:
        socket.create(stream_id="a")
        events = await socket.answer("a")
    check_order(events)
    assert "error" not in [event["type"] for event in events], "on a socket it would end the turn by itself"
    assert events[-1]["type"] == "response.failed"
    assert all(event["stream_id"] == "a" for event in events)


async def test_an_internal_error_is_an_error_frame_and_the_stream_continues(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def early(_turn: TurnRequest) -> list[Step]:
        raise ZeroDivisionError

    async def late(_turn: TurnRequest) -> AsyncGenerator[Step, None]:
        yield [TextDelta("a")]
        raise ZeroDivisionError

    async with World(ScriptedBackend(early, late, [[Finished("stop")]])).connect() as socket:
        refused = await socket.respond()
        assert (refused["status"], refused["error"]["code"]) == (500, "internal_error")
        socket.create()
        events = await socket.answer()
        check_order(events)
        assert "Internal error" in events[-1]["response"]["error"]["message"]
        assert id_of(await socket.respond())
    assert [record.message for record in caplog.records if record.exc_info] == ["request req_1 failed"] * 2


@pytest.mark.requirement("PROTOCOL/websocket-evict")
async def test_a_failed_continuation_forgets_its_parent() -> None:
    async with world_with("a").connect() as socket:
        parent = id_of(await socket.respond())
        assert (await socket.respond(previous_response_id=parent, temperature=9))["status"] == 400
        again = await socket.respond(previous_response_id=parent)
        assert again["error"]["code"] == "previous_response_not_found"


@pytest.mark.requirement("PROTOCOL/websocket-evict")
async def test_a_continuation_that_fails_after_its_first_event_forgets_its_parent_too() -> None:
    good: list[Step] = [[TextDelta("a")], [Finished("stop")]]
    bad: list[Step] = [[TextDelta("a")], BackendBroken("cut")]
    async with World(ScriptedBackend(good, bad, good)).connect() as socket:
        parent = id_of(await socket.respond())
        assert (await socket.respond(previous_response_id=parent))["type"] == "response.failed"
        again = await socket.respond(previous_response_id=parent)
        assert again["error"]["code"] == "previous_response_not_found"


@pytest.mark.requirement("PROTOCOL/websocket-fork")
async def test_a_failed_fork_leaves_the_parent_to_the_stream_that_created_it() -> None:
    async with world_with("a").connect() as socket:
        parent = id_of(await socket.respond(stream_id="a"))
        assert (await socket.respond(previous_response_id=parent, temperature=9, stream_id="b"))[
            "status"
        ] == 400
        assert id_of(await socket.respond(previous_response_id=parent, stream_id="a"))


@pytest.mark.requirement("PROTOCOL/websocket-leaving")
async def test_a_client_disconnect_stops_the_upstream() -> None:
    stopped = asyncio.Event()

    async def hang(_turn: TurnRequest) -> AsyncGenerator[Step, None]:
        try:
            yield [TextDelta("a")]
            await asyncio.Event().wait()
        finally:
            stopped.set()

    world = World(ScriptedBackend(hang))
    async with world.connect() as socket:
        socket.create(store=True)
        while (await socket.frame())["type"] != "response.output_text.delta":
            pass
        assert not stopped.is_set()
    assert stopped.is_set()
    assert [stored.response.status for stored in world.store.saved] == ["cancelled"]


async def test_a_key_that_has_ended_opens_no_further_turn() -> None:
    async with world_with("a").connect() as socket:
        socket.create()
        check_order(await socket.answer())
        socket.key_ended = True
        socket.create()
        refused = await socket.frame()
    assert (refused["status"], refused["error"]["code"]) == (401, "invalid_api_key")


async def test_preparing_a_response_needs_no_input() -> None:
    world = world_with("a")
    async with world.connect() as socket:
        socket.send_frame({"type": "response.create", "model": "m", "generate": False, "store": False})
        prepared = await socket.answer()
        socket.create(previous_response_id=id_of(prepared[-1]))
        check_order(await socket.answer())
