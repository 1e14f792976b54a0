"""Checks of tools: every form of tool_choice, and outputs for calls."""

import msgspec

from antiphon.conformance.checks.streams import last_response
from antiphon.conformance.probe import Probe, check, expect_error, expect_offered, items_of, output_text
from antiphon.conformance.reading import list_at, text_at
from antiphon.conformance.results import Failed, Skipped, expect, provoked
from antiphon.conformance.scenarios import SCENARIOS, TIME, WEATHER
from antiphon.protocol.content import JsonObject

QUESTION = "What is the weather in Paris? Use the tool."


def arguments_of(call: JsonObject) -> JsonObject:
    """The arguments of a call, which must be a JSON object."""
    try:
        return msgspec.json.decode(text_at(call, "arguments"), type=JsonObject)
    except (msgspec.DecodeError, RecursionError):
        raise Failed(f"the arguments are not a JSON object: {call.get('arguments')!r}") from None


@check("tools.none", "tool_choice none: no call", rule="tools-choice-none")
async def none(probe: Probe) -> None:
    response = await probe.create(input=QUESTION, tools=[WEATHER], tool_choice="none")
    expect(not items_of(response, "function_call"), "a tool was called")


@check("tools.required", "tool_choice required: at least one call", rule="tools-choice-required")
async def required(probe: Probe) -> None:
    response = await probe.create(input="Say hello.", tools=[WEATHER], tool_choice="required")
    expect(items_of(response, "function_call"), "no tool was called")


@check("tools.named", "A named tool: that one is called", rule="tools-choice-named")
async def named(probe: Probe) -> None:
    choice = {"type": "function", "name": "get_time"}
    response = await probe.create(input=QUESTION, tools=[WEATHER, TIME], tool_choice=choice)
    names = {text_at(call, "name") for call in items_of(response, "function_call")}
    expect(names == {"get_time"}, f"the tools that were called: {', '.join(sorted(names)) or 'none'}")


@check("tools.allowed", "allowed_tools: no other tool is called", rule="tools-choice-allowed")
async def allowed(probe: Probe) -> None:
    choice = {
        "type": "allowed_tools",
        "mode": "required",
        "tools": [{"type": "function", "name": "get_time"}],
    }
    answer = await probe.ask(input=QUESTION, tools=[WEATHER, TIME], tool_choice=choice)
    expect_offered(answer, "allowed_tools")
    expect(answer.status == 200, f"the status is {answer.status}")
    names = {text_at(call, "name") for call in items_of(answer.json, "function_call")}
    expect(names == {"get_time"}, f"the tools that were called: {', '.join(sorted(names)) or 'none'}")


@check("tools.arguments", "Arguments are JSON that matches the schema", rule="items-function-call")
async def arguments(probe: Probe) -> None:
    calls = items_of(last_response(await probe.stream("call")), "function_call")
    provoked(calls, "the model did not call the tool")
    for call in calls:
        found = arguments_of(call)
        expect(isinstance(found.get("city"), str), f"the arguments are {found!r}: `city` is missing")


@check("tools.one_at_a_time", "parallel_tool_calls false: at most one call", rule="tools-parallel-false")
async def one_at_a_time(probe: Probe) -> None:
    body = {**SCENARIOS["calls"].body, "parallel_tool_calls": False}
    response = await probe.create(**body)
    calls = items_of(response, "function_call")
    provoked(calls, "the model did not call the tool")
    expect(len(calls) == 1, f"{len(calls)} calls were made")


@check("tools.round_trip", "An output can be sent with the complete history", rule="tools-round-trip")
async def round_trip(probe: Probe) -> None:
    called = last_response(await probe.stream("call"))
    calls = items_of(called, "function_call")
    provoked(calls, "the model did not call the tool")
    history = [{"role": "user", "content": QUESTION}, *list_at(called, "output")]
    outputs = [
        {"type": "function_call_output", "call_id": each.get("call_id"), "output": '{"sky": "clear"}'}
        for each in calls
    ]
    response = await probe.create(input=[*history, *outputs], tools=[WEATHER], tool_choice="none")
    provoked(output_text(response), "the model wrote no text")


@check("tools.continued", "An output can continue the response with the call", rule="tools-continue")
async def continued(probe: Probe) -> None:
    called = last_response(await probe.stream("call"))
    calls = items_of(called, "function_call")
    provoked(calls, "the model did not call the tool")
    outputs = [
        {"type": "function_call_output", "call_id": call.get("call_id"), "output": "clear"} for call in calls
    ]
    answer = await probe.ask(
        input=outputs, previous_response_id=called.get("id"), tools=[WEATHER], tool_choice="none"
    )
    if answer.status in (400, 404) and called.get("store") is False:
        raise Skipped("not offered: the server says `store: false`")
    expect(answer.status == 200, f"the status is {answer.status}")


@check("tools.unknown_call", "An output without its call is refused", rule="tools-unknown-call")
async def unknown_call(probe: Probe) -> None:
    outputs = [{"type": "function_call_output", "call_id": "call_nobody", "output": "clear"}]
    expect_error(await probe.ask(input=outputs, tools=[WEATHER]), 400, 404, 422)


@check("tools.unknown_choice", "A choice of an undeclared tool is refused", rule="tools-unknown-choice")
async def unknown_choice(probe: Probe) -> None:
    choice = {"type": "function", "name": "nobody"}
    expect_error(await probe.ask(input=QUESTION, tools=[WEATHER], tool_choice=choice), 400, 404, 422)


CHECKS = (
    none, required, named, allowed, arguments, one_at_a_time, round_trip, continued, unknown_call,
    unknown_choice,
)  # fmt: skip
