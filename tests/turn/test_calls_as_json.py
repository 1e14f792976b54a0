from typing import Any

import jsonschema_rs
import msgspec
import pytest

from antiphon.turn.calls_as_json import call_prompt, call_schema, read_call
from antiphon.turn.tools import TurnTool

POINT: dict[str, Any] = {
    "type": "object",
    "properties": {"to": {"$ref": "#/$defs/Point"}, "again": {"$ref": "#/properties/to"}, "inner": {"$ref": "#"}},
    "required": ["to"],
    "$defs": {"Point": {"type": "array", "items": {"type": "integer"}, "minItems": 2}},
}  # fmt: skip
LOOK = TurnTool(name="look", origin="look", description="Look around")
MOVE = TurnTool(name="move", origin="move", parameters=POINT)
SAY = TurnTool(
    name="say", origin="say", parameters={"type": "object", "properties": {"words": {"type": "string"}}}
)
TOOLS = (LOOK, MOVE, SAY)


@pytest.mark.parametrize(
    ("call", "valid"),
    [
        ({"name": "look", "arguments": {}}, True),
        ({"name": "look", "arguments": {"at": "it"}}, False),
        ({"name": "move", "arguments": {"to": [1, 2]}}, True),
        ({"name": "move", "arguments": {"to": [1]}}, False),
        ({"name": "move", "arguments": {"to": [1, 2], "again": [1]}}, False),
        ({"name": "move", "arguments": {"to": [1, 2], "inner": {"to": [3, 4]}}}, True),
        ({"name": "move", "arguments": {"to": [1, 2], "inner": {}}}, False),
        ({"name": "say", "arguments": {"words": 1}}, False),
        ({"name": "say"}, False),
        ({"name": "fly", "arguments": {}}, False),
        ({"name": "look", "arguments": {}, "more": 1}, False),
    ],
)
def test_the_schema_accepts_only_calls_of_the_tools(call: dict[str, Any], valid: bool) -> None:
    schema = call_schema(TOOLS)
    jsonschema_rs.meta.validate(schema)
    assert jsonschema_rs.is_valid(schema, call) == valid


@pytest.mark.parametrize("tool", TOOLS)
def test_one_tool_needs_no_alternatives(tool: TurnTool) -> None:
    schema = call_schema([tool])
    assert schema["type"] == "object"
    assert schema["properties"]["name"]["const"] == tool.name


def test_the_tools_schema_is_not_modified() -> None:
    before = msgspec.json.encode(POINT)
    call_schema([MOVE])
    assert msgspec.json.encode(POINT) == before


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"name": "look", "arguments": {}}', (LOOK, "{}")),
        ('{"arguments": {"to": [1, 2]}, "name": "move"}', (MOVE, '{"to": [1, 2]}')),
        ('{"name": "say", "parameters": {"words": "hi"}}', (SAY, '{"words": "hi"}')),
        ('{"name": "look"}', (LOOK, "{}")),
        ('{"name": "fly", "arguments": {}}', None),
        ('{"name": "look", "arguments": "x"}', None),
        ('{"name": 3}', None),
        ("look around", None),
        ("", None),
    ],
)
def test_a_call_is_read_back(text: str, expected: tuple[TurnTool, str] | None) -> None:
    assert read_call(text, TOOLS) == expected


def test_the_prompt_shows_every_tool() -> None:
    prompt = call_prompt(TOOLS)
    for tool in TOOLS:
        assert f'"name":"{tool.name}"' in prompt
    assert "Look around" in prompt
    assert '"#/$defs/Point"' in prompt
