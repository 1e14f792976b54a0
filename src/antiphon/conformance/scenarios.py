"""Requests that make a model produce items of every kind. Each is streamed once, for several checks."""

from msgspec import Struct

from antiphon.protocol.content import JsonObject


class Scenario(Struct, frozen=True):
    """One request, the feature that it needs, and whether every server must support it (`core`)."""

    what: str
    body: JsonObject
    core: bool = False


WEATHER: JsonObject = {
    "type": "function",
    "name": "get_weather",
    "description": "The weather in a city.",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
        "additionalProperties": False,
    },
    "strict": True,
}
TIME: JsonObject = {
    "type": "function",
    "name": "get_time",
    "description": "The time in a city.",
    "parameters": WEATHER["parameters"],
    "strict": True,
}
NOTE: JsonObject = {"type": "custom", "name": "write_note", "description": "Writes a note, as free text."}
PERSON: JsonObject = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "year": {"type": "integer"}},
    "required": ["name", "year"],
    "additionalProperties": False,
}
PERSON_FORMAT: JsonObject = {"type": "json_schema", "name": "person", "schema": PERSON, "strict": True}
LONG = "Count from 1 to 300, in words, one number after another. Leave none out."

SCENARIOS = {
    "text": Scenario("a plain answer", {"input": "Say hello in one short sentence."}, core=True),
    "call": Scenario(
        "a function tool",
        {
            "input": "What is the weather in Paris? Use the tool.",
            "tools": [WEATHER],
            "tool_choice": {"type": "function", "name": "get_weather"},
        },
        core=True,
    ),
    "calls": Scenario(
        "parallel calls",
        {
            "input": "Call get_weather for Paris and for Rome, both at once, in parallel.",
            "tools": [WEATHER],
            "tool_choice": "required",
            "parallel_tool_calls": True,
        },
    ),
    "custom": Scenario(
        "a custom tool",
        {
            "input": "Write a note that says: buy milk. Use the tool.",
            "tools": [NOTE],
            "tool_choice": {"type": "custom", "name": "write_note"},
        },
    ),
    "reasoning": Scenario(
        "reasoning",
        {
            "input": "Which is larger, 9.11 or 9.9? Think first.",
            "reasoning": {"effort": "medium", "summary": "auto"},
        },
    ),
    "structured": Scenario(
        "a JSON schema",
        {
            "input": "Who wrote the first program? Give the name and the year of birth, as JSON.",
            "text": {"format": PERSON_FORMAT},
        },
    ),
    "cut": Scenario("max_output_tokens", {"input": LONG, "max_output_tokens": 16}),
}
