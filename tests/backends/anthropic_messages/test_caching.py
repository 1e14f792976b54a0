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


def marked(words: str, **ttl: str) -> dict[str, Any]:
    part = {"type": "input_text", "text": words, "prompt_cache_breakpoint": {"mode": "explicit", **ttl}}
    return {"role": "user", "content": [part]}


def marks(payload: Payload) -> list[tuple[str, dict[str, Any]]]:
    """What is marked, and how, in order."""
    said = [block for message in payload.body["messages"] for block in message["content"]]
    blocks = [*payload.body.get("tools", []), *payload.body.get("system", []), *said]
    return [
        (block.get("name") or block.get("text") or block["type"], block["cache_control"])
        for block in blocks
        if "cache_control" in block
    ]


def test_the_system_prompt_and_the_end_are_marked() -> None:
    payload = build(tools=[TOOL], instructions="System.", input=[USER, CALL, OUTPUT])
    assert marks(payload) == [("System.", SHORT), ("tool_result", SHORT)]


def test_without_a_system_prompt_the_last_tool_is_marked() -> None:
    payload = build(tools=[{**TOOL, "name": "first"}, TOOL])
    assert marks(payload) == [("look", SHORT), ("hi", SHORT)]


def test_what_the_caller_marks_is_marked_too() -> None:
    payload = build(input=[marked("one"), {"role": "assistant", "content": "a"}, USER])
    assert marks(payload) == [("one", SHORT), ("hi", SHORT)]


def test_a_caller_may_mark_all_by_itself() -> None:
    payload = build(input=[marked("one"), USER], prompt_cache_options={"mode": "explicit"})
    assert marks(payload) == [("one", SHORT)]


def test_a_mark_inside_an_output_is_the_outputs() -> None:
    output = {**OUTPUT, "output": marked("x")["content"]}
    payload = build(input=[USER, CALL, output, USER], prompt_cache_options={"mode": "explicit"})
    assert marks(payload) == [("tool_result", SHORT)]
    assert payload.body["messages"][-1]["content"][0]["content"] == "x"


def test_a_mark_on_the_models_own_words() -> None:
    words = {"type": "output_text", "text": "a", "prompt_cache_breakpoint": {"mode": "explicit"}}
    said = {"type": "message", "role": "assistant", "content": [words]}
    payload = build(input=[USER, said, USER], prompt_cache_options={"mode": "explicit"})
    assert marks(payload) == [("a", SHORT)]


def test_no_more_than_four() -> None:
    many = [marked(str(number)) for number in range(6)]
    payload = build(input=many, instructions="System.")
    assert [name for name, _ in marks(payload)] == ["2", "3", "4", "5"]
    assert rendered(payload.downgrades) == ["only the last 4 prompt cache breakpoints are sent"]
    three = build(input=[*many[:3], USER], instructions="System.")
    assert [name for name, _ in marks(three)] == ["0", "1", "2", "hi"]


def test_all_live_equally_long() -> None:
    kinds: list[dict[str, Any]] = [
        {"input": [marked("one", ttl="30m"), USER]},
        {"input": [marked("one"), USER], "prompt_cache_retention": "24h"},
        {"input": [marked("one"), USER], "prompt_cache_options": {"ttl": "12h"}},
    ]
    for given in kinds:
        assert marks(build(**given)) == [("one", LONG), ("hi", LONG)]
    assert marks(build(input=[marked("one", ttl="5m")])) == [("one", SHORT)]


def test_a_row_may_leave_it_to_the_caller() -> None:
    endpoint = replace(ENDPOINT, quirks=msgspec.structs.replace(ENDPOINT.quirks, prompt_cache="marked"))
    request = create_from(model="m", input=[marked("one"), USER])
    assert marks(build_payload(build_turn(request, model="m"), endpoint)) == [("one", SHORT)]


def test_the_clients_own_items_are_not_touched() -> None:
    request = create_from(model="m", input=[USER], tools=[TOOL])
    turn = build_turn(request, model="m")
    assert build_payload(turn, ENDPOINT) == build_payload(turn, ENDPOINT)
    assert "cache_control" not in str(turn)
