import json
import socket
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.protocol.requests import TextFormat
from antiphon.turn.json_answer import Answer, Fault, read_json_answer

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "ages": {"type": "array", "items": {"type": "integer"}},
    },
    "required": ["name"],
    "additionalProperties": False,
}
OBJECT = TextFormat(type="json_object")
GOOD = '{"name": "Ada", "ages": [1, 2]}'


def by(schema: dict[str, Any]) -> TextFormat:
    return TextFormat(type="json_schema", name="x", schema=schema)


@pytest.mark.parametrize(
    "text",
    [
        GOOD,
        f"  {GOOD}\n",
        f"```json\n{GOOD}\n```",
        f"```\n{GOOD}```",
        f"Sure! Here it is:\n\n```JSON \r\n{GOOD}\r\n```\nDo you like it?",
        f"Here you are: {GOOD} (as you {{asked}} for [really])",
        f"{GOOD} is my answer. Once more: {GOOD}",
        f"A list would be [1], and this is the object: {GOOD}",
        f'<|assistant|>{GOOD}',
    ],
)  # fmt: skip
def test_text_around_json_is_removed(text: str) -> None:
    answer = read_json_answer(text, by(SCHEMA))
    assert isinstance(answer, Answer)
    assert answer.text.strip() == GOOD


def test_valid_json_is_unchanged() -> None:
    text = f" {GOOD}\n"
    assert read_json_answer(text, by(SCHEMA)) == Answer(text)


@pytest.mark.parametrize(
    ("text", "why", "path"),
    [
        ('{"name": 1}', "At 'name': 1 is not of type \"string\".", "name"),
        (f'```json\n{GOOD.replace("2", "null")}\n```', "At 'ages[1]': null is not of type \"integer\".", "ages[1]"),
        ("{}", '"name" is a required property.', ""),
        ('Well: {"name": "x", "more": 1}', "Additional properties are not allowed ('more' was unexpected).", ""),
        ("I will not.", "The answer holds no JSON.", ""),
        ("", "The answer holds no JSON.", ""),
        ('{"name": "x"', "The answer is not JSON: Input data was truncated.", ""),
        ('{"name": "x"} {"name": "y"}', "The answer holds 2 JSON values; it must be one.", ""),
        ('{"name": NaN}', "The answer is not JSON: JSON is malformed: invalid character (byte 9).", ""),
    ],
)  # fmt: skip
def test_a_violation_is_described_in_a_sentence(text: str, why: str, path: str) -> None:
    assert read_json_answer(text, by(SCHEMA)) == Fault(why, path)


def test_a_long_value_is_truncated_in_the_description() -> None:
    fault = read_json_answer(json.dumps({"name": ["x" * 1000]}), by(SCHEMA))
    assert isinstance(fault, Fault)
    assert len(fault.why) < 250


@pytest.mark.parametrize(
    ("text", "fits"), [("{}", True), ("```\n{}\n```", True), ("[]", False), ("3", False), ("no", False)]
)
def test_any_object(text: str, fits: bool) -> None:
    assert isinstance(read_json_answer(text, OBJECT), Answer) == fits


def test_a_number_must_be_the_complete_answer() -> None:
    number = by({"type": "integer"})
    assert read_json_answer("42", number) == Answer("42")
    assert read_json_answer("```json\n42\n```", number) == Answer("42")
    assert isinstance(read_json_answer("It is 42.", number), Fault)


def test_text_is_text() -> None:
    assert read_json_answer("anything", TextFormat(type="text")) == Answer("anything")


def test_remote_references_are_not_fetched() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        port: int = server.getsockname()[1]
        assert read_json_answer("3", by({"$ref": f"http://127.0.0.1:{port}/x"})) == Answer("3")
        with pytest.raises(BlockingIOError):
            server.accept()


@pytest.mark.parametrize("schema", [{"$ref": "https://example.com/x"}, {"$ref": "#/nowhere"}])
def test_a_schema_with_a_missing_reference_accepts_any_json(schema: dict[str, Any]) -> None:
    assert read_json_answer("3", by(schema)) == Answer("3")
    assert isinstance(read_json_answer("no", by(schema)), Fault)


@pytest.mark.parametrize(
    "text",
    ["[" * 200_000, '{"a":' * 100_000, "{" * 200_000, "```\n" * 50_000, "\ud800", '{"a": "' + "\\" * 100_001],
)
def test_a_hostile_answer_is_rejected_quickly(text: str) -> None:
    began = time.monotonic()
    assert isinstance(read_json_answer(text, by(SCHEMA)), Fault)
    assert time.monotonic() - began < 10


@given(st.text())
def test_any_text_gets_a_verdict(text: str) -> None:
    assert isinstance(read_json_answer(text, by(SCHEMA)), Answer | Fault)


def test_valid_json_is_checked_quickly() -> None:
    text = json.dumps({"name": "x" * 900, "ages": [1, 2, 3]})
    form = by(SCHEMA)
    read_json_answer(text, form)
    began = time.perf_counter()
    for _ in range(1000):
        read_json_answer(text, form)
    assert time.perf_counter() - began < 2.5


CHOICE: dict[str, Any] = {"type": "array", "items": {"anyOf": [{"const": number} for number in range(400)]}}


def test_the_fault_of_a_long_answer_with_many_alternatives_is_not_described_in_detail() -> None:
    assert read_json_answer(json.dumps([400]), by(CHOICE)) == Fault(
        "At '[0]': 400 is not valid under any of the schemas listed in the 'anyOf' keyword.", "[0]"
    )
    long = json.dumps([0] * 5000 + [400])
    assert read_json_answer(long, by(CHOICE)) == Fault("The answer does not fit its schema.")
    assert read_json_answer(json.dumps([0] * 5000), by(CHOICE)) == Answer(json.dumps([0] * 5000))
