"""Bounds of what a body may hold: errors name the parameter, and the cost of a large body is bounded."""

import time
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.errors import InvalidRequest
from antiphon.orchestrator.request_parser import parse_execute_request
from antiphon.protocol import bounds
from antiphon.protocol.bounds import (
    MAX_NESTING,
    MAX_VALUES,
    UNCOUNTED_BYTES,
    check_nesting,
    check_texts,
    check_values,
)
from antiphon.protocol.frames import read_frame
from antiphon.protocol.items import Message
from antiphon.protocol.parse_conversations import parse_conversation, parse_new_items
from antiphon.protocol.parse_create import parse_create
from antiphon.protocol.parse_items import MAX_DECLARED_TOOLS, MAX_ITEMS, MAX_PARTS, MAX_RESULTS
from antiphon.protocol.parse_tools import MAX_NAMESPACE_TOOLS, MAX_TOOLS
from antiphon.protocol.profile import OPENAI
from antiphon.retrieval.scope import MAX_FILTER_VALUES, parse_scope
from antiphon.server.compat.chat_completions.request import read_chat
from antiphon.server.compat.messages.request import read_count, read_messages
from antiphon.turn.context import build_turn
from antiphon.turn.sealing import SealKey

SEALER = SealKey(b"secret", bytes).sealer("acme")
Parser = Callable[[bytes], object]
TEXT = {"type": "input_text", "text": ""}
FUNCTION = {"type": "function", "name": "f"}
MAX_CPU_SECONDS = 3.0
"""Generous: it takes 0.2 s on an idle machine, and took minutes and gigabytes without bounds."""


def encoded(**params: Any) -> bytes:
    return msgspec.json.encode({"model": "m", "input": "hi", **params})


def refused(parse: Parser, body: bytes) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as caught:
        parse(body)
    return caught.value


def nested(levels: int) -> object:
    found: object = "x"
    for level in range(levels):
        found = [found] if level % 2 else {"a": found}
    return found


def messages(body: bytes) -> object:
    return read_messages(body, SEALER)


def as_frame(body: bytes) -> object:
    return read_frame(body.decode())


def counted(body: bytes) -> object:
    return read_count(body, SEALER)


def chat(**params: Any) -> bytes:
    return msgspec.json.encode({"model": "m", "messages": [{"role": "user", "content": "x"}], **params})


@pytest.mark.parametrize("value", [b"{}", b"[]", b"1", b'""', b"[[[[[[[]]]]]]]"])
@pytest.mark.parametrize("check", [check_values, as_frame])
def test_millions_of_values_are_refused_before_they_are_decoded(check: Parser, value: bytes) -> None:
    body = b'{"a":[' + b",".join([value] * (4_000_000 // (len(value) + 1))) + b"]}"
    before = time.process_time()
    error = refused(check, body)
    assert time.process_time() - before < MAX_CPU_SECONDS
    assert (error.status, error.code) == (400, "too_many_values")


def test_texts_of_any_length_hold_commas_brackets_and_quotes() -> None:
    text = 'a, [b], {c}: "d" \\\\ \\" ' * (MAX_VALUES // 2)
    body = encoded(input=text)
    check_values(body)
    request = parse_create(body)
    assert request.items == (Message(role="user", content=text),)


@given(st.text(alphabet='a"\\\\,[]{}', max_size=12), st.integers(2, 6), st.integers(1, 7))
def test_only_the_structure_is_counted_wherever_the_body_is_cut(text: str, arrays: int, size: int) -> None:
    body = msgspec.json.encode([text, *[[]] * arrays])
    structure = 1 + 2 * arrays  # brackets and commas
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bounds, "UNCOUNTED_BYTES", 0)
        patch.setattr(bounds, "WINDOW_BYTES", size)
        patch.setattr(bounds, "MAX_VALUES", structure)
        check_values(body)
        patch.setattr(bounds, "MAX_VALUES", structure - 1)
        with pytest.raises(InvalidRequest):
            check_values(body)


def test_each_text_is_counted_by_itself() -> None:
    arrays = "[" + "[]," * MAX_VALUES + "[]]"
    for before in ('"', '"\\', "\\"):
        with pytest.raises(InvalidRequest):
            check_texts([before, arrays], "input")
    check_texts(['"', "," * 10, "x" * UNCOUNTED_BYTES], "input")


def test_a_small_body_is_not_counted() -> None:
    check_values(b"[" + b"[]," * ((UNCOUNTED_BYTES - 3) // 3) + b"]")


def test_a_deep_value_is_refused_and_a_level_less_is_not() -> None:
    check_nesting(nested(MAX_NESTING), "x")
    with pytest.raises(InvalidRequest) as caught:
        check_nesting(nested(MAX_NESTING + 1), "x")
    assert (caught.value.param, caught.value.code) == ("x", "nested_too_deeply")
    for value in ("text", 5, None, True):
        check_nesting(value, "x")


DEEP = nested(MAX_NESTING + 1)


@pytest.mark.parametrize(
    ("body", "param"),
    [
        (encoded(input=[{"role": "user", "content": [TEXT]}, {"type": "acme:x", "a": DEEP}]), "input[1]"),
        (encoded(tools=[{**FUNCTION, "parameters": DEEP}]), "tools[0]"),
        (encoded(tools=[{"type": "mcp", "x": DEEP}]), "tools[0]"),
        (encoded(tool_choice={"type": "function", "name": "f", "x": DEEP}), "tool_choice"),
        (
            encoded(text={"format": {"type": "json_schema", "name": "n", "schema": DEEP}}),
            "text.format.schema",
        ),
        (
            encoded(
                input=[
                    {
                        "type": "tool_search_call",
                        "call_id": "c",
                        "arguments": msgspec.json.encode({"a": DEEP}).decode(),
                    }
                ]
            ),
            "input[0].arguments",
        ),
    ],
)
def test_deep_nesting_is_refused_with_its_parameter(body: bytes, param: str) -> None:
    error = refused(parse_create, body)
    assert (error.param, error.code) == (param, "nested_too_deeply")


def test_deep_nesting_is_refused_on_the_compatible_endpoints() -> None:
    call = {"id": "c", "function": {"name": "f", "arguments": {"a": DEEP}}}
    body = chat(messages=[{"role": "assistant", "tool_calls": [call]}])
    assert refused(read_chat, body).param == "messages"
    function = {"type": "function", "function": {"name": "f", "parameters": {"a": DEEP}}}
    assert refused(read_chat, chat(tools=[function])).param == "tools[0]"
    block = {"type": "tool_use", "id": "c", "name": "f", "input": {"a": DEEP}}
    body = chat(max_tokens=1, messages=[{"role": "assistant", "content": [block]}])
    assert refused(messages, body).param == "messages[0].content"
    tool = {"name": "f", "input_schema": {"a": DEEP}}
    assert refused(messages, chat(max_tokens=1, tools=[tool])).param == "tools[0]"


def namespaces(members: int) -> list[dict[str, Any]]:
    tools = [{"type": "function", "name": f"f{number}"} for number in range(members)]
    return [{"type": "namespace", "name": "n", "tools": tools}]


@pytest.mark.parametrize(
    ("body", "param"),
    [
        (encoded(input=[{"role": "user", "content": ""}] * (MAX_ITEMS + 1)), "input"),
        (encoded(input=[{"role": "user", "content": [TEXT] * (MAX_PARTS // 2 + 1)}] * 2), "input"),
        (
            encoded(input=[{"type": "function_call_output", "call_id": "c", "output": [TEXT] * 10_001}]),
            "input",
        ),
        (
            encoded(
                input=[{"type": "additional_tools", "tools": [FUNCTION]}] * (MAX_DECLARED_TOOLS + 1),
            ),
            "input",
        ),
        (
            encoded(
                input=[{"type": "shell_call_output", "call_id": "c", "output": [{}] * (MAX_RESULTS + 1)}]
            ),
            "input[0].output",
        ),
        (encoded(tools=[FUNCTION] * (MAX_TOOLS + 1)), "tools"),
        (encoded(tools=namespaces(MAX_NAMESPACE_TOOLS + 1)), "tools"),
        (
            encoded(tool_choice={"type": "allowed_tools", "tools": [FUNCTION] * (MAX_TOOLS + 1)}),
            "tool_choice.tools",
        ),
        (encoded(include=["reasoning.encrypted_content"] * 33), "include"),
        (
            encoded(context_management=[{"type": "compaction", "compact_threshold": 1}] * 17),
            "context_management",
        ),
        (encoded(metadata={str(number): "" for number in range(17)}), "metadata"),
        (encoded(user="x" * 1025), "user"),
        (encoded(prompt_cache_key="x" * 1025), "prompt_cache_key"),
        (encoded(previous_response_id="x" * 257), "previous_response_id"),
    ],
)
def test_a_list_that_is_too_long_is_refused_with_its_parameter(body: bytes, param: str) -> None:
    error = refused(parse_create, body)
    assert error.status == 400
    assert error.param == param


def test_the_arguments_of_calls_are_counted_together() -> None:
    arguments = "[" + "[]," * 60_000 + "1]"
    calls = [
        {"type": "function_call", "call_id": str(number), "name": "f", "arguments": arguments}
        for number in range(3)
    ]
    error = refused(parse_create, encoded(input=calls))
    assert (error.param, error.code) == ("input", "too_many_values")
    parse_create(encoded(input=calls[:1]))
    called = [{"id": "c", "function": {"name": "f", "arguments": arguments}}] * 3
    error = refused(read_chat, chat(messages=[{"role": "assistant", "tool_calls": called}]))
    assert (error.param, error.code) == ("messages", "too_many_values")


def test_lists_of_the_compatible_endpoints_are_bounded() -> None:
    text = {"type": "text", "text": ""}
    call = {"id": "c", "function": {"name": "f", "arguments": "{}"}}
    many_parts = [{"role": "user", "content": [text] * 6000}] * 2
    many_calls = [{"role": "assistant", "tool_calls": [call] * MAX_ITEMS}]
    assert refused(read_chat, chat(messages=many_parts)).param == "messages"
    assert refused(read_chat, chat(messages=many_calls)).param == "messages"
    assert refused(messages, chat(max_tokens=1, messages=many_parts)).param == "messages"
    result = {"type": "tool_result", "tool_use_id": "c", "content": [text] * 6000}
    many_results = [{"role": "user", "content": [result, result]}]
    assert refused(messages, chat(max_tokens=1, messages=many_results)).param == "messages"
    assert refused(counted, chat(system=[text] * (MAX_PARTS + 1))).param == "system"


def test_lists_of_conversations_are_bounded() -> None:
    item = {"role": "user", "content": [TEXT] * (MAX_PARTS + 1)}
    assert refused(parse_conversation, msgspec.json.encode({"items": [item]})).param == "items"
    assert refused(parse_new_items, msgspec.json.encode({"items": [item]})).param == "items"


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("toolResults", [{"callId": str(number), "resultJson": "1"} for number in range(10_001)]),
        (
            "toolResultsJson",
            msgspec.json.encode(
                [{"callId": str(number), "resultJson": "1"} for number in range(10_001)]
            ).decode(),
        ),
        ("toolResultsJson", "[" + "[]," * 200_000 + "1]"),
        ("toolsJson", "[" + "[]," * 200_000 + "1]"),
        ("activeFiles", [{"contents": ""}] * 10_001),
        ("imageAttachments", [{"mimeType": "image/png", "dataBase64": "AAAA"}] * 101),
        ("ragScopeFilter", {"must": [{"key": "a", "match": {"value": 1}}] * 1000}),
    ],
)
def test_lists_of_the_agent_are_bounded(member: str, value: object) -> None:
    body = msgspec.json.encode({"instruction": "x", member: value})
    assert refused(parse_execute_request, body).param == member


def test_an_ordinary_filter_is_accepted() -> None:
    parse_scope({"must": [{"key": "path", "match": {"any": ["a"] * (MAX_FILTER_VALUES // 2)}}]})


def test_a_choice_of_all_tools_costs_little() -> None:
    """It was quadratic in the references and in the tools."""
    tools = [
        {
            "type": "namespace",
            "name": f"n{number}",
            "tools": [{"type": "function", "name": f"f{member}"} for member in range(128)],
        }
        for number in range(8)
    ]
    refs = [{"type": "namespace", "name": f"n{number % 8}"} for number in range(MAX_TOOLS)]
    body = encoded(tools=tools, tool_choice={"type": "allowed_tools", "mode": "auto", "tools": refs})
    before = time.process_time()
    turn = build_turn(parse_create(body), model="m")
    assert time.process_time() - before < MAX_CPU_SECONDS
    assert len(turn.tools) == 1024
    assert not turn.forbidden


def test_a_choice_among_tools_forbids_the_others() -> None:
    tools = [{"type": "function", "name": name} for name in ("a", "b", "c")]
    refs = [{"type": "function", "name": name} for name in ("c", "a", "c")]
    body = encoded(tools=tools, tool_choice={"type": "allowed_tools", "mode": "auto", "tools": refs})
    turn = build_turn(parse_create(body, OPENAI), model="m")
    assert [tool.name for tool in turn.tools] == ["a", "c"]
    assert turn.forbidden == {"b"}
