"""Breakpoints of the prompt cache."""

from dataclasses import replace
from typing import Any

import msgspec.structs

from antiphon.backends.anthropic_messages.request import Payload, build_payload
from antiphon.protocol.downgrade import rendered
from antiphon.protocol.parse_create import create_from
from antiphon.turn.context import build_turn
from tests.backends.anthropic_messages.building import CALL, ENDPOINT, OUTPUT, TOOL, USER, build

SHORT = {"type": "ephemeral"}
LONG = {"type": "ephemeral", "ttl": "1h"}


def with_breakpoint(text: str, **ttl: str) -> dict[str, Any]:
    part = {"type": "input_text", "text": text, "prompt_cache_breakpoint": {"mode": "explicit", **ttl}}
    return {"role": "user", "content": [part]}


def breakpoints(payload: Payload) -> list[tuple[str, dict[str, Any]]]:
    """The blocks with a breakpoint and its kind, in order."""
    blocks_of_messages = [block for message in payload.body["messages"] for block in message["content"]]
    blocks = [*payload.body.get("tools", []), *payload.body.get("system", []), *blocks_of_messages]
    return [
        (block.get("name") or block.get("text") or block["type"], block["cache_control"])
        for block in blocks
        if "cache_control" in block
    ]


def test_the_system_prompt_and_the_last_block_get_breakpoints() -> None:
    payload = build(tools=[TOOL], instructions="System.", input=[USER, CALL, OUTPUT])
    assert breakpoints(payload) == [("System.", SHORT), ("tool_result", SHORT)]


def test_without_a_system_prompt_the_last_tool_gets_a_breakpoint() -> None:
    payload = build(tools=[{**TOOL, "name": "first"}, TOOL])
    assert breakpoints(payload) == [("look", SHORT), ("hi", SHORT)]


def test_breakpoints_of_the_caller_are_sent_too() -> None:
    payload = build(input=[with_breakpoint("one"), {"role": "assistant", "content": "a"}, USER])
    assert breakpoints(payload) == [("one", SHORT), ("hi", SHORT)]


def test_explicit_mode_sends_only_the_callers_breakpoints() -> None:
    payload = build(input=[with_breakpoint("one"), USER], prompt_cache_options={"mode": "explicit"})
    assert breakpoints(payload) == [("one", SHORT)]


def test_a_breakpoint_within_a_tool_output_moves_to_the_tool_result() -> None:
    output = {**OUTPUT, "output": with_breakpoint("x")["content"]}
    payload = build(input=[USER, CALL, output, USER], prompt_cache_options={"mode": "explicit"})
    assert breakpoints(payload) == [("tool_result", SHORT)]
    assert payload.body["messages"][-1]["content"][0]["content"] == "x"


def test_a_breakpoint_on_assistant_text_is_sent() -> None:
    part = {"type": "output_text", "text": "a", "prompt_cache_breakpoint": {"mode": "explicit"}}
    assistant_message = {"type": "message", "role": "assistant", "content": [part]}
    payload = build(input=[USER, assistant_message, USER], prompt_cache_options={"mode": "explicit"})
    assert breakpoints(payload) == [("a", SHORT)]


def test_at_most_four_breakpoints_are_sent() -> None:
    many = [with_breakpoint(str(number)) for number in range(6)]
    payload = build(input=many, instructions="System.")
    assert [name for name, _ in breakpoints(payload)] == ["2", "3", "4", "5"]
    assert rendered(payload.downgrades) == ["only the last 4 prompt cache breakpoints are sent"]
    three = build(input=[*many[:3], USER], instructions="System.")
    assert [name for name, _ in breakpoints(three)] == ["0", "1", "2", "hi"]


def test_all_breakpoints_get_the_same_ttl() -> None:
    kinds: list[dict[str, Any]] = [
        {"input": [with_breakpoint("one", ttl="30m"), USER]},
        {"input": [with_breakpoint("one"), USER], "prompt_cache_retention": "24h"},
        {"input": [with_breakpoint("one"), USER], "prompt_cache_options": {"ttl": "12h"}},
    ]
    for params in kinds:
        assert breakpoints(build(**params)) == [("one", LONG), ("hi", LONG)]
    assert breakpoints(build(input=[with_breakpoint("one", ttl="5m")])) == [("one", SHORT)]


def test_an_endpoint_row_may_leave_breakpoints_to_the_caller() -> None:
    endpoint = replace(ENDPOINT, quirks=msgspec.structs.replace(ENDPOINT.quirks, prompt_cache="marked"))
    request = create_from(model="m", input=[with_breakpoint("one"), USER])
    assert breakpoints(build_payload(build_turn(request, model="m"), endpoint)) == [("one", SHORT)]


def test_the_turns_items_are_not_modified() -> None:
    request = create_from(model="m", input=[USER], tools=[TOOL])
    turn = build_turn(request, model="m")
    assert build_payload(turn, ENDPOINT) == build_payload(turn, ENDPOINT)
    assert "cache_control" not in str(turn)
