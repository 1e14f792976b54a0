"""From a turn to the upstream's body: cases that the golden files do not cover."""

from typing import Any

import pytest
from msgspec.structs import replace

from antiphon.backends.anthropic_messages.models import MODELS, traits_of
from antiphon.backends.anthropic_messages.request import build_payload
from antiphon.backends.payload import Payload
from antiphon.backends.placeholders import NO_OUTPUT
from antiphon.errors import Unsupported
from antiphon.protocol.downgrade import rendered
from antiphon.protocol.items import OpaqueItem
from antiphon.protocol.parse_create import create_from
from antiphon.turn.context import build_turn
from tests.backends.anthropic_messages.building import (
    CALL,
    ENDPOINT,
    NEW,
    OLD,
    OUTPUT,
    SCHEMA,
    TOOL,
    USER,
    build,
    messages,
    refused,
    text,
)

ANY: dict[str, Any] = {}


def test_the_least_request_is_small() -> None:
    marked = {"type": "text", "text": "hi", "cache_control": {"type": "ephemeral"}}
    assert build(OLD) == Payload(
        {"model": OLD, "max_tokens": 64_000, "messages": [{"role": "user", "content": [marked]}]},
        (),
        frozenset(),
        {},
        {},
    )


@pytest.mark.parametrize(
    ("model", "row"),
    [
        ("claude-sonnet-4-20250514", "claude-sonnet-4"),
        ("claude-sonnet-4-5-20250929", "claude-sonnet-4-5"),
        ("us.anthropic.claude-opus-4-6-v1", "claude-opus-4-6"),
        ("claude-opus-5-5", "claude-opus-5-5"),
        ("claude-opus-9", "claude-"),
        ("glm-5", ""),
    ],
)
def test_a_model_row_is_found_by_the_longest_prefix(model: str, row: str) -> None:
    assert traits_of(model) is MODELS[row]


def test_every_model_row_has_a_token_limit_and_consistent_efforts() -> None:
    for name, traits in MODELS.items():
        assert traits.max_tokens >= 4096, name
        assert traits.unasked or traits.off == "disabled", name
        assert traits.thinking == "adaptive" or not traits.unasked, name
        assert (traits.thinking == "adaptive") <= bool(traits.efforts), name


@pytest.mark.parametrize(
    ("model", "options", "sent", "noted"),
    [
        (OLD, {"temperature": 0.0}, {"temperature": 0.0}, False),
        (OLD, {"temperature": 1.0, "top_p": 1.0}, {}, False),
        (OLD, {"temperature": 1.5}, {"temperature": 1}, True),
        (OLD, {"temperature": 0.5, "top_p": 0.5}, {"temperature": 0.5}, True),
        ("claude-3-5-haiku", {"temperature": 0.5, "top_p": 0.5}, {"temperature": 0.5, "top_p": 0.5}, False),
        (NEW, {"temperature": 0.5}, {}, True),
        (NEW, {"temperature": 1.0}, {}, False),
        (OLD, {"temperature": 0.5, "reasoning": {"effort": "low"}}, {}, True),
        (OLD, {"top_p": 0.97, "reasoning": {"effort": "low"}}, {"top_p": 0.97}, False),
        (OLD, {"top_p": 0.9, "reasoning": {"effort": "low"}}, {}, True),
    ],
)
def test_sampling(model: str, options: dict[str, Any], sent: dict[str, Any], noted: bool) -> None:
    payload = build(model, **options)
    assert {name: payload.body[name] for name in ("temperature", "top_p") if name in payload.body} == sent
    assert bool(payload.downgrades) == noted


@pytest.mark.parametrize(
    ("options", "sent"),
    [
        ({"user": "u"}, {"metadata": {"user_id": "u"}}),
        ({"user": "u", "safety_identifier": "s"}, {"metadata": {"user_id": "s"}}),
        ({"service_tier": "default"}, {"service_tier": "standard_only"}),
        ({"service_tier": "priority"}, {"service_tier": "auto"}),
        ({"service_tier": "auto"}, {}),
        ({"metadata": {"a": "b"}}, {}),
        ({"stream": True}, {"stream": True}),
        ({"max_output_tokens": 5}, {"max_tokens": 5}),
    ],
)
def test_supported_params_are_passed_on(options: dict[str, Any], sent: dict[str, Any]) -> None:
    payload = build(**options)
    for name in ("metadata", "service_tier", "stream"):
        assert payload.body.get(name) == sent.get(name)
    assert payload.body["max_tokens"] == sent.get("max_tokens", 64_000)
    assert payload.downgrades == ()


def test_unsupported_params_are_reported() -> None:
    options: dict[str, Any] = {
        "presence_penalty": 1.0,
        "frequency_penalty": 1.0,
        "prompt_cache_key": "k",
        "service_tier": "flex",
        "text": {"verbosity": "low"},
        "reasoning": {"mode": "pro"},
        "top_logprobs": 2,
    }
    named, logprobs = build(**options).downgrades
    omitted = {*options.keys() - {"text", "reasoning", "top_logprobs"}, "text.verbosity", "reasoning.mode"}
    assert (named.code, set(named.params)) == ("not_sent", omitted)
    assert (logprobs.code, logprobs.params) == ("output_omitted", ("top_logprobs",))


# Tools


@pytest.mark.parametrize(
    ("choice", "parallel", "sent"),
    [
        ("auto", None, None),
        ("auto", True, None),
        ("auto", False, {"type": "auto", "disable_parallel_tool_use": True}),
        ("required", None, {"type": "any"}),
        ("required", False, {"type": "any", "disable_parallel_tool_use": True}),
        ({"type": "function", "name": "look"}, None, {"type": "tool", "name": "look"}),
    ],
)
def test_the_choice_among_tools(choice: Any, parallel: bool | None, sent: Any) -> None:
    payload = build(tools=[TOOL], tool_choice=choice, parallel_tool_calls=parallel)
    assert payload.body.get("tool_choice") == sent
    assert payload.unenforced == frozenset()


def test_a_model_without_forced_tool_choice_is_prompted_and_checked() -> None:
    payload = build("claude-opus-5-5", tools=[TOOL], tool_choice="required", parallel_tool_calls=False)
    assert payload.body["tool_choice"] == {"type": "auto", "disable_parallel_tool_use": True}
    assert "look" in payload.body["system"][-1]["text"]
    assert payload.unenforced == {"tool_choice"}
    assert "tool_choice" in payload.downgrades[0].render()


def test_tools_that_may_not_be_called_are_declared_if_they_were() -> None:
    payload = build(input=[USER, CALL, OUTPUT], tools=[TOOL], tool_choice="none")
    assert payload.body["tool_choice"] == {"type": "none"}
    assert [tool["name"] for tool in payload.body["tools"]] == ["look"]
    assert "tools" not in build(tools=[TOOL], tool_choice="none").body


@pytest.mark.parametrize(
    ("parameters", "schema"),
    [
        (None, {"type": "object", "properties": {}}),
        ({"properties": {"a": ANY}}, {"type": "object", "properties": {"a": ANY}}),
        (
            {"anyOf": [{"properties": {"a": ANY}}, {"properties": {"b": ANY}}], "description": "d"},
            {"type": "object", "description": "d", "properties": {"a": ANY, "b": ANY}},
        ),
    ],
)
def test_the_parameters_of_a_tool_are_an_object(parameters: Any, schema: Any) -> None:
    tool = {**TOOL, "parameters": parameters, "description": "Looks.", "strict": False}
    (sent,) = build(tools=[tool]).body["tools"]
    assert sent["input_schema"] == schema
    assert sent["description"] == "Looks."
    assert "strict" not in sent


def test_strict_tools() -> None:
    strict = {**TOOL, "parameters": SCHEMA, "strict": True}
    (sent,) = build(tools=[strict]).body["tools"]
    assert sent["strict"] is True
    loose = {**SCHEMA, "properties": {"n": {"type": "integer", "minimum": 1}}}
    for model, parameters in (("claude-3-7-sonnet", SCHEMA), (OLD, loose)):
        payload = build(model, tools=[{**strict, "parameters": parameters}])
        assert "strict" not in payload.body["tools"][0]
        assert payload.body["tools"][0]["input_schema"] == parameters
        assert "strict" in payload.downgrades[0].render()


def test_a_grammar_is_not_enforced() -> None:
    grammar = {"type": "grammar", "syntax": "regex", "definition": "a+"}
    payload = build(tools=[{"type": "custom", "name": "patch", "format": grammar}])
    assert payload.unenforced == {"grammar"}
    assert build(tools=[{"type": "custom", "name": "patch"}]).unenforced == frozenset()


def test_more_strict_tools_than_are_taken() -> None:
    tools = [{**TOOL, "name": f"t{number}", "parameters": SCHEMA, "strict": True} for number in range(25)]
    payload = build(tools=tools)
    assert sum(tool.get("strict", False) for tool in payload.body["tools"]) == 20
    assert len(payload.downgrades) == 1


# Messages


def test_leading_system_messages_become_the_system_prompt() -> None:
    payload = build(
        instructions="One.",
        input=[{"role": "developer", "content": "Two."}, {"role": "system", "content": "3"}, USER],
    )
    assert [block["text"] for block in payload.body["system"]] == ["One.", "Two.", "3"]
    assert payload.downgrades == ()


def test_a_late_system_message_is_the_users_where_it_is_not_heeded() -> None:
    payload = build(input=[USER, {"role": "system", "content": "Now."}])
    assert messages(USER, {"role": "system", "content": "Now."}) == [
        ("user", [text("hi"), text("<system>\nNow.\n</system>")])
    ]
    assert "system messages" in payload.downgrades[0].render()


def test_a_late_system_message_has_its_role_right_before_the_model() -> None:
    late = {"role": "developer", "content": "Now."}
    assert messages(USER, late, model=NEW) == [("user", [text("hi")]), ("system", [text("Now.")])]
    assert messages(USER, CALL, OUTPUT, late, model=NEW)[-1] == ("system", [text("Now.")])
    after_the_assistant = messages(USER, {"role": "assistant", "content": "a"}, late, USER, model=NEW)
    assert after_the_assistant[-1] == ("user", [text("<system>\nNow.\n</system>"), text("hi")])
    last = messages(USER, {"role": "assistant", "content": "a"}, late, model=NEW)
    assert last[-1] == ("user", [text("<system>\nNow.\n</system>")])
    before_the_user = messages(USER, late, USER, model=NEW)
    assert [role for role, _ in before_the_user] == ["user"]


def test_consecutive_messages_of_one_role_are_merged() -> None:
    assert messages(
        USER, USER, {"role": "assistant", "content": "a"}, {"role": "assistant", "content": "b"}, USER
    ) == [
        ("user", [text("hi"), text("hi")]),
        ("assistant", [text("a"), text("b")]),
        ("user", [text("hi")]),
    ]


def test_tool_results_come_first_in_the_message_after_their_calls() -> None:
    second = {**CALL, "call_id": "c2"}
    found = messages(
        USER, CALL, second, USER, {**OUTPUT, "call_id": "c2", "output": "two"}, OUTPUT, tools=[TOOL]
    )
    assert [block["id"] for block in found[1][1]] == ["c1", "c2"]
    assert found[2:] == [
        (
            "user",
            [
                {"type": "tool_result", "tool_use_id": "c1", "content": "seen"},
                {"type": "tool_result", "tool_use_id": "c2", "content": "two"},
                text("hi"),
            ],
        )
    ]


def test_rounds_of_calls_are_not_merged() -> None:
    found = messages(USER, CALL, OUTPUT, {**CALL, "call_id": "c2"}, {**OUTPUT, "call_id": "c2"})
    assert [role for role, _ in found] == ["user", "assistant", "user", "assistant", "user"]


def test_a_call_without_an_output_gets_a_placeholder_output() -> None:
    payload = build(input=[USER, CALL, USER])
    result = payload.body["messages"][-1]["content"][0]
    assert (result["type"], result["tool_use_id"]) == ("tool_result", "c1")
    assert "No output" in result["content"]
    assert rendered(payload.downgrades) == ["calls without an output are sent with a placeholder"]


def outputs(*items: Any) -> list[Any]:
    """The contents of the tool results, per message."""
    return [
        [block.get("content") for block in blocks if block["type"] == "tool_result"]
        for role, blocks in messages(USER, *items, tools=[TOOL])
        if role == "user"
    ][1:]


def output_item(output: str, call_id: str = "c1") -> dict[str, Any]:
    return {**OUTPUT, "call_id": call_id, "output": output}


def test_names_of_calls_are_no_longer_than_is_taken() -> None:
    (_, [block]) = messages(USER, {**CALL, "name": "n" * 200}, OUTPUT)[1]
    assert block["name"] == "n" * 128


def test_no_output_is_lost() -> None:
    assert outputs(CALL, output_item("one"), output_item("two")) == [[[text("one"), text("two")]]]
    assert outputs(CALL, CALL, output_item("one"), output_item("two")) == [["one", "two"]]
    assert outputs(CALL, CALL, output_item("one"), output_item("two"), output_item("three")) == [
        ["one", [text("two"), text("three")]]
    ]
    assert outputs(CALL, output_item("one"), CALL, output_item("two")) == [["one"], ["two"]]
    assert outputs(CALL, USER, CALL, output_item("two")) == [[NO_OUTPUT], ["two"]]
    payload = build(input=[USER, CALL, output_item("one"), output_item("two")])
    assert rendered(payload.downgrades) == ["several outputs of one call are sent as one"]


def test_many_calls_with_one_id_take_linear_time() -> None:
    looked_up = 0

    class Ids(set[str]):
        def __contains__(self, value: object) -> bool:
            nonlocal looked_up
            looked_up += 1
            return super().__contains__(value)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("antiphon.backends.anthropic_messages.messages.set", Ids, raising=False)
        (_, blocks) = messages(USER, *[CALL] * 300)[1]
    assert [block["id"] for block in blocks[:3]] == ["c1", "c1_2", "c1_3"]
    assert len({block["id"] for block in blocks}) == 300
    assert 0 < looked_up < 1000


def test_an_output_without_a_call_is_rejected() -> None:
    assert refused(input=[USER, OUTPUT]).param == "input[1]"


def test_an_empty_output_is_sent_without_content() -> None:
    assert messages(USER, CALL, {**OUTPUT, "output": " "})[-1] == (
        "user",
        [{"type": "tool_result", "tool_use_id": "c1"}],
    )


def test_ids_of_calls_have_the_form_that_is_taken_and_are_unique() -> None:
    odd = {**CALL, "call_id": "functions.look:0"}
    found = messages(
        USER,
        odd,
        {**OUTPUT, "call_id": "functions.look:0", "output": "a"},
        odd,
        {**OUTPUT, "call_id": "functions.look:0", "output": "b"},
    )
    ids = [block["id"] for role, blocks in found if role == "assistant" for block in blocks]
    outputs = [(block["tool_use_id"], block["content"]) for block in (*found[2][1], *found[4][1])]
    assert ids == ["functions_look_0", "functions_look_0_2"]
    assert outputs == list(zip(ids, "ab", strict=True))


@pytest.mark.parametrize("arguments", ["{", "[]", '"a"', "[" * 100_000])
def test_non_object_arguments_are_wrapped_in_an_object(arguments: str) -> None:
    payload = build(input=[USER, {**CALL, "arguments": arguments}, OUTPUT])
    assert payload.body["messages"][1]["content"][0]["input"] == {"arguments": arguments}
    assert "not a JSON object" in payload.downgrades[0].render()


def test_blank_texts_are_omitted() -> None:
    blank = {"role": "user", "content": [{"type": "input_text", "text": " \n"}]}
    assert messages(blank, USER, {"role": "assistant", "content": ""}, USER) == [
        ("user", [text("hi"), text("hi")])
    ]


def test_the_user_begins_and_ends_the_conversation() -> None:
    payload = build(input=[{"role": "assistant", "content": "Hello"}])
    assert [message["role"] for message in payload.body["messages"]] == ["user", "assistant", "user"]
    assert len(payload.downgrades) == 2


def test_instructions_without_input_become_a_user_message() -> None:
    payload = build(input=" ", instructions="Greet me.")
    assert payload.body["messages"][0]["content"][0]["text"] == "Greet me."
    assert "system" not in payload.body
    assert refused(input=" ").param == "input"


def test_items_that_the_model_cannot_read_are_rejected() -> None:
    error = refused(input=[USER, {"type": "program", "id": "x"}])
    assert isinstance(error, Unsupported)
    assert error.param == "input[1]"
    turn_request = build_turn(create_from(model="m", input="hi"), model="m")
    with pytest.raises(Unsupported, match="'program'"):
        build_payload(replace(turn_request, items=(*turn_request.items, OpaqueItem("program", {}))), ENDPOINT)


# Structured output


def test_a_schema_that_is_enforced() -> None:
    payload = build(text={"format": {"type": "json_schema", "name": "n", "schema": SCHEMA}})
    assert payload.body["output_config"] == {"format": {"type": "json_schema", "schema": SCHEMA}}
    assert (payload.downgrades, payload.unenforced) == ((), frozenset())


def test_a_schema_that_is_enforced_in_part_is_checked_too() -> None:
    schema = {**SCHEMA, "properties": {"n": {"type": "integer", "minimum": 1}}}
    payload = build(
        NEW,
        text={"format": {"type": "json_schema", "name": "n", "schema": schema}},
        reasoning={"effort": "low"},
    )
    assert payload.body["output_config"] == {
        "effort": "low",
        "format": {"type": "json_schema", "schema": SCHEMA},
    }
    assert '"minimum":1' in payload.body["system"][0]["text"]
    assert payload.unenforced == {"format"}


@pytest.mark.parametrize(
    ("model", "form"),
    [
        (OLD, {"type": "json_object"}),
        ("claude-3-7-sonnet", {"type": "json_schema", "name": "n", "schema": SCHEMA}),
        (OLD, {"type": "json_schema", "name": "n", "schema": {"type": "object"}}),
    ],
)
def test_json_object_format_is_only_prompted(model: str, form: dict[str, Any]) -> None:
    payload = build(model, text={"format": form})
    assert "output_config" not in payload.body
    assert "JSON" in payload.body["system"][0]["text"]
    assert payload.unenforced == {"format"}
    assert "JSON" in payload.downgrades[0].render()


def test_the_text_format_is_not_sent() -> None:
    assert build(text={"format": {"type": "text"}}) == build()
