"""Which schemas are too expensive to check answers with."""

import time
from typing import Any, cast

import jsonschema_rs
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.errors import InvalidRequest
from antiphon.protocol import schema_bounds
from antiphon.protocol.content import JsonObject
from antiphon.protocol.parse_create import create_from
from antiphon.protocol.schema_bounds import (
    MAX_PATTERNS,
    TooComplex,
    schema_cost,
)


def doubling(levels: int, step: str = "") -> JsonObject:
    """Each level applies the next one twice: in place, or to the member `step`."""

    def branch(level: int) -> JsonObject:
        reference: JsonObject = {"$ref": f"#/$defs/a{level + 1}"}
        return {"properties": {step: reference}} if step else reference

    levels_of = {f"a{level}": {"anyOf": [branch(level), branch(level)]} for level in range(levels)}
    return {"$defs": {**levels_of, f"a{levels}": {"type": "string"}}, "$ref": "#/$defs/a0"}


NODE: JsonObject = {
    "type": "object",
    "properties": {
        "left": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]},
        "right": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]},
        "all": {"type": "array", "items": {"$ref": "#/$defs/node"}},
    },
}


def too_complex(schema: JsonObject) -> str | None:
    """Why a schema is not accepted."""
    try:
        schema_cost(msgspec.json.encode(schema))
    except TooComplex as error:
        return str(error)
    return None


def checks_per_value(schema: JsonObject) -> int:
    return schema_cost(msgspec.json.encode(schema)).checks_per_value


def graph(kinds: int, members: int) -> JsonObject:
    """Kinds of objects whose members refer to other kinds."""
    return {
        "$defs": {
            f"d{kind}": {
                "properties": {
                    f"p{member}": {"$ref": f"#/$defs/d{(7 * kind + member) % kinds}"}
                    for member in range(members)
                }
            }
            for kind in range(kinds)
        },
        "$ref": "#/$defs/d0",
    }


ORDINARY: list[JsonObject] = [
    {"type": "object", "properties": {"a": {"type": "string"}}},
    {"$defs": {"node": NODE}, "$ref": "#/$defs/node"},
    {"$defs": {"node": NODE}, "type": "array", "items": {"$ref": "#/$defs/node"}},
    graph(60, 20),
    doubling(5),
    doubling(5, "a"),
    {"enum": list(range(5000))},
    {"items": {"anyOf": [{"type": "object", "properties": {"k": {"const": kind}}} for kind in range(200)]}},
    {"pattern": r"^\d{4}-\d{2}-\d{2}$"},
    {"pattern": r"^(\d{1,3}\.){3}\d{1,3}$"},
    {"pattern": "^([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})$"},
    {"pattern": r"^[(\]{99999}]+\(\p{L}{1,100}\){2}$"},
    {"patternProperties": {"^x-": {"type": "string"}}, "properties": {f"p{i}": {} for i in range(500)}},
    {"allOf": [{"$ref": f"#/allOf/{'9' * 5000}"}]},
    {"$ref": "https://example.com/other.json"},
    {"$ref": "#/$defs/absent"},
    {"properties": {"$ref": {"type": "string"}, "anyOf": {"type": "array"}}},
    {"not": {"if": True, "then": False}},
    {"prefixItems": [{"type": "string"}] * 50},
]


@pytest.mark.parametrize("schema", ORDINARY)
def test_ordinary_schemas_are_accepted(schema: JsonObject) -> None:
    assert too_complex(schema) is None


EXPENSIVE: list[tuple[JsonObject, str]] = [
    (doubling(12), "subschemas apply to one value"),
    (doubling(200), "subschemas apply to one value"),
    (doubling(30, "a"), "subschemas apply to one value"),
    (
        {"anyOf": [{"properties": {"a": {"$ref": "#"}}}, {"properties": {"a": {"$ref": "#"}}}]},
        "subschemas apply to one value",
    ),
    (
        {"anyOf": [{"properties": {"a": {"$ref": "#"}}}, {"additionalProperties": {"$ref": "#"}}]},
        "subschemas apply to one value",
    ),
    ({"allOf": [{"items": {"$ref": "#"}}, {"contains": {"$ref": "#"}}]}, "subschemas apply to one value"),
    ({"$ref": "#"}, "subschemas apply to one value"),
    ({"$anchor": "me", "not": {"$ref": "#me"}}, "subschemas apply to one value"),
    ({"$id": "me", "if": {"$ref": "me"}}, "subschemas apply to one value"),
    ({"allOf": [{"$ref": "#/allOf/0"}]}, "subschemas apply to one value"),
    ({"$defs": {"a/b": {"$ref": "#/$defs/a~1b"}}, "$ref": "#/$defs/a~1b"}, "subschemas apply"),
    ({"oneOf": [{"const": number} for number in range(3000)]}, "subschemas apply to one value"),
    ({"properties": {f"p{i}": {"pattern": "a"} for i in range(MAX_PATTERNS + 1)}}, "patterns"),
    ({"pattern": "a" * 20_000}, "patterns"),
    ({"properties": {f"p{i}": {"pattern": r"\p{L}{1,200}"} for i in range(30)}}, "copies"),
    ({"patternProperties": {"((a{100}){100}){100}": True}}, "copies"),
    ({"pattern": "a{1,}{99999999999999999999}"}, "copies"),
    ({"pattern": "a{100}{100}{100}"}, "copies"),
    ({"pattern": "a{000000000000100000}"}, "copies"),
    ({"pattern": "(a{100})|(b(c{100}){100})"}, "copies"),
    ({"$defs": {"w": {"anyOf": [{}] * 60_000}}, "anyOf": [{"$ref": "#/$defs/w"}] * 400}, "one value"),
    (
        {
            "$defs": {
                "n": {
                    "properties": {f"p{i}": {} for i in range(4000)},
                    "patternProperties": {f"x{i}": {} for i in range(150)},
                }
            },
            "anyOf": [{"$ref": "#/$defs/n"}] * 60,
        },
        "too many subschemas",
    ),
    ({"prefixItems": [{}] * 90_000, "anyOf": [{"$ref": "#/prefixItems/0"}]}, "too many subschemas"),
]


@pytest.mark.parametrize(("schema", "why"), EXPENSIVE)
def test_expensive_schemas_are_refused(schema: JsonObject, why: str) -> None:
    found = too_complex(schema)
    assert found is not None
    assert why in found


def test_the_checks_of_one_value_are_counted() -> None:
    assert checks_per_value({"type": "string"}) == 1
    assert checks_per_value({"anyOf": [{}, {}]}) == 3
    assert checks_per_value({"properties": {"a": {"anyOf": [{}, {}, {}]}}}) == 4
    assert checks_per_value(doubling(3)) == 1 + 1 + 2 * (2 + 4 + 8)


def test_a_schema_that_applies_many_times_is_followed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    followed: list[object] = []

    def followed_list(value: object) -> list[object]:
        followed.append(value)
        return cast("list[object]", value) if isinstance(value, list) else []

    monkeypatch.setattr(schema_bounds, "_list", followed_list)
    assert too_complex(doubling(24)) is not None
    assert len(followed) < 1000


@pytest.mark.parametrize("place", ["text", "tool"])
def test_a_request_with_an_expensive_schema_is_refused(place: str) -> None:
    bomb = doubling(20)
    given: dict[str, Any] = (
        {"text": {"format": {"type": "json_schema", "name": "a", "schema": bomb}}}
        if place == "text"
        else {"tools": [{"type": "function", "name": "f", "parameters": bomb, "strict": False}]}
    )
    with pytest.raises(InvalidRequest) as caught:
        create_from(model="m", input="hi", **given)
    assert caught.value.code == "invalid_json_schema"
    assert "too complex" in caught.value.message


REFERENCES = st.sampled_from(["#", "#/$defs/a", "#/$defs/b", "#/items", "#/anyOf/0", "other", "#c"])
SCHEMAS = st.recursive(
    st.fixed_dictionaries({}, optional={"type": st.just("string"), "$ref": REFERENCES}),
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            "anyOf": st.lists(inner, min_size=1, max_size=3),
            "not": inner,
            "items": inner,
            "properties": st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
            "additionalProperties": inner,
            "$defs": st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
        },
    ),
    max_leaves=12,
)


@given(SCHEMAS)
def test_every_accepted_schema_answers_at_once(schema: JsonObject) -> None:
    """A value is checked by no more subschemas than were counted, so that even a deep one is no burden."""
    if too_complex(schema) is not None:
        return
    try:
        validator = jsonschema_rs.validator_for(msgspec.json.encode(schema).decode(), offline=True)
    except (ValueError, jsonschema_rs.ReferencingError):
        return
    value: Any = 1
    for depth in range(40):
        value = {"a": value} if depth % 3 else [value]
    validator.is_valid(value)


@pytest.mark.parametrize("part", ["[", r"\p{", "(", "a{", "{1", "{0,99999", "[\\", "{" + "0" * 8000])
def test_a_hostile_pattern_is_read_in_one_pass(part: str) -> None:
    """Broken patterns must not make the reader of patterns go back again and again."""
    pattern = (part * 8000)[:8000]
    begin = time.process_time()
    too_complex({"pattern": pattern})
    assert time.process_time() - begin < 0.5  # going back takes seconds
