"""AGN-004: failed requests, invalid responses, and arbitrary values."""

from collections import UserDict
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from antiphon.orchestrator.casing import to_json
from antiphon.orchestrator.models import (
    LlmUsage,
)
from antiphon.orchestrator.response_mapper import map_error
from tests.orchestrator.answers import CONTEXT, REQUEST, mapped, text_part


class Unreadable(UserDict[str, Any]):
    """A mapping that raises when it is read."""

    def __iter__(self) -> Iterator[str]:
        raise RuntimeError("gone")


@pytest.mark.requirement("AGN-004/3-kind", "AGN-004/3-code", "AGN-004/3-message", "AGN-004/tests-errors")
@pytest.mark.parametrize(
    ("raw", "code", "text"),
    [
        ({"error": {"code": "rate_limit", "type": "t", "message": "Slow down."}}, "t", "Slow down."),
        ({"status": "failed", "error": {"code": "server_error", "message": "Oh."}, "output": []}, "server_error", "Oh."),
        ({"type": "error", "error": {"type": "server_error", "code": "c", "message": "Oh."}}, "server_error", "Oh."),
        ({"error": {"type": "server_error", "message": "Oh."}, "output": []}, "server_error", "Oh."),
        ({"error": {"code": 503, "message": "Oh."}, "output": None}, "503", "Oh."),
        ({"error": "Oh.", "output": []}, "response_failed", "Oh."),
        ({"status": "failed", "output": [text_part("half")]}, "response_failed", "The response failed without an error message."),
        ({"type": "error", "code": "c", "message": "Cut off."}, "c", "Cut off."),
    ],
)  # fmt: skip
def test_a_response_that_carries_an_error_is_one(raw: dict[str, Any], code: str, text: str) -> None:
    response = mapped(raw)
    assert (response.kind, response.error_code, response.error_message) == ("error", code, text)
    assert response.finish_reason == "error"
    assert msgspec.json.decode(response.raw_response_json or "") == raw


@pytest.mark.parametrize(
    ("raw", "complaint"),
    [
        ("", "not valid JSON"),
        ("<html>", "not valid JSON"),
        (b"\xff\xfe", "not valid JSON"),
        ("[" * 100_000, "not valid JSON"),
        ("[]", "not a JSON object"),
        ("7", "not a JSON object"),
        ("null", "not a JSON object"),
        ("{}", "no 'output'"),
        ('{"output": null}', "no 'output'"),
        ('{"output": "Hi"}', "no 'output'"),
        ('{"type": "response.in_progress", "response": {"output": []}}', "no 'output'"),
        ({"output": {1j}}, "cannot be encoded as JSON"),
        (Unreadable(), "cannot be encoded as JSON"),
        ({"output": "\ud800"}, "cannot be encoded as JSON"),
    ],
)
def test_an_invalid_response_is_reported_as_an_error(raw: Any, complaint: str) -> None:
    response = mapped(raw)
    assert (response.kind, response.error_code) == ("error", "invalid_response")
    assert complaint in (response.error_message or "")
    assert response.mode == "QA"
    if isinstance(raw, str):
        assert response.raw_response_json == raw


def test_half_a_character_is_replaced_by_a_question_mark() -> None:
    assert mapped('{"a": "\ud800"}').raw_response_json == '{"a": "?"}'


def test_arguments_of_any_depth_are_mapped_or_rejected() -> None:
    answers = set[str | None]()
    for depth in range(800, 1000):
        nested = "[" * depth + "]" * depth
        answers.add(
            mapped(f'{{"output":{{"type":"tool_call","id":"c","arguments":{nested}}}}}').error_message
        )
    assert {(answer or "").rpartition(": ")[2] for answer in answers} <= {"", "it is not valid JSON."}


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)
NAMES = [
    "id", "type", "content", "text", "tool_call", "call_id", "name", "arguments", "input", "refusal",
    "usage", "prompt_tokens", "total_tokens", "finish_reason", "status", "incomplete_details", "reason", "error",
    "code", "message", "model", "response", "output_text",
]  # fmt: skip
TEXTS = [
    "message", "output_text", "tool_call", "function_call", "custom_tool_call", "refusal", "reasoning", "failed",
    "incomplete", "completed", "response.completed", "error", "",
]  # fmt: skip
crooked = st.recursive(
    st.sampled_from(TEXTS) | st.none() | st.integers() | st.booleans(),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from([*NAMES, "output"]), inner, max_size=6)
    ),
    max_leaves=30,
)
with_output = st.fixed_dictionaries({"output": st.lists(crooked)}, optional=dict.fromkeys(NAMES, crooked))


@given(json_values | crooked | with_output)
@example({"output": [{"type": ["message"]}]})
def test_no_json_raises(value: Any) -> None:
    response = mapped(msgspec.json.encode(value))
    assert response.kind in ("ok", "tool-only", "error", "empty")
    assert (response.error_code is not None) == (response.kind == "error")
    assert mapped(value) == response or isinstance(value, str)
    to_json(response)
    to_json(map_error(500, msgspec.json.encode(value), REQUEST, CONTEXT))


@given(st.binary() | st.text(st.characters(exclude_categories=[])))
def test_no_text_and_no_bytes_raise(raw: str | bytes) -> None:
    to_json(mapped(raw))
    to_json(map_error(None, raw, REQUEST, CONTEXT))


@pytest.mark.requirement(
    "AGN-004/3-kind", "AGN-004/3-code", "AGN-004/3-message", "AGN-004/3-raw", "AGN-004/tests-errors"
)
@pytest.mark.parametrize(
    ("status", "body", "code", "text"),
    [
        (429, '{"error":{"code":"rate","type":"t","message":"Slow."}}', "t", "Slow."),
        (429, '{"error":{"code":"rate","type":"","message":"Slow."}}', "rate", "Slow."),
        (429, '{"type":"error","message":"Slow."}', "429", "Slow."),
        (429, '{"type":"busy","code":"c","message":"Slow."}', "busy", "Slow."),
        (400, b'{"error":{"type":"invalid_request_error","message":"No.","code":null}}', "invalid_request_error", "No."),
        (400, {"error": "Plain."}, "400", "Plain."),
        (404, {"message": "Nothing here."}, "404", "Nothing here."),
        (500, {"error": {"code": "x"}}, "x", '{"error":{"code":"x"}}'),
        (502, " <html>Bad</html> ", "502", "<html>Bad</html>"),
        (500, "x" * 501, "500", "x" * 500 + "…"),
        (503, "", "503", "Service Unavailable"),
        (503, None, "503", "Service Unavailable"),
        (799, None, "799", "The server answered with status 799."),
        (None, None, "call_failed", "The call failed without an answer."),
        (None, {"error": {"code": "late", "message": "Late."}}, "late", "Late."),
        (500, "[1]", "500", "[1]"),
    ],
)  # fmt: skip
def test_a_failed_request_gives_the_reason(status: int | None, body: Any, code: str, text: str) -> None:
    response = map_error(status, body, REQUEST, CONTEXT)
    assert (response.kind, response.error_code, response.error_message) == ("error", code, text)
    assert response.finish_reason == "error"
    if isinstance(body, str):
        assert response.raw_response_json == (body or None)


@pytest.mark.requirement("AGN-004/3-defaults")
def test_a_call_that_failed_has_ids_and_defaults() -> None:
    response = map_error(500, None, REQUEST, CONTEXT)
    assert (response.conversation_id, response.mode, response.conversation_context_id) == (
        "conv_1",
        "QA",
        "ctx_1",
    )
    assert (response.turn_id, response.response_continuation_id, response.raw_response_json) == (
        None,
        None,
        None,
    )
    assert (response.model_id, response.tool_calls, response.usage) == (None, (), LlmUsage())
