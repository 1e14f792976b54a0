"""Schemas and grammars of a request: what is checked at once, what is left for later, what is rejected."""

from typing import Any

import msgspec
import pytest

from antiphon.errors import InvalidRequest
from antiphon.protocol.content import JsonObject
from antiphon.protocol.definitions import (
    CHEAP_PATTERN_COPIES,
    CHEAP_SCHEMA_BYTES,
    CHEAP_SCHEMAS_BYTES,
    MAX_GRAMMARS,
    MAX_GRAMMARS_CHARACTERS,
    MAX_SCHEMAS_BYTES,
    Definition,
    Definitions,
    Rejection,
    examine,
    examine_encoded,
    known_cost,
)
from antiphon.protocol.schema_bounds import MAX_SCHEMA_BYTES
from antiphon.protocol.tools import TextFormatGrammar


def schema(size: int, name: str = "a") -> JsonObject:
    """A plain schema of this many bytes."""
    empty = len(msgspec.json.encode({"title": name, "description": ""}))
    return {"title": name, "description": "d" * (size - empty)}


def references(kinds: int, name: str = "d") -> JsonObject:
    """A schema that takes many steps to analyse."""
    return {
        "$defs": {
            f"{name}{kind}": {"properties": {f"p{i}": {"$ref": f"#/$defs/{name}{i}"} for i in range(20)}}
            for kind in range(kinds)
        },
        "$ref": f"#/$defs/{name}0",
    }


def regex(definition: str) -> TextFormatGrammar:
    return TextFormatGrammar("grammar", "regex", definition)


def collected(*schemas: JsonObject) -> tuple[Definition, ...]:
    definitions = Definitions()
    for index, each in enumerate(schemas):
        definitions.schema(each, f"tools[{index}].parameters")
    return definitions.unchecked


def refused(*schemas: JsonObject) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as caught:
        collected(*schemas)
    return caught.value


@pytest.mark.parametrize(
    "cheap",
    [
        {"type": "object", "properties": {"a": {"anyOf": [{"type": "string"}, {"type": "null"}]}}},
        {"pattern": "^[0-9a-f]{8}-[0-9a-f]{4}$"},
        {"pattern": f"a{{{CHEAP_PATTERN_COPIES}}}"},
        schema(CHEAP_SCHEMA_BYTES),
    ],
)
def test_a_cheap_schema_is_checked_at_once(cheap: JsonObject) -> None:
    assert collected(cheap, cheap) == ()
    assert known_cost(msgspec.json.encode(cheap)) is not None


@pytest.mark.parametrize(
    "expensive",
    [
        {"pattern": f"a{{{CHEAP_PATTERN_COPIES + 1}}}"},
        schema(CHEAP_SCHEMA_BYTES + 1),
        references(80),
    ],
)
def test_an_expensive_schema_is_left_unchecked(expensive: JsonObject) -> None:
    (definition,) = collected(expensive)
    assert (definition.path, definition.syntax) == ("tools[0].parameters", "json_schema")
    assert msgspec.json.decode(definition.text) == expensive
    assert known_cost(definition.text.encode()) is None
    assert examine(definition) is None


def test_what_one_request_may_have_checked_at_once_is_bounded() -> None:
    many = [schema(50_000, str(number)) for number in range(12)]
    assert len(collected(*many)) == 12 - CHEAP_SCHEMAS_BYTES // 50_000
    complex_ones = [references(25, f"n{number}_") for number in range(4)]
    assert 1 <= len(collected(*complex_ones)) < 4
    # After a schema that takes too many steps, none is tried; a plain schema takes none.
    assert len(collected(references(80, "x"), references(2, "y"), {"title": "plain"})) == 2


def test_a_schema_that_was_accepted_costs_no_steps_again() -> None:
    known = references(25, "known")
    assert collected(known) == ()
    assert len(collected(*[known] * 10)) == 0


def test_the_schemas_of_a_request_are_bounded_in_all() -> None:
    many = [schema(500_000, str(number)) for number in range(MAX_SCHEMAS_BYTES // 500_000 + 1)]
    error = refused(*many)
    assert (error.param, error.code) == (f"tools[{len(many) - 1}].parameters", "invalid_json_schema")
    assert "in all" in error.message


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"type": "strng"}, "not a valid JSON Schema"),
        ({"$ref": "#"}, "too complex: more than 1000 of its subschemas apply"),
        ({"$schema": "http://127.0.0.1:9/meta"}, "'$schema' must be one of the drafts"),
        ({"$schema": "file:///etc/passwd"}, "'$schema' must be one of the drafts"),
        ({"$schema": "urn:foo"}, "'$schema' must be one of the drafts"),
        ({"$schema": 5}, "'$schema' must be one of the drafts"),
        ({"type": {"x": "y" * 60_000}}, "not a valid JSON Schema"),
        ({"description": "d" * MAX_SCHEMA_BYTES}, f"at most {MAX_SCHEMA_BYTES} are accepted"),
    ],
)
def test_a_wrong_schema_is_rejected_at_once(wrong: JsonObject, why: str) -> None:
    error = refused({"type": "string"}, wrong)
    assert (error.status, error.param, error.code) == (400, "tools[1].parameters", "invalid_json_schema")
    assert why in error.message
    assert len(error.message) < 500


@pytest.mark.parametrize(
    "draft",
    [
        "http://json-schema.org/draft-07/schema#",
        "https://json-schema.org/draft/2020-12/schema",
        "http://json-schema.org/draft-04/schema",
    ],
)
def test_known_drafts_are_accepted(draft: str) -> None:
    assert collected({"$schema": draft, "type": "object"}) == ()


def test_a_wrong_schema_is_rejected_later() -> None:
    invalid = {**schema(CHEAP_SCHEMA_BYTES), "type": "strng"}
    endless = {**schema(CHEAP_SCHEMA_BYTES), "$ref": "#"}
    found = [examine(definition) for definition in collected(invalid, endless)]
    assert [rejection is not None and rejection.is_complex for rejection in found] == [False, True]


def test_grammars_are_left_unchecked() -> None:
    definitions = Definitions()
    definitions.grammar(TextFormatGrammar("text"), "tools[0].format")
    definitions.grammar(regex("a+"), "tools[1].format")
    assert definitions.unchecked == (Definition("tools[1].format.definition", "regex", "a+"),)


@pytest.mark.parametrize(
    "grammars",
    [["a"] * (MAX_GRAMMARS + 1), ["a" * (MAX_GRAMMARS_CHARACTERS // 4)] * 5],
    ids=["count", "characters"],
)
def test_the_grammars_of_a_request_are_bounded_in_all(grammars: list[str]) -> None:
    definitions = Definitions()
    for grammar in grammars[:-1]:
        definitions.grammar(regex(grammar), "tools[0].format")
    with pytest.raises(InvalidRequest) as caught:
        definitions.grammar(regex(grammars[-1]), "tools[9].format")
    assert (caught.value.param, caught.value.code) == ("tools[9].format.definition", "invalid_grammar")


def test_definitions_are_examined_as_one_job() -> None:
    given: list[Any] = [
        Definition("a", "json_schema", '{"type":"string"}'),
        Definition("b", "lark", "start: nowhere"),
        Definition("c", "json_schema", '{"type":"strng"}'),
    ]
    found = msgspec.msgpack.decode(
        examine_encoded(msgspec.msgpack.encode(given)), type=list[Rejection | None]
    )
    assert [rejection is None for rejection in found] == [True, False, False]
    assert found == [examine(definition) for definition in given]
