"""AGN-004: text, calls and finish reasons in every shape that servers send."""

from typing import Any

import msgspec
import pytest

from antiphon.orchestrator.models import (
    AgentToolCall,
)
from tests.orchestrator.answers import CALL, mapped, message, of, text_part


@pytest.mark.requirement(
    "AGN-004/2.4-last-segment",
    "AGN-004/2.4-several",
    "AGN-004/risks-single-reason",
    "AGN-004/tests-extraction",
)
@pytest.mark.parametrize(
    ("output", "reason"),
    [
        ([text_part("a", finish_reason="stop")], "stop"),
        ([text_part("a", finish_reason="length"), text_part("b", finish_reason="stop")], "stop"),
        (
            [
                text_part("a", finish_reason="length"),
                text_part("b", finish_reason=" "),
                text_part("c", finish_reason=3),
            ],
            "length",
        ),
        (
            [{"type": "tool_call", "tool_call": {"id": "c", "name": "f", "finish_reason": "length"}}],
            "length",
        ),
        ([message(text_part("a", finish_reason="length"))], "length"),
        ([message(text_part("a"), finish_reason="content_filter")], "content_filter"),
        ([text_part("a"), {"type": "reasoning", "finish_reason": "length"}], "length"),
    ],
)
def test_the_finish_reason_is_that_of_the_last_segment_that_has_one(output: list[Any], reason: str) -> None:
    assert of(*output).finish_reason == reason


@pytest.mark.requirement(
    "AGN-004/2.5-segments", "AGN-004/2.5-order", "AGN-004/2.5-joined", "AGN-004/risks-interleaved",
    "AGN-004/tests-text",
)  # fmt: skip
def test_text_of_all_shapes_is_joined_in_order_with_blank_lines() -> None:
    response = of(
        text_part(" one\n"),
        {
            "type": "reasoning",
            "summary": [text_part("hidden")],
            "content": [{"type": "reasoning_text", "text": "hidden"}],
        },
        message(text_part("two"), CALL, {"type": "refusal", "refusal": "three"}),
        CALL,
        text_part(" \n"),
        message(text_part("")),
        {"role": "assistant", "content": "four"},
        {"type": "Message", "content": [{"type": "OUTPUT_TEXT", "text": "five"}]},
        {"type": "message", "content": {"type": "text", "text": "six"}},
        {"type": "web_search_call", "text": "hidden"},
        "hidden",
        None,
    )
    assert response.text == " one\n\ntwo\n\nthree\n\nfour\n\nfive\n\nsix"
    assert [call.call_id for call in response.tool_calls] == ["call_1", "call_1"]


@pytest.mark.requirement("AGN-004/2.5-joined")
@pytest.mark.parametrize(
    ("texts", "joined"),
    [
        (["a\n", "b"], "a\n\nb"),
        (["a", "\n\nb"], "a\n\nb"),
        (["a\r\n", "\r\nb\n\n\n", "\nc"], "a\n\nb\n\nc"),
        (["\na\n\n\nb ", "  c\n"], "\na\n\n\nb \n\n  c\n"),
        (["\na\n"], "\na\n"),
    ],
)
def test_there_is_exactly_one_blank_line_at_a_joint_and_the_rest_is_untouched(
    texts: list[str], joined: str
) -> None:
    assert of(*map(text_part, texts)).text == joined


def test_an_output_that_is_one_object_is_a_list_of_one() -> None:
    assert mapped({"output": text_part("Hi")}).text == "Hi"


def test_output_text_counts_only_without_text_parts() -> None:
    assert mapped({"output": [text_part("Hi")], "output_text": "Hi again"}).text == "Hi"
    assert mapped({"output": [CALL], "output_text": "Hi"}).text == "Hi"


@pytest.mark.requirement("AGN-004/2.5-no-text")
@pytest.mark.parametrize("output", [[], [CALL], [text_part(" ")], [{"type": "reasoning", "summary": []}]])
def test_without_text_the_text_is_null(output: list[Any]) -> None:
    assert of(*output).text is None


@pytest.mark.requirement(
    "AGN-004/2.6-each-call", "AGN-004/2.6-call-id", "AGN-004/2.6-name", "AGN-004/tests-tool-calls"
)
@pytest.mark.parametrize(
    "segment",
    [
        {"type": "tool_call", "tool_call": {"id": "call_1", "name": "look", "arguments": '{"a":1}'}},
        {"type": "tool_call", "id": "call_1", "name": "look", "arguments": '{"a":1}'},
        {"type": "Tool_Call", "tool_call": {"call_id": "call_1", "name": "look", "arguments": {"a": 1}}},
        CALL,
        {"type": "function_call", "id": "call_1", "name": "look", "arguments": '{"a":1}'},
        {"type": "custom_tool_call", "call_id": "call_1", "id": "ctc_1", "name": "look", "input": '{"a":1}'},
    ],
)
@pytest.mark.parametrize("wrapped", [False, True])
def test_every_shape_of_a_call_is_found(segment: dict[str, Any], wrapped: bool) -> None:
    response = of(message(segment) if wrapped else segment, CALL | {"call_id": "call_2"})
    first, second = response.tool_calls
    assert first == AgentToolCall(call_id="call_1", name="look", arguments_json='{"a":1}')
    assert second.call_id == "call_2"


@pytest.mark.requirement("AGN-004/2.6-arguments", "AGN-004/2.6-exact", "AGN-004/tests-tool-calls")
@pytest.mark.parametrize(
    "written", ['{ "b": 1.0,\n "a" : 1e2, "a": "é\\u00e9" }', "{not json", "", " ", "null", '"text"']
)
def test_arguments_are_preserved_verbatim(written: str) -> None:
    for raw in ({"output": [CALL | {"arguments": written}]}, {"output": [{"type": "custom_tool_call", "name": "f", "input": written}]}):  # fmt: skip
        assert mapped(msgspec.json.encode(raw)).tool_calls[0].arguments_json == written


@pytest.mark.requirement("AGN-004/2.6-arguments")
@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ({"b": 1, "a": [1.5, None]}, '{"b":1,"a":[1.5,null]}'),
        ({}, "{}"),
        ([1], "[1]"),
        (7, "7"),
        (None, None),
    ],
)
def test_arguments_of_an_object_that_was_never_text_are_written_compactly(
    arguments: object, found: str | None
) -> None:
    call = {"type": "tool_call", "tool_call": {"id": "c", "name": "f", "arguments": arguments}}
    assert of(call).tool_calls[0].arguments_json == found


@pytest.mark.requirement("AGN-004/2.6-exact")
@pytest.mark.parametrize("written", ['{ "a" : 1.10, "b":1e2,\n "a":123456789012345678901234567890 }', "[ 1 ]", "1e999", '{"\u00e9": "\\u00e9"}'])  # fmt: skip
@pytest.mark.parametrize("shape", ['{"type":"tool_call","tool_call":{"id":"c","arguments": %s }}', '{"type":"function_call","call_id":"c","arguments":%s}', '{"type":"custom_tool_call","call_id":"c","input":%s}'])  # fmt: skip
def test_arguments_sent_as_json_are_preserved_verbatim(written: str, shape: str) -> None:
    raw = f'{{"output":[{shape % written}]}}'
    assert mapped(raw).tool_calls[0].arguments_json == written
    assert mapped(raw.encode()).tool_calls[0].arguments_json == written


def test_a_call_preserves_a_partial_name_and_id() -> None:
    response = of(
        {"type": "function_call"}, {"type": "function_call", "name": "f"}, {"type": "tool_call", "id": "c"}
    )
    assert [(call.call_id, call.name, call.arguments_json) for call in response.tool_calls] == [
        ("", "f", None),
        ("c", "", None),
    ]
