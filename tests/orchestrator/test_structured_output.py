"""The accepted forms of an output schema."""

from typing import Any

import pytest
from msgspec import Struct, json

from antiphon.errors import InvalidRequest
from antiphon.orchestrator.provider import text_format

SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}


class Step(Struct):
    text: str
    done: bool = False


class Plan(Struct):
    steps: list[Step]
    note: str | None = None


class Setting(Struct):
    default: str
    properties: str = "none"
    enum: str = "none"


class Tree(Struct):
    leaves: "list[Tree]"


@pytest.mark.requirement("SEED-004/structured-format")
def test_a_named_schema_is_strict_by_default() -> None:
    strict = {"type": "json_schema", "name": "n", "schema": SCHEMA, "strict": True}
    assert text_format({"name": "n", "schema": SCHEMA}) == strict
    assert text_format({"name": "n", "schema": SCHEMA, "strict": False}) == {**strict, "strict": False}


def test_a_schema_may_come_as_json_text() -> None:
    assert text_format(json.encode({"name": "n", "schema": SCHEMA}).decode()) == text_format(
        {"name": "n", "schema": SCHEMA}
    )


def test_an_unnamed_json_schema_gets_a_name() -> None:
    assert text_format(SCHEMA) == {"type": "json_schema", "name": "answer", "schema": SCHEMA, "strict": True}
    assert text_format({**SCHEMA, "title": "My plan"})["name"] == "My_plan"


def test_a_python_type_becomes_a_strict_schema() -> None:
    output_format = text_format(Plan)
    step = {"text": {"type": "string"}, "done": {"type": "boolean"}}
    assert (output_format["name"], output_format["strict"]) == ("Plan", True)
    assert output_format["schema"] == {
        "title": "Plan",
        "type": "object",
        "properties": {
            "steps": {"type": "array", "items": {"$ref": "#/$defs/Step"}},
            "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        },
        "required": ["steps", "note"],
        "additionalProperties": False,
        "$defs": {
            "Step": {
                "title": "Step",
                "type": "object",
                "properties": step,
                "required": ["text", "done"],
                "additionalProperties": False,
            }
        },
    }


def test_members_named_like_keywords_are_preserved() -> None:
    schema = text_format(Setting)["schema"]
    assert list(schema["properties"]) == schema["required"] == ["default", "properties", "enum"]
    assert schema["properties"]["properties"] == {"type": "string"}  # without its default


def test_the_format_of_chat_completions_is_accepted() -> None:
    named = {"name": "n", "schema": SCHEMA, "strict": False}
    assert text_format({"type": "json_schema", "json_schema": named}) == text_format(named)


def test_a_name_is_truncated_at_64_characters() -> None:
    assert text_format({"name": "n" * 65, "schema": SCHEMA})["name"] == "n" * 64
    assert text_format({"name": "n" * 64, "schema": SCHEMA})["name"] == "n" * 64


def test_a_recursive_type_keeps_its_definition() -> None:
    assert text_format(Tree)["schema"]["$defs"]["Tree"]["required"] == ["leaves"]


@pytest.mark.parametrize(
    ("wanted", "param"),
    [
        ({"name": "", "schema": SCHEMA}, "schema.name"),
        ({"name": "  ", "schema": SCHEMA}, "schema.name"),
        ({"schema": SCHEMA}, "schema.name"),
        ({"name": "n"}, "schema.schema"),
        ({"name": "n", "schema": {}}, "schema.schema"),
        ({"name": "n", "schema": "text"}, "schema.schema"),
        ({}, "schema.schema"),
        ("", "schema"),
        ("{", "schema"),
        ("[]", "schema"),
        (int, "schema"),
        (5, "schema"),
        ([1], "schema"),
        (None, "schema"),
        (Plan | None, "schema"),
        (list[Plan], "schema"),
        ({"type": "json_schema", "json_schema": {"name": "n"}}, "schema.schema"),
        (type("Engine", (), {}), "schema"),
    ],
)
def test_an_invalid_schema_is_rejected(wanted: Any, param: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        text_format(wanted)
    assert caught.value.param == param
