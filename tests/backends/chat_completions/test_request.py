"""From a turn to the upstream's body: cases that the golden files do not cover."""

from typing import Any

import pytest
from msgspec.structs import replace

from antiphon.backends.chat_completions.request import Payload, build_payload
from antiphon.backends.registry import ENDPOINTS, Quirks
from antiphon.errors import InvalidRequest, Unsupported
from antiphon.protocol.downgrade import rendered
from antiphon.protocol.items import OPAQUE_ITEMS
from antiphon.protocol.parse_create import create_from
from antiphon.turn.context import build_turn

PLAIN = Quirks()
OPENAI = ENDPOINTS["openai"].quirks
TOOL: dict[str, Any] = {
    "type": "function",
    "name": "look",
    "parameters": {"type": "object", "properties": {}},
}
CALL: dict[str, Any] = {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"}
REASONING: dict[str, Any] = {
    "type": "reasoning",
    "summary": [],
    "content": [{"type": "reasoning_text", "text": "hm"}],
}
OUTPUT: dict[str, Any] = {"type": "function_call_output", "call_id": "c1", "output": "seen"}


def build(quirks: Quirks = PLAIN, **params: Any) -> Payload:
    request = create_from(**{"model": "m", "input": "hi", **params})
    turn = build_turn(request, model="upstream-m")
    payload = build_payload(turn, quirks)
    return replace(payload, downgrades=(*turn.downgrades, *payload.downgrades))


def messages(*items: Any, quirks: Quirks = PLAIN, **params: Any) -> list[dict[str, Any]]:
    return build(quirks, input=list(items), **params).body["messages"]


def user(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"role": "user", "content": list(parts)}


def refused(quirks: Quirks = PLAIN, **params: Any) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as caught:
        build(quirks, **params)
    return caught.value


def test_the_least_request_is_small() -> None:
    assert build() == Payload({"model": "upstream-m", "messages": [{"role": "user", "content": "hi"}]}, ())


@pytest.mark.requirement("PROTOCOL/create-sampling")
def test_sampling_is_passed_on() -> None:
    options: dict[str, Any] = {
        "temperature": 0.0,
        "top_p": 0.5,
        "presence_penalty": 1.0,
        "frequency_penalty": -1.0,
    }
    body = build(**options, max_output_tokens=9).body
    assert {name: body[name] for name in options} == options
    assert body["max_tokens"] == 9
    assert build(OPENAI, max_output_tokens=9).body["max_completion_tokens"] == 9


def test_a_streamed_turn_requests_a_stream_and_others_one_body() -> None:
    assert build(stream=True).body["stream_options"] == {"include_usage": True}
    assert "stream" not in build().body
    assert "stream_options" not in build(ENDPOINTS["mistral"].quirks, stream=True).body


def test_texts_of_a_message_are_one_string() -> None:
    parts = user({"type": "input_text", "text": "a"}, {"type": "text", "text": "b"})
    assert messages(parts) == [{"role": "user", "content": "a\nb"}]


def test_a_user_may_quote_the_model() -> None:
    parts = user({"type": "output_text", "text": "a"}, {"type": "refusal", "refusal": "b"})
    assert messages(parts) == [{"role": "user", "content": "a\nb"}]


@pytest.mark.requirement("PROTOCOL/create-instructions")
def test_instructions_come_first_merged_with_the_following_system_messages() -> None:
    found = messages(
        {"role": "system", "content": "b"},
        {"role": "developer", "content": [{"type": "input_text", "text": "c"}]},
        {"role": "user", "content": "hi"},
        instructions="a",
    )
    assert found == [{"role": "system", "content": "a\n\nb\n\nc"}, {"role": "user", "content": "hi"}]


def test_the_developer_role_is_sent_where_it_is_supported() -> None:
    found = messages({"role": "developer", "content": "b"}, quirks=OPENAI, instructions="a")
    assert [message["role"] for message in found] == ["system", "developer"]


def test_late_system_messages_stay_in_place_where_templates_accept_them() -> None:
    items = ({"role": "user", "content": "hi"}, {"role": "system", "content": "late"})
    assert messages(*items, quirks=OPENAI)[1]["role"] == "system"
    payload = build(input=list(items))
    assert payload.body["messages"][1] == {"role": "user", "content": "late"}
    assert "system messages" in payload.downgrades[0].render()


def test_calls_are_merged_with_the_text_before_and_after_them() -> None:
    found = messages(
        {"role": "assistant", "content": "first"},
        CALL,
        {"role": "assistant", "content": [{"type": "refusal", "refusal": "second"}]},
        {**CALL, "call_id": "c2"},
        {**OUTPUT, "call_id": "c2"},
        OUTPUT,
    )
    assert [message["role"] for message in found] == ["assistant", "tool", "tool"]
    assert found[0]["content"] == "first\nsecond"
    assert [call["id"] for call in found[0]["tool_calls"]] == ["c1", "c2"]


def test_two_answers_are_two_messages() -> None:
    found = messages({"role": "assistant", "content": "a"}, {"role": "assistant", "content": "b"})
    assert [message["content"] for message in found] == ["a", "b"]


def test_an_output_follows_its_call_even_if_items_stood_between() -> None:
    found = messages(
        CALL, {"role": "user", "content": "wait"}, OUTPUT, {"role": "assistant", "content": "ok"}
    )
    assert [message["role"] for message in found] == ["assistant", "tool", "user", "assistant"]


def test_a_call_after_an_output_is_a_separate_message() -> None:
    second = {**CALL, "call_id": "c2"}
    found = messages(CALL, OUTPUT, second, {**OUTPUT, "call_id": "c2"})
    assert [message["role"] for message in found] == ["assistant", "tool", "assistant", "tool"]


def test_a_call_without_an_output_gets_a_placeholder_output() -> None:
    calls = [
        {"type": "function_call", "call_id": name, "name": "f", "arguments": "{}"} for name in ("c1", "c2")
    ]
    answered = {"type": "function_call_output", "call_id": "c2", "output": "two"}
    payload = build(input=[*calls, answered, {"role": "user", "content": "Go on."}])
    _, *outputs, last = payload.body["messages"]
    assert outputs == [
        {"role": "tool", "tool_call_id": "c2", "content": "two"},
        {"role": "tool", "tool_call_id": "c1", "content": "No output was given for this call."},
    ]
    assert last["role"] == "user"
    assert rendered(payload.downgrades) == ["calls without an output are sent with a placeholder"]


def test_an_output_without_its_call_is_rejected() -> None:
    error = refused(input=[{"role": "user", "content": "hi"}, OUTPUT])
    assert (error.param, error.status) == ("input[1]", 400)


def test_reasoning_is_sent_back_only_where_it_is_supported() -> None:
    items = [REASONING, {"role": "assistant", "content": "yes"}]
    with_reasoning = messages(*items, quirks=ENDPOINTS["vllm"].quirks)
    assert with_reasoning == [{"role": "assistant", "content": "yes", "reasoning": "hm"}]
    dropped = build(input=items)
    assert dropped.body["messages"] == [{"role": "assistant", "content": "yes"}]
    assert "reasoning" in dropped.downgrades[0].render()


def test_reasoning_without_an_answer_is_not_attached_to_a_later_answer() -> None:
    items = [REASONING, {"role": "user", "content": "hi"}, {"role": "assistant", "content": "yes"}]
    assert "reasoning" not in messages(*items, quirks=ENDPOINTS["vllm"].quirks)[1]


def test_unopened_sealed_reasoning_is_omitted() -> None:
    sealed: dict[str, Any] = {"type": "reasoning", "summary": [], "encrypted_content": "?"}
    found = messages(sealed, {"role": "assistant", "content": "yes"}, quirks=ENDPOINTS["vllm"].quirks)
    assert found == [{"role": "assistant", "content": "yes"}]


@pytest.mark.parametrize("kind", ["acme:thing", "web_search_call"])
def test_hosted_items_are_omitted_and_reported(kind: str) -> None:
    payload = build(input=[{"type": kind, "id": "x"}, {"role": "user", "content": "hi"}])
    assert len(payload.body["messages"]) == 1
    assert kind in payload.downgrades[0].render()


@pytest.mark.parametrize("kind", sorted(OPAQUE_ITEMS))
def test_items_that_cannot_be_dropped_are_rejected(kind: str) -> None:
    error = refused(input=[{"role": "user", "content": "hi"}, {"type": kind, "id": "x"}])
    assert isinstance(error, Unsupported)
    assert (error.param, kind in error.message) == ("input[1]", True)


@pytest.mark.parametrize(
    "item", [{"type": "compaction", "encrypted_content": "?"}, {"type": "compaction_trigger"}]
)
def test_an_unopened_compaction_is_rejected(item: dict[str, Any]) -> None:
    error = refused(input=[{"role": "user", "content": "hi"}, item])
    assert (error.param, error.code, item["type"] in error.message) == ("input[1]", "unsupported_item", True)


def test_an_unresolved_item_reference_is_rejected() -> None:
    assert refused(input=[{"type": "item_reference", "id": "msg_1"}]).param == "input[0]"


@pytest.mark.parametrize(
    ("quirks", "part", "param"),
    [
        (PLAIN, {"type": "input_image", "file_id": "file_1"}, ".file_id"),
        (PLAIN, {"type": "input_image"}, ".image_url"),
        (PLAIN, {"type": "input_image", "image_url": "http://10.0.0.1/x.png"}, ".image_url"),
        (PLAIN, {"type": "input_image", "image_url": "file:///etc/passwd"}, ".image_url"),
        (replace(PLAIN, images="data"), {"type": "input_image", "image_url": "https://a.b/c"}, ".image_url"),
        (replace(PLAIN, images=None), {"type": "input_image", "image_url": "data:image/png;base64,AA=="}, ""),
        (PLAIN, {"type": "input_file", "file_data": "data:application/pdf;base64,AA=="}, ".file_data"),
        (OPENAI, {"type": "input_file", "file_id": "file_1"}, ".file_id"),
        (OPENAI, {"type": "input_file", "file_url": "https://a.b/c.pdf"}, ".file_url"),
        (OPENAI, {"type": "input_file"}, ".file_data"),
        (PLAIN, {"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}}, ""),
    ],
)
def test_unsupported_content_is_rejected_with_its_path(
    quirks: Quirks, part: dict[str, Any], param: str
) -> None:
    error = refused(quirks, input=[user({"type": "input_text", "text": "look"}, part)])
    assert error.param == f"input[0].content[1]{param}"


def test_files_and_sound_are_sent_where_they_are_taken() -> None:
    pdf = {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,AA=="}
    link = {"type": "input_file", "file_url": "https://a.b/c.pdf"}
    sound = {"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}}
    found = messages(user(pdf, link, sound), quirks=ENDPOINTS["openrouter"].quirks)[0]["content"]
    assert found[0] == {"type": "file", "file": {"filename": "a.pdf", "file_data": pdf["file_data"]}}
    assert found[1]["file"]["file_data"] == "https://a.b/c.pdf"
    assert found[2] == sound


def test_only_users_and_tools_show_images() -> None:
    image = {"type": "input_image", "image_url": "data:image/png;base64,AA=="}
    assert refused(input=[{"role": "system", "content": [image]}]).param == "input[0].content[0]"


def test_an_output_with_only_an_image_gets_a_placeholder_text() -> None:
    image = {"type": "input_image", "image_url": "data:image/png;base64,AA=="}
    found = messages(CALL, {**OUTPUT, "output": [image]})
    assert found[1]["content"] == "See the next user message."
    assert found[2]["content"][1]["type"] == "image_url"


def test_tool_choice_none_sends_no_tools() -> None:
    body = build(tools=[TOOL], tool_choice="none").body
    assert "tools" not in body
    assert "tool_choice" not in body


def test_strict_tools_are_sent_or_reported() -> None:
    strict = {**TOOL, "strict": True}
    assert build(OPENAI, tools=[strict]).body["tools"][0]["function"]["strict"] is True
    plain = build(tools=[strict])
    assert "strict" not in plain.body["tools"][0]["function"]
    assert "strict" in plain.downgrades[0].render()
    assert build(OPENAI, tools=[TOOL]).downgrades == ()


def test_parallel_calls_are_mentioned_only_with_tools() -> None:
    assert build(tools=[TOOL], parallel_tool_calls=False).body["parallel_tool_calls"] is False
    assert "parallel_tool_calls" not in build(parallel_tool_calls=False).body


@pytest.mark.parametrize(
    ("kind", "effort", "sent"),
    [
        ("openai", "xhigh", {"reasoning_effort": "xhigh"}),
        ("plain", "none", {"reasoning_effort": "low"}),
        ("vllm", "minimal", {"reasoning_effort": "low"}),
        ("vllm", "max", {"reasoning_effort": "high"}),
        ("openrouter", "low", {"reasoning": {"effort": "low"}}),
        ("deepseek", "none", {"thinking": {"type": "disabled"}}),
        ("deepseek", "max", {"reasoning_effort": "max"}),
    ],
)
@pytest.mark.requirement("PROTOCOL/create-effort")
def test_effort_is_sent_in_the_endpoints_form(kind: str, effort: str, sent: dict[str, Any]) -> None:
    payload = build(ENDPOINTS[kind].quirks, reasoning={"effort": effort})
    assert sent.items() <= payload.body.items()
    changed = effort not in ENDPOINTS[kind].quirks.efforts
    assert bool(payload.downgrades) == changed


def test_effort_is_omitted_where_it_is_unsupported() -> None:
    payload = build(replace(PLAIN, efforts=()), reasoning={"effort": "high"})
    assert "reasoning_effort" not in payload.body
    assert "reasoning.effort" in payload.downgrades[0].render()


def test_logprobs_are_requested_or_reported_as_omitted() -> None:
    assert build(top_logprobs=3).body["top_logprobs"] == 3
    without_count = build(include=["message.output_text.logprobs"]).body
    assert without_count["logprobs"] is True
    assert "top_logprobs" not in without_count
    assert "logprobs" in build(replace(PLAIN, logprobs=False), top_logprobs=3).downgrades[0].render()


def test_json_is_prompted_where_no_format_is_supported() -> None:
    dumb = replace(PLAIN, json_object=False, json_schema=False)
    payload = build(dumb, text={"format": {"type": "json_object"}})
    assert "response_format" not in payload.body
    assert payload.body["messages"][0] == {"role": "system", "content": "Answer with one JSON object only."}
    assert len(payload.downgrades) == 1


def test_the_description_of_a_schema_is_sent() -> None:
    form = {"type": "json_schema", "name": "n", "schema": {"type": "object"}, "description": "d"}
    sent = build(text={"format": form}).body["response_format"]["json_schema"]
    assert sent == {"name": "n", "schema": {"type": "object"}, "description": "d"}


def test_hints_are_passed_on_or_reported_in_one_note() -> None:
    hints: dict[str, Any] = {
        "user": "u",
        "prompt_cache_key": "k",
        "service_tier": "flex",
        "safety_identifier": "s",
    }
    assert hints.items() <= build(OPENAI, **hints).body.items()
    more: dict[str, Any] = {"prompt_cache_options": {"mode": "explicit"}}
    payload = build(**hints, **more, text={"verbosity": "low"}, reasoning={"mode": "pro"})
    assert not hints.keys() & payload.body.keys()
    assert len(payload.downgrades) == 1
    for name in (*hints, *more, "text.verbosity", "reasoning.mode"):
        assert name in payload.downgrades[0].render()


def test_params_served_by_the_gateway_are_not_sent_and_not_reported() -> None:
    payload = build(OPENAI, store=True, metadata={"a": "b"}, service_tier="auto", truncation="disabled")
    assert payload.body.keys() == {"model", "messages"}
    assert payload.downgrades == ()


@pytest.mark.requirement("PROTOCOL/create-summary-unsent")
@pytest.mark.parametrize("name", ["summary", "generate_summary"])
def test_a_summary_that_cannot_be_asked_for_is_reported(name: str) -> None:
    payload = build(OPENAI, reasoning={name: "auto"})
    assert "reasoning" not in payload.body
    assert [downgrade.render() for downgrade in payload.downgrades] == [
        "not sent to this model's server: reasoning.summary"
    ]
    assert build(OPENAI, reasoning={"effort": "low", "summary": None}).downgrades == ()


def test_verbosity_is_sent_where_it_is_known() -> None:
    assert build(OPENAI, text={"verbosity": "high"}).body["verbosity"] == "high"
    assert build(text={"verbosity": "medium"}).downgrades == ()


def test_a_downgrade_is_noted_once() -> None:
    strict = [{**TOOL, "strict": True}, {**TOOL, "name": "other", "strict": True}]
    assert len(build(tools=strict).downgrades) == 1


def test_a_custom_tool_without_a_grammar_is_just_text() -> None:
    payload = build(tools=[{"type": "custom", "name": "note", "description": "Notes."}])
    assert payload.body["tools"][0]["function"]["description"] == "Notes."
    assert payload.downgrades == ()


def test_prompt_cache_breakpoints_are_reported() -> None:
    part = {"type": "input_text", "text": "a", "prompt_cache_breakpoint": {"mode": "explicit"}}
    assert rendered(build(input=[user(part)]).downgrades) == ["prompt cache breakpoints are not sent"]
