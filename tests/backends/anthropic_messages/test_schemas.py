"""The enforceable part of a JSON schema."""

from typing import Any

import pytest

from antiphon.backends.anthropic_messages.schemas import enforceable

STRING = {"type": "string"}


def obj(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "additionalProperties": False}


def open_obj(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


@pytest.mark.parametrize(
    "schema",
    [
        obj(a=STRING, b={"type": ["string", "null"]}),
        obj(a={"type": "string", "format": "date-time"}, b={"type": "array", "items": STRING, "minItems": 1}),
        obj(a={"enum": [1, 2]}, b={"const": "x"}, c={"anyOf": [STRING, obj(d=STRING)]}),
        {**obj(a={"$ref": "#/$defs/A"}, b={"$ref": "#/$defs/A"}), "$defs": {"A": obj(c=STRING)}},
    ],
)
def test_a_supported_schema_is_unchanged(schema: dict[str, Any]) -> None:
    assert enforceable(schema) == (schema, True)


@pytest.mark.parametrize(
    ("schema", "enforced", "exact"),
    [
        (open_obj(a=open_obj(b=STRING)), obj(a=obj(b=STRING)), True),
        ({**obj(a=STRING), "$schema": "x", "examples": []}, obj(a=STRING), True),
        (obj(a={**STRING, "minLength": 2}), obj(a=STRING), False),
        (obj(a={**STRING, "pattern": "^x"}), obj(a=STRING), False),
        (obj(a={**STRING, "format": "phone"}), obj(a=STRING), False),
        (
            obj(a={"type": "array", "items": STRING, "minItems": 2}),
            obj(a={"type": "array", "items": STRING}),
            False,
        ),
        (obj(a={"oneOf": [STRING]}), obj(a={"anyOf": [STRING]}), False),
    ],
)
def test_unsupported_keywords_are_removed(schema: Any, enforced: Any, exact: bool) -> None:
    assert enforceable(schema) == (enforced, exact)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object"},
        {"type": "object", "additionalProperties": STRING},
        obj(a={"type": "object", "properties": {"b": STRING}, "additionalProperties": True}),
        obj(a={"allOf": [obj(b=STRING), obj(c=STRING)]}),
        {"$ref": "#/$defs/A", "$defs": {"A": obj(next={"$ref": "#/$defs/A"})}},
        {
            "$ref": "#/$defs/A",
            "$defs": {"A": obj(b={"$ref": "#/$defs/B"}), "B": obj(a={"$ref": "#/$defs/A"})},
        },
        {"$ref": "https://example.com/schema"},
    ],
)
def test_unenforceable_schemas(schema: dict[str, Any]) -> None:
    assert enforceable(schema) is None


def test_definitions_that_fan_out_take_linear_time() -> None:
    definitions = {
        f"D{number}": obj(a={"$ref": f"#/$defs/D{number + 1}"}, b={"$ref": f"#/$defs/D{number + 1}"})
        for number in range(60)
    }
    schema = {"$ref": "#/$defs/D0", "$defs": {**definitions, "D60": obj(a=STRING)}}
    assert enforceable(schema) == (schema, True)


def test_depth_is_bounded() -> None:
    schema: dict[str, Any] = STRING
    for _ in range(100_000):
        schema = {"type": "array", "items": schema}
    assert enforceable(schema) is None
