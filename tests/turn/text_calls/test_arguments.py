"""Values without a type get one from the schema, or from their form."""

import pytest

from antiphon.protocol.content import JsonObject
from antiphon.turn.text_calls.json_calls import encode_arguments


@pytest.mark.parametrize(
    ("written", "schema", "expected"),
    [
        ("123", {"type": "string"}, '"123"'),
        ("true", {"type": "string"}, '"true"'),
        ("null", {"type": "string"}, '"null"'),
        ('{"a": 1}', {"type": "string"}, '"{\\"a\\": 1}"'),
        ("123", {"type": "integer"}, "123"),
        (" 1.50 ", {"type": "number"}, "1.50"),
        ("True", {"type": "boolean"}, "true"),
        ("None", {"type": ["integer", "null"]}, "null"),
        ("None", {"type": "string"}, '"None"'),
        ("null", {"type": ["string", "null"]}, "null"),
        ("7", {"type": ["string", "null"]}, '"7"'),
        ("7", {"anyOf": [{"type": "string"}, {"type": "number"}]}, "7"),
        ("7", {"enum": ["6", "7"]}, '"7"'),
        ("7", {"const": 7}, "7"),
        ("soon", {"type": "integer"}, '"soon"'),
        ('["a"]', {"type": "array"}, '["a"]'),
        ("12", None, "12"),
        ("false", None, "false"),
        ("None", None, '"None"'),
        ('{"a":[]}', None, '{"a":[]}'),
        ("Paris", None, '"Paris"'),
        ('"Paris"', None, '"\\"Paris\\""'),
        ("1e999", None, '"1e999"'),
        ("", None, '""'),
        (" two\n lines ", None, '" two\\n lines "'),
        ("5", {"type": 3, "anyOf": "odd", "enum": None}, "5"),
    ],
)
def test_a_value_gets_a_type_that_its_schema_allows(
    written: str, schema: JsonObject | None, expected: str
) -> None:
    parameters: JsonObject | None = None if schema is None else {"properties": {"value": schema}}
    assert encode_arguments([("value", written)], parameters) == f'{{"value":{expected}}}'


def test_arguments_keep_their_order() -> None:
    schema: JsonObject = {"properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}}
    assert encode_arguments([("b", "1"), ("a", "2"), ("c", "x")], schema) == '{"b":1,"a":2,"c":"x"}'


def test_a_schema_without_properties_yields_no_types() -> None:
    assert encode_arguments([("a", "1")], {"properties": []}) == '{"a":1}'
