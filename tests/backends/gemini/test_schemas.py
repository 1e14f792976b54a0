"""The part of a JSON schema that the API enforces."""

from typing import Any

import pytest

from antiphon.backends.gemini.schemas import enforceable

ANY: dict[str, Any] = {}


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"a": {"type": ["string", "null"]}}, "required": ["a"]},
        {"type": "array", "items": {"type": "number", "minimum": 1, "maximum": 2}, "minItems": 3},
        {"type": "array", "prefixItems": [{"type": "string"}], "items": False},
        {"anyOf": [{"type": "string", "enum": ["x"]}, {"type": "integer", "format": "int32"}]},
        {"$ref": "#/$defs/a", "$defs": {"a": {"type": "string", "format": "date"}}},
        {"type": "object", "additionalProperties": {"type": "string", "title": "t", "description": "d"}},
    ],
)
def test_supported_keywords_are_unchanged(schema: dict[str, Any]) -> None:
    assert enforceable(schema) == (schema, True)


@pytest.mark.parametrize(
    ("schema", "sent"),
    [
        ({"type": "string", "const": "x"}, {"type": "string", "enum": ["x"]}),
        ({"$schema": "s", "type": "string", "default": "a", "examples": ["b"]}, {"type": "string"}),
        ({"allOf": [{"type": "string"}], "title": "t"}, {"type": "string", "title": "t"}),
        (
            {"properties": {"a": {"$ref": "#/definitions/b", "description": "d"}}, "definitions": {"b": ANY}},
            {"properties": {"a": {"$ref": "#/$defs/b"}}, "$defs": {"b": ANY}},
        ),
    ],
)
def test_equivalent_keywords_are_translated(schema: dict[str, Any], sent: dict[str, Any]) -> None:
    assert enforceable(schema) == (sent, True)


@pytest.mark.parametrize(
    ("schema", "sent"),
    [
        ({"type": "string", "pattern": "a+"}, {"type": "string"}),
        ({"type": "string", "format": "email"}, {"type": "string"}),
        ({"const": True}, ANY),
        ({"not": {"type": "string"}}, ANY),
        ({"oneOf": [{"type": "string"}]}, {"anyOf": [{"type": "string"}]}),
        ({"allOf": [{"type": "string"}, {"enum": ["a"]}]}, ANY),
        ({"$ref": "#/$defs/a", "minItems": 1}, {"$ref": "#/$defs/a"}),
        ({"items": {"uniqueItems": True, "type": "array"}}, {"items": {"type": "array"}}),
        ({"properties": []}, ANY),
        ({"properties": {"a": False, "b": True}}, {"properties": {"a": ANY, "b": ANY}}),
        ({"format": ["date"]}, ANY),
    ],
)
def test_unsupported_keywords_are_left_to_validation(schema: dict[str, Any], sent: dict[str, Any]) -> None:
    assert enforceable(schema) == (sent, False)


def test_a_non_string_reference_becomes_a_string() -> None:
    assert enforceable({"$ref": 5}) == ({"$ref": "5"}, True)


def test_a_schema_without_a_bottom() -> None:
    schema: dict[str, Any] = {}
    for _ in range(50_000):
        schema = {"items": schema}
    assert enforceable(schema) is None


def test_many_schemas_side_by_side_are_not_deep() -> None:
    schema = {"properties": {f"p{number}": {"type": "string"} for number in range(200)}}
    assert enforceable(schema) == (schema, True)
