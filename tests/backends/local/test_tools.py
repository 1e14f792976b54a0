from typing import Any

import msgspec
import pytest

from antiphon.backends.local.tools import (
    answer_label,
    arguments_body,
    choice_body,
    read_choice,
    signature,
    takes_nothing,
)
from tests.backends.local.turns import ADD, WEATHER

FUNCTIONS: list[dict[str, Any]] = [WEATHER, ADD]
SYSTEM = {"role": "system", "content": "You are a helpful assistant."}


def said(role: str, content: str | None) -> dict[str, Any]:
    return {"role": role, "content": content}


def test_a_tool_is_described_on_one_line() -> None:
    assert signature(WEATHER) == (
        'get_weather(city: string, unit: "celsius" | "fahrenheit"): Get the current weather in a city'
    )


def test_every_shape_of_a_parameter_has_a_short_form() -> None:
    members: dict[str, Any] = {
        "anything": True,
        "fixed": {"const": 3},
        "list": {"type": "array", "items": {"type": "integer"}},
        "nested": {"type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"]},
        "maybe": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "several": {"type": ["string", "null"]},
        "unknown": {"$ref": "#/$defs/thing"},
    }
    function = {"name": "f", "parameters": {"type": "object", "properties": members}}
    assert signature(function) == (
        "f(anything?: any, fixed?: 3, list?: integer[], nested?: {x: number}, maybe?: string | null, "
        "several?: string | null, unknown?: any)"
    )


def test_a_long_description_is_cut() -> None:
    function = {"name": "f", "description": "word\n" * 500, "parameters": {"type": "object"}}
    assert len(signature(function)) < 400
    assert "\n" not in signature(function)


def test_the_choice_is_held_to_the_names_and_the_word_for_none() -> None:
    body = choice_body(FUNCTIONS, [SYSTEM, said("user", "Hi")], "answer")
    schema = body["response_format"]["json_schema"]["schema"]
    assert schema == {"enum": ["get_weather", "add", "answer"]}
    assert body["messages"][0]["content"].startswith("You are a helpful assistant.")
    assert body["messages"][-1] == said("user", "Hi")


def test_a_choice_that_must_call_offers_no_way_out() -> None:
    body = choice_body(FUNCTIONS, [SYSTEM, said("user", "Hi")], "")
    assert body["response_format"]["json_schema"]["schema"] == {"enum": ["get_weather", "add"]}
    assert "answer" not in msgspec.json.encode(body["messages"]).decode()


def test_in_a_conversation_the_choice_sees_what_was_said_before() -> None:
    messages = [
        SYSTEM,
        said("user", "What is the weather in Paris?"),
        said("assistant", "Sunny."),
        said("user", "And in Rome?"),
        said("assistant", "One moment."),
        said("tool", "21 degrees"),
    ]
    body = choice_body(FUNCTIONS, messages, "answer")
    assert body["messages"][-1]["content"] == (
        "user: What is the weather in Paris?\nassistant: Sunny.\nuser: And in Rome?"
    )


def test_a_conversation_without_a_user_is_an_empty_request() -> None:
    assert choice_body(FUNCTIONS, [SYSTEM], "answer")["messages"][-1] == said("user", "")


def test_the_arguments_are_held_to_the_tools_own_schema_after_the_whole_conversation() -> None:
    function = msgspec.json.decode(msgspec.json.encode(WEATHER))
    function["parameters"]["properties"]["city"]["description"] = "The city's\nname"
    body = arguments_body(function, [SYSTEM, said("user", "Paris?")])
    assert body["response_format"]["json_schema"]["schema"] is function["parameters"]
    assert "- city: The city's name" in body["messages"][0]["content"]
    assert body["messages"][1:] == [said("user", "Paris?")]


@pytest.mark.parametrize(("text", "name"), [('"add"', "add"), ('"answer"', None), ('"ad', None), ("", None)])
def test_a_choice_is_read_and_all_else_means_to_answer(text: str, name: str | None) -> None:
    chosen = read_choice(text, FUNCTIONS)
    assert (chosen and chosen["name"]) == name


def test_the_word_for_none_is_never_a_tools_name() -> None:
    assert answer_label(FUNCTIONS) == "answer"
    assert answer_label([{"name": "answer"}]) == "answer_directly"


def test_only_a_tool_without_parameters_takes_nothing() -> None:
    assert takes_nothing({"parameters": {"type": "object", "properties": {}}})
    assert not takes_nothing(WEATHER)
    assert not takes_nothing({"parameters": {"$ref": "#/$defs/thing"}})
