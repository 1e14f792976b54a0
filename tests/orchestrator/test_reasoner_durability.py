"""A run interrupted at any point resumes from its stored events and ends the same way."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from antiphon.errors import InvalidRequest
from antiphon.orchestrator.events import (
    AgentCancelled,
    AgentEvent,
    AgentStarted,
    ToolCompleted,
    ToolStarted,
    TurnCompleted,
)
from antiphon.orchestrator.models import (
    AgentExecuteRequest,
    AgentExecuteResponse,
    FileBundleItem,
)
from antiphon.orchestrator.reasoner import Limits, execute
from antiphon.orchestrator.tool import ToolContext, ToolResult
from antiphon.protocol.content import JsonObject
from antiphon.retrieval.base import RagChunk
from antiphon.tools.registry import ToolRegistry
from tests.orchestrator.scripted_client import ScriptedClient, answers, calls
from tests.orchestrator.test_reasoner import Library, Recorder, tool

decode_event = msgspec.json.Decoder[AgentEvent](AgentEvent).decode


class Crash(BaseException):
    """The process has died."""


class World:
    """A run with all tools and all warnings. The counters record its external effects."""

    def __init__(self, *, continues: bool) -> None:
        self.paid: list[str] = []
        self.looked: list[JsonObject] = []
        self.retrieved = Library(*[RagChunk(f"c{n}", "a.md", n, n, "markdown", "x" * 600) for n in (1, 2)])
        self.client = ScriptedClient(*self._script(continues))
        self.continues = continues
        self.registry = ToolRegistry(
            [
                tool("pay", self._pay),
                tool("look", self._look, side_effects=False),
                tool("propose", self._propose, side_effects=False),
                tool("pick", self._check, final="client"),
            ]
        )

    def _script(self, continues: bool) -> Sequence[JsonObject]:
        first_turn = calls(("pay", {"n": 0}), ("open_tab", {}), ("look", {}))
        same = ("look", {"again": True})
        turns = [
            calls(("pay", {"n": 1}), ("look", {}), ("nothing", {}), ("pick", {}), text="One."),
            calls(same, same, same, ("propose", {"path": "a.md"}), ("pay", {"n": 2})),
            calls(("propose", {"path": "a.md"}), ("pay", {"n": 1})),
            calls(("pick", {"path": "a.md"}), ("pick", {}), ("pay", {"n": 3})),
        ]
        return [first_turn, *turns] if continues else turns

    async def request(self) -> AgentExecuteRequest:
        """The request; for a continuation, the earlier conversation is created first."""
        tools = '[{"type":"function","name":"open_tab"},{"type":"function","name":"look"}]'
        first = AgentExecuteRequest(instruction="Do it.", tools_json=tools, mode="unknown")
        if not self.continues:
            return first
        begun = await execute(first, client=self.client, tools=self.registry)
        return AgentExecuteRequest(
            instruction="And then.",
            response_continuation_id=begun.response_continuation_id,
            tool_results_json='[{"call_id":"call_0_1","name":"open_tab","result_json":"1"}]',
        )

    async def run(
        self, request: AgentExecuteRequest, past: Sequence[AgentEvent], tell: Any
    ) -> AgentExecuteResponse:
        return await execute(
            request,
            client=self.client,
            tools=self.registry,
            retriever=self.retrieved,
            limits=Limits(max_context=1000, max_tool_output=1000),
            past=past,
            tell=tell,
        )

    def _pay(self, arguments: JsonObject, context: ToolContext) -> str:
        self.paid.append(context.call_id)
        return "paid " + "x" * 2000

    def _look(self, arguments: JsonObject) -> str:
        self.looked.append(arguments)
        return "nice"

    def _propose(self, arguments: JsonObject) -> ToolResult:
        item = FileBundleItem(action="create", path=arguments["path"], contents="text")
        return ToolResult(output="ok", files=(item,), mode="ddr_search")

    def _check(self, arguments: JsonObject) -> None:
        if "path" not in arguments:
            raise ValueError("path is missing")


def crash_after(count: int, log: list[AgentEvent]) -> Any:
    """Store this many events, each as JSON; then the process dies before the next one is stored."""

    async def tell(event: AgentEvent) -> None:
        if len(log) == count:
            raise Crash
        log.append(decode_event(msgspec.json.encode(event)))

    return tell


async def uninterrupted(*, continues: bool) -> tuple[World, list[AgentEvent], AgentExecuteResponse]:
    world, recorder = World(continues=continues), Recorder()
    response = await world.run(await world.request(), (), recorder.emit)
    return world, recorder.events, response


def comparable(response: AgentExecuteResponse, log: Sequence[AgentEvent]) -> JsonObject:
    """Drop the members that differ after a repeated model request or an interrupted tool."""
    members = msgspec.to_builtins(response)
    for name in ("response_continuation_id", "turn_id", "raw_response_json"):
        del members[name]
    if interrupted(log):
        del members["warnings"]
        members["tool_calls"] = [(call["call_id"], call["name"]) for call in members["tool_calls"]]
    return members


def interrupted(log: Sequence[AgentEvent]) -> list[str]:
    """The tools that were interrupted."""
    return [
        event.name for event in log if isinstance(event, ToolCompleted) and event.outcome == "interrupted"
    ]


@pytest.mark.parametrize("continues", [False, True], ids=["first", "continuation"])
async def test_a_run_interrupted_at_any_event_ends_the_same_way(continues: bool) -> None:
    world, events, response = await uninterrupted(continues=continues)
    paid = world.paid
    for count in range(len(events)):
        world, log = World(continues=continues), list[AgentEvent]()
        request = await world.request()
        with pytest.raises(Crash):
            await world.run(request, (), crash_after(count, log))
        again = await world.run(request, tuple(log), crash_after(10**9, log))
        assert [event.sequence_number for event in log] == list(range(len(log)))
        expected = comparable(response, log)
        assert {name: value for name, value in comparable(again, log).items() if name in expected} == expected
        assert world.paid == paid  # each once: the process died after it had paid, or before
        assert interrupted(log) in ([], ["pay"])
        once = [event for event in log if isinstance(event, ToolStarted)]
        assert len({(event.turn, event.call_id) for event in once}) == len(once)
        assert len([event for event in log if isinstance(event, TurnCompleted)]) == 4
        assert len([event for event in log if isinstance(event, AgentStarted)]) == 1


@pytest.mark.parametrize("continues", [False, True], ids=["first", "continuation"])
async def test_a_run_interrupted_at_every_event_ends_the_same_way(continues: bool) -> None:
    """The process dies after each single event."""
    _, events, response = await uninterrupted(continues=continues)
    world, log = World(continues=continues), list[AgentEvent]()
    request = await world.request()
    for _ in range(3 * len(events)):
        try:
            again = await world.run(request, tuple(log), crash_after(len(log) + 1, log))
            break
        except Crash:
            continue
    else:
        pytest.fail("it never came to an end")
    assert [event.sequence_number for event in log] == list(range(len(log)))
    assert again.file_bundle == response.file_bundle
    assert [call.call_id for call in again.tool_calls] == [call.call_id for call in response.tool_calls]
    assert len(set(world.paid)) == len(world.paid)


async def test_a_tool_with_side_effects_that_was_interrupted_is_not_run_again() -> None:
    world, log = World(continues=False), list[AgentEvent]()
    request = await world.request()
    _, events, _ = await uninterrupted(continues=False)
    begun = next(
        n for n, event in enumerate(events) if isinstance(event, ToolStarted) and event.name == "pay"
    )
    with pytest.raises(Crash):
        await world.run(request, (), crash_after(begun + 1, log))
    ran = len(world.paid)
    response = await world.run(request, tuple(log), crash_after(10**9, log))
    assert ran == 1
    assert world.paid.count("call_0_1") == 1
    completed = next(event for event in log if isinstance(event, ToolCompleted) and event.name == "pay")
    assert completed.outcome == "interrupted"
    assert "it was not run again" in msgspec.json.decode(completed.output)["error"]
    assert any("It is unknown whether the call 'call_0_1' took effect" in text for text in response.warnings)


async def test_a_tool_without_side_effects_that_was_interrupted_is_run_again() -> None:
    client = ScriptedClient(calls(("look", {})), answers("Done."))
    looked: list[int] = []
    registry = ToolRegistry([tool("look", lambda: looked.append(1), side_effects=False)])
    request, log = AgentExecuteRequest(instruction="Look."), list[AgentEvent]()
    with pytest.raises(Crash):
        await execute(request, client=client, tools=registry, tell=crash_after(4, log))
    response = await execute(request, client=client, tools=registry, past=log)
    assert len(looked) == 2
    assert response.warnings == ()


async def test_answered_turns_are_not_requested_again() -> None:
    world, events, _ = await uninterrupted(continues=False)
    last = max(n for n, event in enumerate(events) if isinstance(event, TurnCompleted))
    requests_before = len(world.client.bodies)
    await world.run(await world.request(), tuple(events[: last + 1]), Recorder().emit)
    assert len(world.client.bodies) == requests_before
    assert len(world.retrieved.queries) == 1


async def test_the_continued_response_is_retrieved_until_a_turn_is_answered() -> None:
    world, events, _ = await uninterrupted(continues=True)
    answered = next(n for n, event in enumerate(events) if isinstance(event, TurnCompleted))
    for stored, lookups in ((answered, 1), (answered + 1, 0)):
        world.client.retrieved.clear()
        request = AgentExecuteRequest(
            instruction="And then.",
            response_continuation_id="resp_1",
            tool_results_json='[{"call_id":"call_0_1","name":"open_tab","result_json":"1"}]',
        )
        await world.run(request, tuple(events[:stored]), Recorder().emit)
        assert len(world.client.retrieved) == lookups


async def test_a_run_that_was_cancelled_cannot_go_on() -> None:
    with pytest.raises(InvalidRequest, match="cancelled"):
        await execute(
            AgentExecuteRequest(instruction="Go."),
            client=ScriptedClient(answers("")),
            past=[AgentCancelled(sequence_number=0)],
        )


async def test_a_tool_that_was_begun_and_is_gone_since_may_have_taken_effect() -> None:
    client, log = ScriptedClient(calls(("pay", {})), answers("Done.")), list[AgentEvent]()
    request, registry = AgentExecuteRequest(instruction="Pay."), ToolRegistry([tool("pay", lambda: "paid")])
    with pytest.raises(Crash):
        await execute(request, client=client, tools=registry, tell=crash_after(4, log))
    assert isinstance(log[-1], ToolStarted)
    response = await execute(request, client=client, past=log)
    assert "unknown whether the call 'call_0_0' took effect" in response.warnings[0]
