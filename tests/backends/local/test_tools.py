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


def chat_message(role: str, content: str | None) -> dict[str, Any]:
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


def test_a_long_description_is_truncated() -> None:
    function = {"name": "f", "description": "word\n" * 500, "parameters": {"type": "object"}}
    assert len(signature(function)) < 400
    assert "\n" not in signature(function)


def test_the_choice_is_constrained_to_the_tool_names_and_none() -> None:
    body = choice_body(FUNCTIONS, [SYSTEM, chat_message("user", "Hi")], "answer", {})
    schema = body["response_format"]["json_schema"]["schema"]
    assert schema == {"enum": ["get_weather", "add", "answer"]}
    assert body["messages"][0]["content"].startswith("You are a helpful assistant.")
    assert body["messages"][-1] == chat_message("user", "Hi")


def test_a_required_choice_does_not_offer_none() -> None:
    body = choice_body(FUNCTIONS, [SYSTEM, chat_message("user", "Hi")], "", {})
    assert body["response_format"]["json_schema"]["schema"] == {"enum": ["get_weather", "add"]}
    assert "answer" not in msgspec.json.encode(body["messages"]).decode()


def test_the_choice_prompt_includes_the_earlier_messages() -> None:
    messages = [
        SYSTEM,
        chat_message("user", "What is the weather in Paris?"),
        chat_message("assistant", "Sunny."),
        chat_message("user", "And in Rome?"),
        chat_message("assistant", "One moment."),
        chat_message("tool", "21 degrees"),
    ]
    body = choice_body(FUNCTIONS, messages, "answer", {})
    assert body["messages"][-1]["content"] == (
        "user: What is the weather in Paris?\nassistant: Sunny.\nuser: And in Rome?"
    )


def test_a_conversation_without_a_user_is_an_empty_request() -> None:
    assert choice_body(FUNCTIONS, [SYSTEM], "answer", {})["messages"][-1] == chat_message("user", "")


def test_a_tool_with_requests_has_them_as_examples() -> None:
    requests = {"get_weather": ("Will it rain?", "Is it cold?")}
    body = choice_body(FUNCTIONS, [SYSTEM, chat_message("user", "Hi")], "answer", requests)
    shown = [(message["role"], message["content"]) for message in body["messages"][1:-1]]
    wished = [text for _, text in shown if text in (*requests["get_weather"], "Add two numbers")]
    assert wished == ["Will it rain?", "Is it cold?", "Add two numbers"]
    assert [text for role, text in shown if role == "assistant"] == [
        *('"answer"', '"get_weather"', '"answer"', '"get_weather"'),
        *('"answer"', '"add"'),
    ]
    assert ("user", "Explain what a noun is.") not in shown


def test_the_arguments_are_constrained_to_the_tools_schema_after_the_complete_conversation() -> None:
    function = msgspec.json.decode(msgspec.json.encode(WEATHER))
    function["parameters"]["properties"]["city"]["description"] = "The city's\nname"
    body = arguments_body(function, [SYSTEM, chat_message("user", "Paris?")])
    assert body["response_format"]["json_schema"]["schema"] is function["parameters"]
    assert "- city: The city's name" in body["messages"][0]["content"]
    assert body["messages"][1:] == [chat_message("user", "Paris?")]


@pytest.mark.parametrize(("text", "name"), [('"add"', "add"), ('"answer"', None), ('"ad', None), ("", None)])
def test_a_choice_is_parsed_and_any_other_text_means_an_answer(text: str, name: str | None) -> None:
    chosen = read_choice(text, FUNCTIONS)
    assert (chosen and chosen["name"]) == name


def test_the_name_for_no_tool_is_never_a_tools_name() -> None:
    assert answer_label(FUNCTIONS) == "answer"
    assert answer_label([{"name": "answer"}]) == "answer_directly"


def test_only_a_tool_without_parameters_takes_no_arguments() -> None:
    assert takes_nothing({"parameters": {"type": "object", "properties": {}}})
    assert not takes_nothing(WEATHER)
    assert not takes_nothing({"parameters": {"$ref": "#/$defs/thing"}})
