"""Calls are answered once, whatever a tool does and wherever an attempt is interrupted."""

import asyncio
from typing import Any

import msgspec
import pytest

from antiphon.known_secrets import KNOWN_SECRETS
from antiphon.protocol.content import JsonObject
from antiphon.tools.call_record import CallEnded, CallKey, CallMemory, CallStarted, RecordedCall
from antiphon.tools.call_runner import CallRunner
from antiphon.tools.declaration import CallContext, ServerTool, ToolCall
from antiphon.tools.repeat_guard import RepeatGuard

ANYTHING: JsonObject = {"type": "object"}


class Crash(BaseException):
    """The process has died."""


class World:
    """Tools with visible effects, and a record that outlives its attempts and may crash after some writes."""

    def __init__(self) -> None:
        self.effects: list[str] = []
        self.warnings: list[str] = []
        self.memory = CallMemory()
        self.tools = {
            tool.name: tool
            for tool in (
                ServerTool("pay", "", ANYTHING, self._pay),
                ServerTool("look", "", ANYTHING, self._look, side_effects=False),
                ServerTool("fail", "", ANYTHING, self._fail),
                ServerTool("pick", "", ANYTHING, self._pick, final="client"),
                ServerTool("unchecked", "", ANYTHING, final="client"),
            )
        }

    def runner(self, *, writes: int = 100, deadline: float = 60.0) -> CallRunner:
        async def warn(message: str) -> None:
            self.warnings.append(message)

        return CallRunner(
            tools=self.tools,
            callable_names=[*self.tools, "open_tab"],
            explain_unknown=lambda name: f"There is no tool '{name}'.",
            context=lambda call: CallContext(call_id=call.id, tenant="t"),
            record=CrashingRecord(self.memory, writes),
            guard=self.guard(),
            warn=warn,
            deadline=deadline,
            max_output=100,
        )

    def guard(self) -> RepeatGuard:
        guard = RepeatGuard()
        for call in self.memory.calls.values():
            if call.ended is not None:
                guard.note(call.started.name, call.started.arguments)
        return guard

    def ended(self, call_id: str = "c", turn: int = 1) -> CallEnded:
        found = self.memory.calls[CallKey(turn, call_id)].ended
        assert found is not None
        return found

    def _pay(self, arguments: JsonObject, context: CallContext) -> str:
        self.effects.append(f"pay {context.call_id}")
        return "paid"

    def _look(self, arguments: JsonObject) -> str:
        self.effects.append("look")
        return "x" * arguments.get("length", 1)

    def _fail(self, arguments: JsonObject) -> str:
        raise ValueError("no")

    def _pick(self, arguments: JsonObject) -> None:
        self.effects.append("pick")
        if "path" not in arguments:
            raise ValueError("path is missing")


class CrashingRecord:
    """A new attempt's record, whose process dies before one write too many."""

    def __init__(self, memory: CallMemory, writes: int) -> None:
        self._record = memory.attempt()
        self._writes = writes

    def find(self, key: CallKey) -> RecordedCall | None:
        return self._record.find(key)

    async def start(self, call: CallStarted) -> None:
        self._count()
        await self._record.start(call)

    async def end(self, key: CallKey, ended: CallEnded) -> None:
        self._count()
        await self._record.end(key, ended)

    def _count(self) -> None:
        self._writes -= 1
        if self._writes < 0:
            raise Crash


def call(name: str, call_id: str = "c", **arguments: Any) -> ToolCall:
    return ToolCall(call_id, name, msgspec.json.encode(arguments).decode())


async def test_a_call_is_run_and_recorded() -> None:
    world = World()
    assert (await world.runner().answer(call("pay"), 1)).output == "paid"
    assert world.effects == ["pay c"]
    assert (world.ended().outcome, world.ended().result.output) == ("ok", "paid")


async def test_a_recorded_result_is_used_again() -> None:
    world = World()
    await world.runner().answer(call("pay"), 1)
    assert (await world.runner().answer(call("pay"), 1)).output == "paid"
    assert world.effects == ["pay c"]


async def test_the_same_id_in_another_turn_is_run() -> None:
    world = World()
    await world.runner().answer(call("pay"), 1)
    await world.runner().answer(call("pay", amount=2), 2)
    assert world.effects == ["pay c", "pay c"]


async def test_an_interrupted_call_with_side_effects_is_reported_as_unknown() -> None:
    world = World()
    with pytest.raises(Crash):
        await world.runner(writes=1).answer(call("pay"), 1)
    output = (await world.runner().answer(call("pay"), 1)).output
    assert "it is unknown whether it took effect" in output
    assert world.effects == ["pay c"]
    assert world.ended().outcome == "interrupted"
    assert world.warnings[-1].endswith("the call 'c' took effect; it was not run again.")


async def test_an_interrupted_call_without_side_effects_is_run_again() -> None:
    world = World()
    with pytest.raises(Crash):
        await world.runner(writes=1).answer(call("look"), 1)
    assert (await world.runner().answer(call("look"), 1)).output == "x"
    assert world.effects == ["look", "look"]


async def test_a_tool_runs_only_after_its_start_is_recorded() -> None:
    world = World()
    with pytest.raises(Crash):
        await world.runner(writes=0).answer(call("pay"), 1)
    assert world.effects == []
    assert (await world.runner().answer(call("pay"), 1)).output == "paid"


async def test_an_error_and_a_timeout_are_outputs() -> None:
    world = World()
    assert (await world.runner().answer(call("fail"), 1)).output == '{"error":"ValueError: no"}'
    assert world.ended().outcome == "error"

    async def hang(arguments: JsonObject) -> None:
        await asyncio.Event().wait()

    world.tools["hang"] = ServerTool("hang", "", ANYTHING, hang)
    assert "ToolTimeout" in (await world.runner(deadline=0.02).answer(call("hang", "h"), 1)).output
    assert world.ended("h").outcome == "timeout"


async def test_a_long_output_is_truncated_with_a_warning() -> None:
    world = World()
    output = (await world.runner().answer(call("look", length=150), 1)).output
    assert output == f"{'x' * 100}\n[cut: 50 more characters]"
    assert world.ended().result.output == output
    assert world.warnings == [
        "The output of 'look' is truncated: the model receives 100 of its 150 characters."
    ]


async def test_an_unknown_tool_is_an_error_that_lists_the_known_ones() -> None:
    world = World()
    output = (await world.runner().answer(call("nothing"), 1)).output
    assert "There is no tool 'nothing'. Tools that you can call: fail, look, open_tab, pay," in output
    assert world.warnings == ["The model has called an unknown tool. There is no tool 'nothing'."]
    assert not world.memory.calls[CallKey(1, "c")].started.runs


async def test_an_interrupted_unknown_call_is_answered_as_unknown_again() -> None:
    world = World()
    with pytest.raises(Crash):
        await world.runner(writes=1).answer(call("nothing"), 1)
    assert "There is no tool" in (await world.runner().answer(call("nothing"), 1)).output


async def test_the_third_equal_call_is_not_run() -> None:
    world = World()
    for number in range(3):
        await world.runner().answer(call("look", f"c{number}"), 1)
    assert world.effects == ["look", "look"]
    assert world.ended("c2").outcome == "suppressed"
    assert world.warnings == [
        "The model has called 'look' twice with the same arguments.",
        "The model has called 'look' again with the same arguments; it was not run.",
    ]


async def test_a_client_call_is_checked_and_passed_on() -> None:
    world = World()
    assert await world.runner().check(call("pick", path="a"), 1)
    assert (world.ended().outcome, world.ended().result.output) == ("handed", "")
    assert await world.runner().check(call("pick", path="a"), 1)
    assert world.effects == ["pick"]


async def test_a_call_rejected_by_the_check_is_not_passed_on() -> None:
    world = World()
    assert not await world.runner().check(call("pick"), 1)
    assert not await world.runner().check(call("pick"), 1)
    assert world.ended().outcome == "error"
    assert "path is missing" in (await world.runner().answer(call("pick"), 1)).output


async def test_an_interrupted_check_is_repeated() -> None:
    world = World()
    with pytest.raises(Crash):
        await world.runner(writes=1).check(call("pick", path="a"), 1)
    assert await world.runner().check(call("pick", path="a"), 1)
    assert world.effects == ["pick", "pick"]


async def test_a_call_without_a_check_is_passed_on_unrecorded() -> None:
    world = World()
    assert await world.runner().check(call("unchecked"), 1)
    assert world.memory.calls == {}


def reveal(arguments: JsonObject) -> str:
    return "it is canary-of-a-tool-000001"


async def test_a_secret_of_the_server_in_an_output_is_redacted() -> None:
    KNOWN_SECRETS.add("canary-of-a-tool-000001")
    world = World()
    world.tools["look"] = ServerTool("look", "", ANYTHING, reveal)
    assert (await world.runner().answer(call("look"), 1)).output == "it is [redacted]"
    assert world.ended().result.output == "it is [redacted]"
    assert "contained a secret" in world.warnings[0]
