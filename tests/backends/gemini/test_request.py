"""From a turn to the upstream's body: cases that the golden files do not cover."""

from typing import Any

import pytest

from antiphon.backends.gemini.models import MODELS, traits_of
from antiphon.backends.payload import Payload
from antiphon.errors import Unsupported
from antiphon.protocol.downgrade import rendered
from tests.backends.gemini.building import (
    ANSWER,
    CALL,
    NEW,
    OLD,
    OUTPUT,
    SCHEMA,
    TOOL,
    USER,
    build,
    config,
    contents,
    refused,
    text,
)


def test_the_least_request_is_small() -> None:
    assert build(OLD) == Payload(
        {"contents": [{"role": "user", "parts": [text("hi")]}]}, (), frozenset(), {}, {}
    )


@pytest.mark.parametrize(
    ("model", "row"),
    [
        ("gemini-2.0-flash-001", "gemini-2"),
        ("gemini-2.5-flash-lite-preview-09-2025", "gemini-2.5-flash-lite"),
        ("models/gemini-2.5-pro", "gemini-2.5-pro"),
        ("publishers/google/models/gemini-3-flash-preview", "gemini-3-flash"),
        ("gemini-3-pro-preview", "gemini-3-"),
        ("gemini-3.1-pro-preview", "gemini-3.1"),
        ("gemini-3.7-flash", "gemini-"),
        ("gemini-flash-latest", "gemini-"),
        ("gemma-3-27b-it", ""),
    ],
)
def test_a_model_row_is_found_by_the_longest_prefix(model: str, row: str) -> None:
    assert traits_of(model) is MODELS[row]


def test_the_rows_are_consistent() -> None:
    for name, traits in MODELS.items():
        assert bool(traits.budget[1]) == (traits.thinking == "budget"), name
        assert traits.levels, name
        assert traits.thinking == "budget" or not traits.off, name
        assert traits.signs == traits.ids == traits.json_with_tools == (traits.thinking == "levels"), name


@pytest.mark.parametrize(
    ("model", "options", "sent", "omitted"),
    [
        (OLD, {"temperature": 0.0}, {"temperature": 0.0}, ()),
        (OLD, {"temperature": 1.0, "top_p": 1.0, "presence_penalty": 0.0}, {}, ()),
        (NEW, {"temperature": 1.5, "top_p": 0.5}, {"temperature": 1.5, "topP": 0.5}, ()),
        (
            OLD,
            {"presence_penalty": 0.5, "frequency_penalty": -0.5},
            {"presencePenalty": 0.5, "frequencyPenalty": -0.5},
            (),
        ),
        ("gemini-3.6-flash", {"temperature": 0.5, "top_p": 0.5}, {}, ("temperature", "top_p")),
        ("gemini-3.5-flash-lite", {"presence_penalty": 0.5}, {}, ("presence_penalty",)),
        ("gemini-3.6-flash", {"temperature": 1.0, "frequency_penalty": 0.0}, {}, ()),
        (OLD, {"max_output_tokens": 5}, {"maxOutputTokens": 5}, ()),
        (
            OLD,
            {"top_logprobs": 2},
            {"responseLogprobs": True, "logprobs": 2},
            (),
        ),
        (OLD, {"include": ["message.output_text.logprobs"]}, {"responseLogprobs": True}, ()),
        (NEW, {"top_logprobs": 2}, {}, ("logprobs",)),
    ],
)
def test_sampling(
    model: str, options: dict[str, Any], sent: dict[str, Any], omitted: tuple[str, ...]
) -> None:
    payload = build(model, **options)
    assert config(payload) == sent
    assert len(payload.downgrades) == bool(omitted)
    assert all(name in payload.downgrades[0].render() for name in omitted)


@pytest.mark.parametrize(
    ("tier", "sent", "noted"),
    [
        ("flex", "flex", 0),
        ("priority", "priority", 0),
        ("auto", None, 0),
        ("default", None, 0),
        ("scale", None, 1),
    ],
)
def test_tiers(tier: str, sent: str | None, noted: int) -> None:
    payload = build(service_tier=tier)
    assert payload.body.get("serviceTier") == sent
    assert len(payload.downgrades) == noted


def test_unsupported_params_are_reported() -> None:
    options: dict[str, Any] = {
        "user": "u",
        "safety_identifier": "s",
        "prompt_cache_key": "k",
        "prompt_cache_retention": "24h",
        "prompt_cache_options": {"mode": "explicit"},
        "text": {"verbosity": "low"},
        "reasoning": {"mode": "pro"},
    }
    (named,) = build(**options).downgrades
    assert set(named.params) == {*options.keys() - {"text", "reasoning"}, "text.verbosity", "reasoning.mode"}
    assert named.code == "not_sent"
    assert build(text={"verbosity": "medium"}, metadata={"a": "b"}, stream=True).downgrades == ()


# Tools


@pytest.mark.parametrize(
    ("choice", "strict", "sent"),
    [
        ("auto", None, None),
        ("auto", False, None),
        ("auto", True, {"mode": "VALIDATED"}),
        ("required", None, {"mode": "ANY"}),
        ({"type": "function", "name": "look"}, True, {"mode": "ANY", "allowedFunctionNames": ["look"]}),
    ],
)
def test_the_choice_among_tools(choice: Any, strict: bool | None, sent: Any) -> None:
    other = {**TOOL, "name": "hear", "strict": False}
    payload = build(tools=[{**TOOL, "strict": strict}, other], tool_choice=choice)
    found = payload.body.get("toolConfig")
    assert found == (sent and {"functionCallingConfig": sent})
    assert (payload.downgrades, payload.unenforced) == ((), frozenset())


@pytest.mark.requirement("PROTOCOL/divergence-parallel")
def test_unsupported_tool_options_are_reported() -> None:
    payload = build("gemini-2.0-flash", tools=[{**TOOL, "strict": True}], parallel_tool_calls=False)
    assert "toolConfig" not in payload.body
    assert [note.split()[0] for note in rendered(payload.downgrades)] == ["'parallel_tool_calls'", "'strict'"]


def test_tools_that_may_not_be_called_are_not_shown() -> None:
    payload = build(input=[USER, CALL, OUTPUT], tools=[TOOL], tool_choice="none")
    assert not {"tools", "toolConfig"} & payload.body.keys()


@pytest.mark.parametrize(
    ("parameters", "schema"),
    [
        (None, None),
        ({}, None),
        ({"type": "object", "properties": {}, "additionalProperties": False}, None),
        ({"properties": {"a": True}}, {"type": "object", "properties": {"a": True}}),
        ({"anyOf": [{"required": ["a"]}]}, {"type": "object", "anyOf": [{"required": ["a"]}]}),
        (SCHEMA, SCHEMA),
    ],
)
def test_the_parameters_of_a_tool(parameters: Any, schema: Any) -> None:
    tool = {**TOOL, "parameters": parameters, "description": "Looks."}
    (declared,) = build(tools=[tool]).body["tools"][0]["functionDeclarations"]
    assert declared.get("parametersJsonSchema") == schema
    assert (declared["name"], declared["description"]) == ("look", "Looks.")


def test_invalid_tool_names_are_replaced() -> None:
    tools = [{**TOOL, "name": name} for name in ("2fa", "_2fa", "-x", "look")]
    calls = [{**CALL, "name": "2fa"}, {**CALL, "name": "9gone", "call_id": "c2"}]
    payload = build(tools=tools, input=[USER, *calls])
    (declared,) = payload.body["tools"]
    assert [tool["name"] for tool in declared["functionDeclarations"]] == ["_2fa", "_2fa_2", "_-x", "look"]
    assert payload.names == {"2fa": "_2fa", "_2fa": "_2fa_2", "-x": "_-x", "look": "look"}
    _, model, responses = payload.body["contents"]
    assert [part["functionCall"]["name"] for part in model["parts"]] == ["_2fa", "_9gone"]
    assert [part["functionResponse"]["name"] for part in responses["parts"]] == ["_2fa", "_9gone"]
    named = build(tools=tools, tool_choice={"type": "function", "name": "2fa"}).body["toolConfig"]
    assert named["functionCallingConfig"]["allowedFunctionNames"] == ["_2fa"]


def test_a_grammar_is_only_prompted() -> None:
    grammar = {"type": "grammar", "syntax": "regex", "definition": "a+"}
    payload = build(tools=[{"type": "custom", "name": "free", "format": grammar}])
    assert payload.unenforced == {"grammar"}


# Contents


def test_leading_system_messages_become_the_system_instruction() -> None:
    payload = build(
        instructions="One.",
        input=[{"role": "developer", "content": "Two."}, {"role": "system", "content": " "}, USER],
    )
    assert payload.body["systemInstruction"] == {"parts": [text("One."), text("Two.")]}
    assert payload.downgrades == ()


def test_a_late_system_message_is_the_users() -> None:
    late = {"role": "system", "content": "Now."}
    assert contents(USER, late) == [("user", [text("hi"), text("<system>\nNow.\n</system>")])]
    assert "system messages" in build(input=[USER, late]).downgrades[0].render()
    assert contents(USER, {"role": "system", "content": " "}) == [("user", [text("hi")])]


def test_consecutive_messages_of_one_role_are_merged() -> None:
    assert contents(USER, USER, ANSWER, ANSWER, USER) == [
        ("user", [text("hi"), text("hi")]),
        ("model", [text("so it is"), text("so it is")]),
        ("user", [text("hi")]),
    ]


def test_outputs_follow_their_calls_in_their_order() -> None:
    second = {**CALL, "call_id": "c2", "arguments": '{"at":"x"}'}
    found = contents(USER, CALL, second, USER, {**OUTPUT, "call_id": "c2", "output": "two"}, OUTPUT)
    assert found[1:] == [
        (
            "model",
            [
                {"functionCall": {"name": "look", "args": {}}},
                {"functionCall": {"name": "look", "args": {"at": "x"}}},
            ],
        ),
        (
            "user",
            [
                {"functionResponse": {"name": "look", "response": {"output": "seen"}}},
                {"functionResponse": {"name": "look", "response": {"output": "two"}}},
                text("hi"),
            ],
        ),
    ]


def test_ids_are_sent_where_they_are_known_and_are_unique() -> None:
    found = contents(USER, CALL, OUTPUT, CALL, {**OUTPUT, "output": "again"}, model=NEW)
    calls = [part["functionCall"]["id"] for role, parts in found if role == "model" for part in parts]
    outputs = [
        (part["functionResponse"]["id"], part["functionResponse"]["response"]["output"])
        for _, parts in (found[2], found[4])
        for part in parts
    ]
    assert calls == ["c1", "c1_2"]
    assert outputs == [("c1", "seen"), ("c1_2", "again")]


def test_a_call_without_an_output_gets_a_placeholder_output() -> None:
    payload = build(input=[USER, CALL, USER])
    response, question = payload.body["contents"][-1]["parts"]
    assert "No output" in response["functionResponse"]["response"]["output"]
    assert question == text("hi")
    assert rendered(payload.downgrades) == ["calls without an output are sent with a placeholder"]


def test_an_output_without_a_call_is_rejected() -> None:
    assert refused(input=[USER, OUTPUT]).param == "input[1]"


@pytest.mark.parametrize("arguments", ["{", "[]", '"a"', "[" * 100_000])
def test_non_object_arguments_are_wrapped_in_an_object(arguments: str) -> None:
    payload = build(input=[USER, {**CALL, "arguments": arguments}, OUTPUT])
    call = payload.body["contents"][1]["parts"][0]["functionCall"]
    assert call["args"] == {"arguments": arguments}
    assert "not a JSON object" in payload.downgrades[0].render()


def test_blank_texts_are_omitted() -> None:
    blank = {"role": "user", "content": [{"type": "input_text", "text": " \n"}]}
    assert contents(blank, USER, {"role": "assistant", "content": ""}, USER) == [
        ("user", [text("hi"), text("hi")])
    ]


def test_the_user_begins_and_ends_the_conversation() -> None:
    payload = build(input=[ANSWER])
    assert [content["role"] for content in payload.body["contents"]] == ["user", "model", "user"]
    assert len(payload.downgrades) == 2


def test_instructions_without_input_become_a_user_message() -> None:
    payload = build(input=" ", instructions="Greet me.")
    assert payload.body == {"contents": [{"role": "user", "parts": [text("Greet me.")]}]}
    assert refused(input=" ").param == "input"


def test_items_that_the_model_cannot_read_are_rejected() -> None:
    error = refused(input=[USER, {"type": "program", "id": "x"}])
    assert isinstance(error, Unsupported)
    assert error.param == "input[1]"


# Structured output


def test_a_schema_that_is_enforced() -> None:
    form = {"type": "json_schema", "name": "n", "schema": SCHEMA}
    for model, tools in ((OLD, []), (NEW, [TOOL])):
        payload = build(model, text={"format": form}, tools=tools)
        assert config(payload) == {"responseMimeType": "application/json", "responseJsonSchema": SCHEMA}
        assert (payload.downgrades, payload.unenforced) == ((), frozenset())
        assert "systemInstruction" not in payload.body


def test_json_of_any_form() -> None:
    payload = build(text={"format": {"type": "json_object"}})
    assert config(payload) == {"responseMimeType": "application/json"}
    assert payload.unenforced == frozenset()
    assert build(text={"format": {"type": "text"}}) == build()


def test_a_schema_that_is_enforced_in_part_is_checked_too() -> None:
    schema = {**SCHEMA, "properties": {"n": {"type": "integer", "multipleOf": 3}}}
    payload = build(text={"format": {"type": "json_schema", "name": "n", "schema": schema}})
    assert config(payload)["responseJsonSchema"] == SCHEMA
    assert '"multipleOf":3' in payload.body["systemInstruction"]["parts"][0]["text"]
    assert payload.unenforced == {"format"}
    assert "JSON schema" in payload.downgrades[0].render()


@pytest.mark.parametrize(
    "form", [{"type": "json_object"}, {"type": "json_schema", "name": "n", "schema": SCHEMA}]
)
def test_json_with_tools_is_only_prompted_where_the_combination_is_unsupported(form: dict[str, Any]) -> None:
    payload = build(OLD, text={"format": form}, tools=[TOOL])
    assert config(payload) == {}
    assert "JSON" in payload.body["systemInstruction"]["parts"][0]["text"]
    assert payload.unenforced == {"format"}
    assert "with tools" in payload.downgrades[0].render()


def test_a_schema_that_is_too_deep_is_described() -> None:
    schema: dict[str, Any] = {"type": "object"}
    for _ in range(70):
        schema = {"type": "array", "items": schema}
    payload = build(text={"format": {"type": "json_schema", "name": "n", "schema": schema}})
    assert config(payload) == {"responseMimeType": "application/json"}
    assert payload.unenforced == {"format"}
