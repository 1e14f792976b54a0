from typing import Any

import msgspec
import pytest

from antiphon.backends.local.messages import (
    CITING,
    EMULATED,
    GO_ON,
    MOST_ARGUMENT_TOKENS,
    SYSTEM_PROMPT,
    Prompt,
    build_prompt,
)
from antiphon.backends.local.weights import Sampling
from antiphon.errors import Unsupported
from antiphon.protocol.downgrade import rendered
from antiphon.turn.function_forms.file_searches import passages_text
from tests.backends.local.turns import ADD, CALLED, WEATHER, turn

PLAIN = Sampling()
MAX_OUTPUT = 300


def prompt(sampling: Sampling = PLAIN, **params: Any) -> Prompt:
    return build_prompt(turn(**params), sampling, MAX_OUTPUT)


def decoded(body: bytes) -> dict[str, Any]:
    return msgspec.json.decode(body)


def names(prompt: Prompt) -> list[str]:
    return [function["name"] for function in prompt.functions]


def test_without_instructions_the_default_system_prompt_is_sent() -> None:
    assert decoded(prompt(input="Hi").answering(0))["messages"] == [
        {"role": "system", "content": SYSTEM_PROMPT},
        {"role": "user", "content": "Hi"},
    ]


def test_instructions_replace_the_default_system_prompt() -> None:
    messages = decoded(prompt(input="Hi", instructions="Be brief.").answering(0))["messages"]
    assert messages[0] == {"role": "system", "content": "Be brief."}


def test_every_request_streams_with_usage_and_signs_of_life() -> None:
    body = decoded(prompt(input="Hi").answering(0))
    assert (body["stream"], body["stream_options"], body["return_progress"]) == (
        True,
        {"include_usage": True},
        True,
    )


def test_the_callers_sampling_overrides_the_models_defaults() -> None:
    sampling = Sampling(temperature=0.2, top_p=0.9, top_k=20, dry_multiplier=0.8)
    body = decoded(prompt(sampling, input="Hi", temperature=1.5).answering(0))
    assert (body["temperature"], body["top_p"], body["top_k"], body["dry_multiplier"]) == (1.5, 0.9, 20, 0.8)


@pytest.mark.parametrize(
    ("params", "functions", "may_answer"),
    [
        ({}, [], False),
        ({"tools": [WEATHER, ADD]}, ["get_weather", "add"], True),
        ({"tools": [WEATHER, ADD], "tool_choice": "none"}, [], False),
        ({"tools": [WEATHER, ADD], "tool_choice": "required"}, ["get_weather", "add"], False),
        ({"tools": [WEATHER, ADD], "tool_choice": {"type": "function", "name": "add"}}, ["add"], False),
        ({"tools": [WEATHER, ADD], "input": CALLED}, [], False),
        ({"tools": [WEATHER], "input": CALLED, "tool_choice": "required"}, ["get_weather"], False),
    ],
)
def test_the_choice_among_tools(params: dict[str, Any], functions: list[str], may_answer: bool) -> None:
    built = prompt(PLAIN, **{"input": "Hi", **params})
    assert names(built) == functions
    assert bool(built.answer) is may_answer


def test_the_choice_has_the_requests_of_tools_as_examples() -> None:
    asked = turn(input="Hi", tools=[WEATHER])
    tools = [msgspec.structs.replace(tool, requests=("Will it rain?",)) for tool in asked.tools]
    built = build_prompt(msgspec.structs.replace(asked, tools=tuple(tools)), PLAIN, MAX_OUTPUT)
    assert {"role": "user", "content": "Will it rain?"} in decoded(built.choosing())["messages"]


FOUND = passages_text([{"file_id": "file_1", "text": "Sunny."}], 1)
SEARCHED = [*CALLED[:-1], {**CALLED[-1], "output": FOUND}]
AS_JSON = {"format": {"type": "json_schema", "name": "a", "schema": {"type": "object"}}}


@pytest.mark.parametrize(
    ("params", "reminded"),
    [
        ({"input": SEARCHED}, True),
        ({"input": SEARCHED, "tools": [WEATHER]}, True),
        ({"input": SEARCHED, "tools": [WEATHER], "tool_choice": "required"}, False),
        ({"input": SEARCHED, "text": AS_JSON}, False),
        ({"input": CALLED}, False),
        ({"input": [*SEARCHED, *CALLED]}, False),
        ({"input": "Hi"}, False),
    ],
)
def test_passages_are_followed_by_a_reminder_to_cite(params: dict[str, Any], reminded: bool) -> None:
    body = decoded(build_prompt(turn(**params), Sampling(repeat_penalty=1.1), MAX_OUTPUT).answering(0))
    assert (CITING in body["messages"][-1]["content"]) is reminded
    assert (body.get("temperature"), body.get("repeat_penalty")) == ((0, None) if reminded else (None, 1.1))


def test_tools_are_never_in_the_request_itself() -> None:
    built = prompt(input="Hi", tools=[WEATHER, ADD])
    for body in (built.answering(0), built.choosing(), built.calling(built.functions[0])):
        assert not {"tools", "tool_choice", "parallel_tool_calls"} & decoded(body).keys()


def test_emulation_is_reported_and_only_where_there_are_tools() -> None:
    assert prompt(input="Hi").downgrades == ()
    assert prompt(input="Hi", tools=[WEATHER]).downgrades == (EMULATED,)


def test_a_custom_tool_is_a_function_with_one_text() -> None:
    built = prompt(input="Hi", tools=[{"type": "custom", "name": "code"}], tool_choice="required")
    assert built.functions[0]["parameters"]["required"] == ["input"]


def test_arguments_are_bounded_by_the_caller_and_by_ourselves() -> None:
    unbounded = prompt(input="Hi", tools=[WEATHER])
    bounded = prompt(input="Hi", tools=[WEATHER], max_output_tokens=20)
    assert decoded(unbounded.calling(unbounded.functions[0]))["max_tokens"] == MOST_ARGUMENT_TOKENS
    assert decoded(bounded.calling(bounded.functions[0]))["max_tokens"] == 20


def test_arguments_are_not_sampled_at_random_unless_the_caller_wants_it() -> None:
    calm = prompt(Sampling(temperature=0.7), input="Hi", tools=[WEATHER])
    wild = prompt(input="Hi", tools=[WEATHER], temperature=1.2)
    assert decoded(calm.calling(calm.functions[0]))["temperature"] == 0
    assert decoded(wild.calling(wild.functions[0]))["temperature"] == 1.2


def test_the_choice_counts_against_the_bound_of_the_answer() -> None:
    built = prompt(input="Hi", max_output_tokens=20)
    assert [decoded(built.answering(spent))["max_tokens"] for spent in (0, 5, 50)] == [20, 15, 1]


def test_json_is_always_by_schema() -> None:
    body = decoded(prompt(input="JSON, please", text={"format": {"type": "json_object"}}).answering(0))
    assert body["response_format"]["json_schema"]["schema"] == {"type": "object"}


@pytest.mark.parametrize(
    "part",
    [
        {"type": "input_image", "image_url": "data:image/png;base64,AA"},
        {"type": "input_file", "file_data": "data:text/plain;base64,AA"},
        {"type": "input_audio", "input_audio": {"data": "AA", "format": "wav"}},
    ],
)
def test_images_files_and_audio_are_rejected_with_their_path(part: dict[str, Any]) -> None:
    message = {"role": "user", "content": [{"type": "input_text", "text": "What is this?"}, part]}
    with pytest.raises(Unsupported) as caught:
        prompt(input=[message])
    assert (caught.value.param or "").removesuffix(".file_data") == "input[0].content[1]"


def test_after_an_assistant_message_the_model_is_prompted_to_continue() -> None:
    history = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}]
    built = prompt(input=history, tools=[WEATHER])
    assert decoded(built.choosing())["messages"][-1]["role"] == "user"
    assert decoded(built.answering(0))["messages"][-1] == {"role": "user", "content": GO_ON}
    assert "a user message is added after the model's own last message" in rendered(built.downgrades)


def test_an_answer_without_a_limit_has_the_models_own() -> None:
    assert decoded(prompt(input="Hi").answering(0))["max_tokens"] == MAX_OUTPUT
    assert decoded(prompt(input="Hi", max_output_tokens=2000).answering(0))["max_tokens"] == 2000


def test_a_schema_constrains_the_answer() -> None:
    form = {"type": "json_schema", "name": "x", "schema": {"type": "object"}}
    assert prompt(input="Hi", text={"format": form}).constrained
    assert not prompt(input="Hi").constrained
