"""Profiles on a WebSocket: the same choices as in a stream."""

import msgspec
import pytest
from msgspec.structs import replace

from antiphon.backends.scripted import ScriptedBackend
from antiphon.errors import BackendBroken
from antiphon.protocol.profile import MAESTRO, PROXY, Profile
from antiphon.turn.chunks import CallDelta, CallStarted, Failed, Finished, TextDelta, UsageReported
from tests.profiles.gateway import USAGE
from tests.profiles.order import check_message_first
from tests.server.websocket_client import World
from tests.turn.order import check_order

ANSWER = [
    [TextDelta("Let me look.")],
    [CallStarted(0, "call_1", "look"), CallDelta(0, "{}")],
    [TextDelta(" There.")],
    [UsageReported(USAGE), Finished("tool_calls")],
]


async def test_the_proxy_profile_puts_the_message_first() -> None:
    async with World(ScriptedBackend(ANSWER)).connect(PROXY) as socket:
        socket.create()
        events = await socket.answer()
        check_message_first(events)
        final = events[-1]["response"]
        assert [item["type"] for item in final["output"]] == ["message", "function_call"]
        assert final["created"] == final["created_at"]
        assert "usage" not in final
        socket.create(stream_options={"include_usage": True})
        assert (await socket.answer())[-1]["response"]["usage"] == msgspec.to_builtins(USAGE)


async def test_state_is_rejected_and_the_socket_stays_open() -> None:
    async with World(ScriptedBackend.saying("a")).connect(MAESTRO) as socket:
        socket.create()
        answer = await socket.answer()
        check_order(answer)
        assert answer[-1]["response"]["id"].startswith("resp_AM-")
        socket.create(previous_response_id=answer[-1]["response"]["id"])
        error = (await socket.error())["error"]
        assert (error["param"], error["code"]) == ("previous_response_id", "unsupported_parameter")
        socket.create()
        check_order(await socket.answer())


@pytest.mark.parametrize("profile", [MAESTRO, PROXY, replace(PROXY, state=True)])
async def test_generate_false_is_rejected(profile: Profile) -> None:
    async with World(ScriptedBackend.saying("a")).connect(profile) as socket:
        socket.create(generate=False)
        error = (await socket.error())["error"]
        assert (error["param"], error["code"]) == ("generate", "unsupported_parameter")


async def test_a_failure_is_sent_once() -> None:
    failing = ScriptedBackend([[TextDelta("a")], [Failed(BackendBroken("It broke."))]])
    async with World(failing).connect(MAESTRO) as socket:
        socket.create()
        kinds = [event["type"] for event in await socket.answer()]
    assert kinds[-1] == "response.failed"
    assert "error" not in kinds


async def test_an_error_before_the_first_event_has_the_status_of_the_profile() -> None:
    broken = ScriptedBackend([BackendBroken("It broke.")])
    async with World(broken).connect(MAESTRO) as socket:
        socket.create()
        frame = await socket.error()
    assert (frame["status"], frame["error"]["type"]) == (500, "internal_error")
