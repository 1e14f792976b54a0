"""Seed 004: the loop, line by line."""

import asyncio
import threading
from collections.abc import Mapping, Sequence
from typing import Any, Never

import pytest
from msgspec import json

from antiphon.errors import ResponsesCallFailed, SettingsError
from antiphon.orchestrator.loop import run_orchestrator
from antiphon.orchestrator.provider import Provider, TurnResult
from antiphon.orchestrator.tool import ServerTool, Tool, ToolCall, ToolContext
from antiphon.protocol.content import JsonObject
from tests.orchestrator.fake_responses import FakeResponsesClient, function_call, message, response

EMPTY: JsonObject = {"type": "object", "properties": {}}
ENDED = {"is_approved": False, "reason": "Max turns reached or no actionable response"}
DECISION = {"is_approved": True, "reason": "It is fine.", "score": 9}


class Turns:
    """A provider that plays turns: text, or calls."""

    def __init__(self, *turns: str | list[ToolCall]) -> None:
        self.requests: list[tuple[str | None, Any, Any, dict[str, str] | None]] = []
        self._turns = turns

    async def generate_responses_turn(
        self,
        previous_response_id: str | None,
        user_input: Any,
        tools: Sequence[Any] | None,
        function_outputs: Mapping[str, str] | None,
    ) -> TurnResult:
        outputs = None if function_outputs is None else dict(function_outputs)
        self.requests.append((previous_response_id, user_input, tools, outputs))
        turn = self._turns[min(len(self.requests), len(self._turns)) - 1]
        text, calls = (turn, list[ToolCall]()) if isinstance(turn, str) else ("", turn)
        return TurnResult(text, calls, f"resp_{len(self.requests)}")

    @property
    def outputs(self) -> list[dict[str, str] | None]:
        return [request[3] for request in self.requests]


def call(name: str, arguments: str = "{}", call_id: str = "call_1") -> ToolCall:
    return ToolCall(call_id, name, arguments)


def decide(arguments: str = json.encode(DECISION).decode()) -> ToolCall:
    return call("submit_decision", arguments, "call_end")


def tool(name: str, run: Any) -> Tool:
    return Tool(name, "", EMPTY, run=run)


SUBMIT = Tool("submit_decision", "End with a decision.", EMPTY)


@pytest.mark.requirement(
    "SEED-004/loop-start", "SEED-004/loop-continue", "SEED-004/loop-chain", "SEED-004/plan-loop"
)
async def test_the_first_turn_sends_prompt_and_tools_and_later_turns_only_outputs() -> None:
    tools = [tool("look", lambda: "seen"), SUBMIT]
    provider = Turns([call("look")], [call("look", call_id="call_2")], [decide()])
    await run_orchestrator(provider, tools, "Review it.")
    assert provider.requests == [
        (None, "Review it.", tools, None),
        ("resp_1", None, None, {"call_1": "seen"}),
        ("resp_2", None, None, {"call_2": "seen"}),
    ]


@pytest.mark.requirement("SEED-004/loop-decision")
async def test_a_decision_is_returned_with_all_its_members() -> None:
    assert await run_orchestrator(Turns([decide()]), [SUBMIT], "Review it.") == DECISION


@pytest.mark.requirement("SEED-004/loop-decision-at-once")
async def test_a_decision_skips_the_calls_after_it() -> None:
    ran: list[str] = []
    tools = [tool("before", lambda: ran.append("before")), tool("after", lambda: ran.append("after"))]
    provider = Turns([call("before"), decide(), call("after", call_id="call_3")])
    assert await run_orchestrator(provider, tools, "Review it.") == DECISION
    assert ran == ["before"]
    assert len(provider.requests) == 1


@pytest.mark.requirement("SEED-004/loop-decision")
async def test_a_decision_is_never_run_as_a_tool() -> None:
    ran: list[str] = []
    tools = [tool("submit_decision", lambda: ran.append("run"))]
    assert await run_orchestrator(Turns([decide()]), tools, "Review it.") == DECISION
    assert ran == []


@pytest.mark.requirement("SEED-004/loop-decision-unparsable")
@pytest.mark.parametrize("arguments", ["", "yes", '{"is_approved": tr', "[true]", "null", "\ud800"])
async def test_a_decision_that_is_no_json_object_is_rejected(arguments: str) -> None:
    decision = await run_orchestrator(Turns([decide(arguments)]), [], "Review it.")
    assert decision["is_approved"] is False
    assert decision["reason"].startswith("Failed to parse the decision: ")


@pytest.mark.requirement("SEED-004/loop-outputs", "SEED-004/testing-plumbing")
async def test_outputs_are_keyed_by_call_id_in_the_order_of_the_calls() -> None:
    async def slow(text: str) -> str:
        await asyncio.sleep(0)
        return text

    tools = [Tool.from_function(slow), tool("fast", lambda: {"a": 1})]
    calls = [call("slow", '{"text": "s"}', "z"), call("fast", "{}", "a"), call("slow", '{"text": "t"}', "m")]
    provider = Turns(calls, [decide()])
    await run_orchestrator(provider, tools, "Review it.")
    assert provider.outputs[1] == {"z": "s", "a": '{"a":1}', "m": "t"}
    assert list(provider.outputs[1] or ()) == ["z", "a", "m"]


@pytest.mark.requirement("SEED-004/loop-cleared")
async def test_outputs_are_sent_once() -> None:
    provider = Turns([call("look")], "Let me think.", [decide()])
    await run_orchestrator(provider, [tool("look", lambda: "seen")], "Review it.")
    assert provider.outputs == [None, {"call_1": "seen"}, {}]


@pytest.mark.requirement("SEED-004/loop-error")
@pytest.mark.parametrize(
    ("error", "reported"),
    [
        (ValueError('say "no"'), 'ValueError: say "no"'),
        (KeyError("x"), "KeyError: 'x'"),
        (RuntimeError(), "RuntimeError: "),
    ],
)
async def test_a_tool_failure_is_sent_to_the_model_as_json(error: Exception, reported: str) -> None:
    def fail() -> Never:
        raise error

    provider = Turns([call("fail")], [decide()])
    assert await run_orchestrator(provider, [tool("fail", fail)], "Review it.") == DECISION
    assert provider.outputs[1] is not None
    assert json.decode(provider.outputs[1]["call_1"]) == {"error": reported}


@pytest.mark.requirement("SEED-004/loop-error")
@pytest.mark.parametrize(
    ("bad", "reported"),
    [
        (call("unheard_of"), "ToolUnknown: There is no tool 'unheard_of'. Known: greet, declared, leave."),
        (call("greet", "{"), "ToolArgumentsInvalid: The arguments are not valid JSON"),
        (
            call("greet", '{"name": 5}'),
            "ToolArgumentsInvalid: The arguments do not fit: Expected `str`, got `int`",
        ),
        (call("declared"), "ToolNotRunnable: The tool 'declared' is only declared here"),
        (call("leave"), "ToolAborted: SystemExit: 1"),
    ],
)
async def test_an_invalid_call_is_reported_to_the_model(bad: ToolCall, reported: str) -> None:
    def greet(name: str) -> str:
        return f"Hello {name}"

    def leave() -> Never:
        raise SystemExit(1)

    tools = [Tool.from_function(greet), Tool("declared", "", EMPTY), tool("leave", leave)]
    provider = Turns([bad], [decide()])
    assert await run_orchestrator(provider, tools, "Review it.") == DECISION
    assert provider.outputs[1] is not None
    assert json.decode(provider.outputs[1]["call_1"])["error"].startswith(reported)


@pytest.mark.requirement("SEED-004/loop-error")
async def test_a_tool_timeout_is_reported_to_the_model() -> None:
    release = threading.Event()
    own = ServerTool("own", "", EMPTY, run=release.wait, deadline=0.01)
    provider = Turns([call("hang"), call("own", call_id="call_2")], [decide()])
    decision = await run_orchestrator(
        provider, [tool("hang", release.wait), own], "Review it.", deadline=0.02
    )
    release.set()
    assert decision == DECISION
    outputs = provider.outputs[1]
    assert outputs is not None
    assert (
        json.decode(outputs["call_1"])["error"]
        == "ToolTimeout: The tool 'hang' gave no result within 0.02 seconds."
    )
    assert "0.01 seconds" in outputs["call_2"]


async def test_a_result_of_ten_megabytes_is_truncated() -> None:
    provider = Turns([call("much")], [decide()])
    assert (
        await run_orchestrator(provider, [tool("much", lambda: "x" * 10_000_000)], "Review it.") == DECISION
    )
    outputs = provider.outputs[1]
    assert outputs is not None
    assert outputs["call_1"] == "x" * 100_000 + "\n[cut: 9900000 more characters]"
    await run_orchestrator(
        brief := Turns([call("much")], [decide()]), [tool("much", lambda: "12345")], "Go.", max_output=3
    )
    assert brief.outputs[1] == {"call_1": "123\n[cut: 2 more characters]"}


@pytest.mark.requirement("SEED-004/loop-text-alone")
async def test_text_without_calls_continues_with_empty_outputs() -> None:
    provider = Turns("I will look into it.", [decide()])
    assert await run_orchestrator(provider, [SUBMIT], "Review it.") == DECISION
    assert provider.requests[1] == ("resp_1", None, None, {})


@pytest.mark.requirement("SEED-004/loop-nothing", "SEED-004/loop-end")
@pytest.mark.parametrize("empty_text", ["", "  \n"])
async def test_an_empty_turn_ends_the_loop(empty_text: str) -> None:
    provider = Turns(empty_text, [decide()])
    assert await run_orchestrator(provider, [SUBMIT], "Review it.") == ENDED
    assert len(provider.requests) == 1


@pytest.mark.requirement("SEED-004/loop-end", "SEED-004/loop-max-turns")
@pytest.mark.parametrize(("settings", "turns"), [({}, 20), ({"max_turns": 3}, 3), ({"max_turns": 0}, 0)])
async def test_an_endless_model_is_stopped(settings: JsonObject, turns: int) -> None:
    provider = Turns([call("look")])
    assert await run_orchestrator(provider, [tool("look", lambda: "seen")], "Review it.", **settings) == ENDED
    assert len(provider.requests) == turns


@pytest.mark.requirement("SEED-004/loop-outputs")
async def test_calls_with_text_are_run_like_calls_without() -> None:
    client = FakeResponsesClient(
        response(message("Let me look."), function_call("call_1", "look"), id="resp_1"),
        response(function_call("call_2", "submit_decision", '{"is_approved": true}'), id="resp_2"),
    )
    decision = await run_orchestrator(
        Provider(client, model="m"), [tool("look", lambda: "seen")], "Review it."
    )
    assert decision == {"is_approved": True}
    assert client.bodies[1]["input"] == [
        {"type": "function_call_output", "call_id": "call_1", "output": "seen"}
    ]


async def test_a_refusal_of_the_model_does_not_end_the_run_and_its_decision_counts() -> None:
    refused = {"type": "message", "content": [{"type": "refusal", "refusal": "I will not."}]}
    decided = function_call("call_2", "submit_decision", '{"is_approved": false}')
    client = FakeResponsesClient(response(refused, id="resp_1"), response(refused, decided, id="resp_2"))
    decision = await run_orchestrator(Provider(client, model="m"), [SUBMIT], "Review it.")
    assert decision == {"is_approved": False}
    assert client.bodies[1]["input"] == []


def visit(city: str, days: int) -> str:
    return f"{city}{days}"


def needs_context(context: ToolContext) -> str:
    return context.tenant


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (visit, "use Tool.from_function"),
        ("look", "'look' is not a tool"),
        (Tool("odd", "", {"type": "string"}, run=lambda: ""), "parameters of the tool 'odd'"),
        (Tool("odd", "", None, run=lambda: ""), "parameters of the tool 'odd'"),  # pyright: ignore[reportArgumentType]
        (tool("odd", type), "signature of 'type' cannot be read"),
        (tool("odd", 5), "cannot be read"),
        (tool("odd", visit), "needs 'city', which the tool's parameters do not have"),
        (tool("odd", needs_context), "'odd' needs the context"),
    ],
)
async def test_an_invalid_tool_definition_raises_at_the_start(wrong: Any, why: str) -> None:
    provider = Turns([decide()])
    with pytest.raises(SettingsError, match=why):
        await run_orchestrator(provider, [SUBMIT, wrong], "Review it.")
    assert provider.requests == []


async def test_an_exception_of_the_provider_ends_the_run() -> None:
    failure = ResponsesCallFailed("Too fast.", status=429)
    with pytest.raises(ResponsesCallFailed, match="Too fast"):
        await run_orchestrator(Provider(FakeResponsesClient(failure), model="m"), [], "Review it.")


async def test_a_run_that_is_cancelled_cancels_its_tool() -> None:
    started, cancelled = asyncio.Event(), asyncio.Event()

    async def hang() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    run = asyncio.create_task(run_orchestrator(Turns([call("hang")]), [tool("hang", hang)], "Review it."))
    await started.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    await asyncio.wait_for(cancelled.wait(), 10)
