"""Parsing of chat requests into engine requests, and rejections."""

from typing import Any

import msgspec
import pytest

from antiphon.errors import InvalidRequest
from antiphon.protocol.content import (
    InputAudio,
    InputFile,
    InputImage,
    InputText,
    OutputText,
    ReasoningText,
    Refusal,
)
from antiphon.protocol.downgrade import rendered
from antiphon.protocol.items import (
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
    Item,
    Message,
    Reasoning,
)
from antiphon.protocol.requests import ReasoningOptions, TextFormat, TextOptions
from antiphon.protocol.tools import (
    AllowedTools,
    CustomTool,
    FunctionTool,
    HostedTool,
    TextFormatGrammar,
    ToolRef,
)
from antiphon.server.compat.api import CompatRequest
from antiphon.server.compat.chat_completions.request import read_chat

USER = {"role": "user", "content": "hi"}
WEATHER = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}


def parse(*messages: Any, **params: Any) -> CompatRequest:
    body = {"model": "m", "messages": list(messages) or [USER], **params}
    return read_chat(msgspec.json.encode(body))[0]


def refusal(*messages: Any, **params: Any) -> tuple[str | None, str | None]:
    with pytest.raises(InvalidRequest) as caught:
        parse(*messages, **params)
    assert caught.value.message
    return caught.value.param, caught.value.code


def call(call_id: str, name: str, arguments: Any = "{}") -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


CUSTOM_CALL = {"id": "c2", "type": "custom", "custom": {"name": "sql", "input": "select"}}

MESSAGES: list[tuple[list[Any], list[Item]]] = [
    ([{"role": "system", "content": "Be brief."}], [Message(role="system", content="Be brief.")]),
    (
        [{"role": "developer", "content": [{"type": "text", "text": "Be brief."}]}],
        [Message(role="developer", content=[InputText(text="Be brief.")])],
    ),
    (
        [
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "What is this?"},
                    {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA", "detail": "low"}},
                    {"type": "input_audio", "input_audio": {"data": "AA", "format": "wav"}},
                    {
                        "type": "file",
                        "file": {"file_data": "data:application/pdf;base64,AA", "filename": "a"},
                    },
                ],
            }
        ],
        [
            Message(
                role="user",
                content=[
                    InputText(text="What is this?"),
                    InputImage(image_url="data:image/png;base64,AA", detail="low"),
                    InputAudio(input_audio={"data": "AA", "format": "wav"}),
                    InputFile(file_data="data:application/pdf;base64,AA", filename="a"),
                ],
            )
        ],
    ),
    (
        [{"role": "assistant", "content": "Hm.", "refusal": "No.", "reasoning_content": "Should I?"}],
        [
            Reasoning(summary=[], content=[ReasoningText("Should I?")]),
            Message(role="assistant", content=[OutputText(text="Hm."), Refusal("No.")]),
        ],
    ),
    ([{"role": "assistant", "content": "Yes."}], [Message(role="assistant", content="Yes.")]),
    ([{"role": "assistant", "content": None}], [Message(role="assistant", content="")]),
    (
        [{"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]}],
        [Message(role="assistant", content=[Refusal("No.")])],
    ),
    (
        [
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [call("c1", "weather", '{"a":1}'), CUSTOM_CALL],
            },
            {"role": "tool", "tool_call_id": "c1", "content": "sunny"},
            {"role": "tool", "tool_call_id": "c2", "content": [{"type": "text", "text": "3 rows"}]},
        ],
        [
            FunctionCall(call_id="c1", name="weather", arguments='{"a":1}'),
            CustomToolCall(call_id="c2", name="sql", input="select"),
            FunctionCallOutput(call_id="c1", output="sunny"),
            CustomToolCallOutput(call_id="c2", output=[InputText(text="3 rows")]),
        ],
    ),
    (
        [{"role": "assistant", "tool_calls": [call("c1", "a", {"b": 1}), call("c2", "a", "")]}],
        [
            FunctionCall(call_id="c1", name="a", arguments='{"b":1}'),
            FunctionCall(call_id="c2", name="a", arguments="{}"),
        ],
    ),
    (
        [
            {"role": "assistant", "content": None, "function_call": {"name": "weather", "arguments": "{}"}},
            {"role": "function", "name": "weather", "content": "sunny"},
        ],
        [
            FunctionCall(call_id="call_0", name="weather", arguments="{}"),
            FunctionCallOutput(call_id="call_0", output="sunny"),
        ],
    ),
]


@pytest.mark.parametrize(("messages", "items"), MESSAGES)
def test_messages(messages: list[Any], items: list[Item]) -> None:
    assert list(parse(*messages).request.items) == items


def test_parameters() -> None:
    schema = {"type": "object"}
    parsed = parse(
        max_completion_tokens=5,
        temperature=0.5,
        top_p=0.9,
        presence_penalty=1,
        frequency_penalty=-1,
        logprobs=True,
        top_logprobs=2,
        reasoning_effort="low",
        verbosity="high",
        parallel_tool_calls=False,
        stream=True,
        user="u",
        safety_identifier="s",
        metadata={"a": "b"},
        service_tier="flex",
        prompt_cache_key="k",
        response_format={
            "type": "json_schema",
            "json_schema": {"name": "n", "schema": schema, "strict": True},
        },
    )
    params = parsed.request.params
    assert (params.max_output_tokens, params.temperature, params.top_p) == (5, 0.5, 0.9)
    assert (params.presence_penalty, params.frequency_penalty) == (1, -1)
    assert (params.include, params.top_logprobs) == (["message.output_text.logprobs"], 2)
    assert params.reasoning == ReasoningOptions(effort="low")
    form = TextFormat(type="json_schema", name="n", schema=schema, strict=True)
    assert params.text == TextOptions(form, "high")
    assert (params.parallel_tool_calls, params.stream, params.store) == (False, True, False)
    assert (params.user, params.safety_identifier, params.metadata) == ("u", "s", {"a": "b"})
    assert (params.service_tier, params.prompt_cache_key) == ("flex", "k")
    assert parsed.streamed
    assert parsed.downgrades == ()


@pytest.mark.parametrize(
    ("params_sent", "text"),
    [
        ({}, None),
        ({"verbosity": "low"}, TextOptions(verbosity="low")),
        ({"response_format": {"type": "text"}}, TextOptions(TextFormat(type="text"))),
        ({"response_format": {"type": "json_object"}}, TextOptions(TextFormat(type="json_object"))),
    ],
)
def test_formats(params_sent: dict[str, Any], text: TextOptions | None) -> None:
    assert parse(**params_sent).request.params.text == text


def test_the_old_names() -> None:
    assert parse(max_tokens=7).request.params.max_output_tokens == 7
    assert parse(max_tokens=7, max_completion_tokens=7).request.params.max_output_tokens == 7
    parsed = parse(functions=[{"name": "weather"}], function_call={"name": "weather"})
    assert parsed.request.tools == (FunctionTool(name="weather"),)
    assert parsed.request.tool_choice == ToolRef("function", "weather")
    assert parsed.request.params.parallel_tool_calls is False
    assert parse(functions=[{"name": "weather"}], function_call="none").request.tool_choice == "none"
    assert parse(reasoning={"effort": "high"}).request.params.reasoning == ReasoningOptions(effort="high")


def test_tools() -> None:
    grammar = {"type": "grammar", "grammar": {"syntax": "regex", "definition": "a+"}}
    custom = {"type": "custom", "custom": {"name": "sql", "description": "d", "format": grammar}}
    parsed = parse(tools=[WEATHER, custom], web_search_options={"search_context_size": "low"})
    assert parsed.request.tools == (
        FunctionTool(name="weather", parameters={"type": "object"}),
        CustomTool(name="sql", description="d", format=TextFormatGrammar("grammar", "regex", "a+")),
        HostedTool("web_search", {"type": "web_search", "search_context_size": "low"}),
    )


@pytest.mark.parametrize(
    ("params_sent", "choice"),
    [
        ("none", "none"),
        ("required", "required"),
        ({"type": "function", "function": {"name": "weather"}}, ToolRef("function", "weather")),
        ({"type": "custom", "custom": {"name": "sql"}}, ToolRef("custom", "sql")),
        (
            {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [{"type": "function", "function": {"name": "weather"}}]}},
            AllowedTools("required", [ToolRef("function", "weather")]),
        ),
    ],
)  # fmt: skip
def test_choices(params_sent: Any, choice: Any) -> None:
    assert parse(tools=[WEATHER], tool_choice=params_sent).request.tool_choice == choice


@pytest.mark.parametrize(
    ("params_sent", "note"),
    [
        ({"seed": 1, "prediction": {"type": "content", "content": "a"}}, "not used here: prediction, seed"),
        ({"top_k": 5, "min_p": 0.1}, "not used here: min_p, top_k"),
        ({"store": True}, "not stored: POST /v1/responses stores responses"),
    ],
)
def test_omitted_params_are_reported(params_sent: dict[str, Any], note: str) -> None:
    assert rendered(parse(**params_sent).downgrades) == [note]


def test_names_of_speakers_are_noted_once() -> None:
    named = {**USER, "name": "ann"}
    assert rendered(parse(named, named).downgrades) == ["the names of speakers are not shown to the model"]


REFUSED: list[tuple[dict[str, Any], str, str]] = [
    ({"n": 2}, "n", "unsupported_value"),
    ({"logit_bias": {"50256": -100}}, "logit_bias", "unsupported_parameter"),
    ({"modalities": ["text", "audio"]}, "modalities", "unsupported_parameter"),
    ({"audio": {"voice": "alloy", "format": "wav"}}, "audio", "unsupported_parameter"),
    ({"moderation": {"model": "x"}}, "moderation", "unsupported_parameter"),
    ({"top_logprobs": 2}, "top_logprobs", "invalid_value"),
    ({"max_tokens": 1, "max_completion_tokens": 2}, "max_tokens", "mutually_exclusive_parameters"),
    ({"temperature": 3}, "temperature", "invalid_value"),
    ({"reasoning_effort": "huge"}, "reasoning_effort", "invalid_value"),
    ({"metadata": {str(number): "" for number in range(17)}}, "metadata", "object_above_max_properties"),
    (
        {"response_format": {"type": "json_schema"}},
        "response_format.json_schema",
        "missing_required_parameter",
    ),
    (
        {"response_format": {"type": "json_schema", "json_schema": {"name": "n"}}},
        "response_format.json_schema.schema",
        "missing_required_parameter",
    ),
    (
        {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": 1}}}},
        "response_format.json_schema.schema",
        "invalid_json_schema",
    ),
    ({"tools": [{"type": "function", "name": "flat"}]}, "tools[0].function", "missing_required_parameter"),
    ({"tools": [{"type": "shell"}]}, "tools[0].type", "invalid_value"),
    ({"tools": [WEATHER, WEATHER]}, "tools[1]", "duplicate_tool_name"),
    ({"tools": [WEATHER] * 513}, "tools", "array_above_max_length"),
    ({"tools": [WEATHER], "functions": [{"name": "f"}]}, "functions", "mutually_exclusive_parameters"),
    (
        {"tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": 1}}}]},
        "tools[0].function.parameters",
        "invalid_json_schema",
    ),
    ({"functions": [{}]}, "functions[0].name", "missing_required_parameter"),
    ({"function_call": "always"}, "function_call", "invalid_value"),
    ({"tool_choice": "always"}, "tool_choice", "invalid_value"),
    ({"input": "hi"}, "input", "wrong_endpoint"),
    ({"previous_response_id": "resp_1"}, "previous_response_id", "wrong_endpoint"),
    ({"system": "Be brief."}, "system", "wrong_endpoint"),
    ({"stop_sequences": ["a"]}, "stop_sequences", "wrong_endpoint"),
    ({"text": {"format": {"type": "text"}}}, "text", "wrong_endpoint"),
    ({"prompt": {"id": "p"}}, "prompt", "wrong_endpoint"),
    ({"container": "c"}, "container", "wrong_endpoint"),
    ({"stop": ["a", "b", "c", "d", "e"]}, "stop", "array_above_max_length"),
    ({"stop": "a" * 513}, "stop", "string_above_max_length"),
]


@pytest.mark.parametrize(("params_sent", "param", "code"), REFUSED)
def test_rejected_parameters(params_sent: dict[str, Any], param: str, code: str) -> None:
    assert refusal(**params_sent) == (param, code)


REFUSED_MESSAGES: list[tuple[Any, str]] = [
        ([{"role": "user"}], "messages[0].content"),
        ([{"role": "critic", "content": "a"}], "messages[0].role"),
        ([{"role": "user", "content": [{"type": "input_text", "text": "a"}]}], "messages[0].content[0].type"),
        ([{"role": "user", "content": [{"type": "refusal", "refusal": "a"}]}], "messages[0].content[0].type"),
        ([{"role": "system", "content": [{"type": "image_url", "image_url": {"url": "a"}}]}], "messages[0].content[0].type"),
        ([{"role": "assistant", "content": [{"type": "image_url", "image_url": {"url": "a"}}]}], "messages[0].content[0].type"),
        ([{"role": "assistant", "audio": {"id": "a"}}], "messages[0].audio"),
        ([{"role": "assistant", "tool_calls": [{"id": "a"}]}], "messages[0].tool_calls[0].function"),
        ([{"role": "assistant", "tool_calls": [{"id": "a", "type": "custom"}]}], "messages[0].tool_calls[0].custom"),
        ([USER, {"role": "tool", "content": "a"}], "messages[1].tool_call_id"),
        ([USER, {"role": "function", "content": "a"}], "messages[1].name"),
        ([USER, {"role": "function", "name": "f", "content": "a"}], "messages[1].name"),
        ([{"role": "tool", "tool_call_id": "a", "content": [{"type": "input_audio", "input_audio": {}}]}], "messages[0].content[0].type"),
    ]  # fmt: skip


@pytest.mark.parametrize(("messages", "param"), REFUSED_MESSAGES)
def test_rejected_messages(messages: list[Any], param: str) -> None:
    assert refusal(*messages)[0] == param


def test_a_request_for_another_endpoint_is_reported() -> None:
    with pytest.raises(InvalidRequest, match="'input' is a parameter of POST /v1/responses"):
        parse(input="hi")
    with pytest.raises(InvalidRequest, match="'system' is a parameter of POST /v1/messages"):
        parse(system="hi")


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b'{"model":"m","messages":[]}', b'{"model":"m"}', b'"\xff"']
)
def test_invalid_bodies(body: bytes) -> None:
    with pytest.raises(InvalidRequest):
        read_chat(body)
