"""The requests sent to codex."""

from typing import Any

import pytest

from antiphon.backends.codex_app_server.request import ThreadOptions, build_request
from antiphon.errors import InvalidRequest, Unsupported
from antiphon.protocol.downgrade import rendered
from antiphon.protocol.parse_create import create_from
from antiphon.turn.context import build_turn
from tests.backends.codex_app_server.child_support import LOOK, answered, request_of, turn_for

DATA = "data:image/png;base64,AAAA"


def test_a_thread_is_new_read_only_and_without_codexs_own_tools() -> None:
    thread = request_of(instructions="Be brief.").thread
    assert thread["ephemeral"] is True
    assert thread["approvalPolicy"] == "never"
    assert thread["sandbox"] == "read-only"
    assert thread["cwd"] == "/work"
    assert thread["developerInstructions"] == "Be brief."
    assert thread["environments"] == []
    assert thread["config"]["web_search"] == "disabled"
    assert thread["config"]["features"]["shell_tool"] is False
    assert "model" not in thread


def test_with_its_own_tools_enabled_codex_is_not_restricted() -> None:
    options = ThreadOptions(folder="/work", sandbox="workspace-write", own_tools=True)
    thread = build_request(turn_for(), options).thread
    assert thread["sandbox"] == "workspace-write"
    assert {"environments", "config", "baseInstructions"}.isdisjoint(thread)
    with_tools = build_request(turn_for(tools=[LOOK]), options).thread
    assert with_tools["config"] == {"features": {"code_mode": {"direct_only_tool_namespaces": ["functions"]}}}


def test_a_model_other_than_codex_is_sent() -> None:
    turn = build_turn(create_from(model="mine", input="hi"), model="gpt-x")
    assert build_request(turn, ThreadOptions(folder="/work")).thread["model"] == "gpt-x"


def test_the_history_preserves_roles_calls_outputs_and_images() -> None:
    history: list[dict[str, Any]] = [
        {"role": "system", "content": "Rule."},
        {
            "role": "user",
            "content": [{"type": "input_text", "text": "see"}, {"type": "input_image", "image_url": DATA}],
        },
        {"role": "assistant", "content": [{"type": "output_text", "text": "I see", "annotations": []}]},
        {"type": "function_call", "call_id": "c1", "name": "look", "arguments": '{"at":1}'},
        {
            "type": "function_call_output",
            "call_id": "c1",
            "output": [{"type": "input_text", "text": "a cat"}],
        },
        {"type": "custom_tool_call", "call_id": "c2", "name": "free", "input": "words"},
        {"type": "custom_tool_call_output", "call_id": "c2", "output": "ok"},
    ]
    assert request_of(input=history).items == [
        {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "Rule."}]},
        {
            "type": "message",
            "role": "user",
            "content": [{"type": "input_text", "text": "see"}, {"type": "input_image", "image_url": DATA}],
        },
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I see"}]},
        {"type": "function_call", "call_id": "c1", "name": "look", "arguments": '{"at":1}'},
        {
            "type": "function_call_output",
            "call_id": "c1",
            "output": [{"type": "input_text", "text": "a cat"}],
        },
        {"type": "function_call", "call_id": "c2", "name": "free", "arguments": '{"input":"words"}'},
        {"type": "function_call_output", "call_id": "c2", "output": "ok"},
    ]


def test_reasoning_in_the_history_is_omitted_and_reported() -> None:
    reasoning = {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "hm"}]}
    request = request_of(input=[{"role": "user", "content": "hi"}, reasoning, reasoning])
    assert len(request.items) == 1
    assert rendered(request.downgrades) == ["reasoning in the input is left out: codex does not take it back"]


@pytest.mark.parametrize(
    ("part", "param"),
    [
        ({"type": "input_file", "file_data": "data:,x"}, "input[0].content[0]"),
        ({"type": "input_image", "file_id": "file_1"}, "input[0].content[0].file_id"),
        ({"type": "input_image", "image_url": "http://inside/x.png"}, "input[0].content[0].image_url"),
        ({"type": "input_image", "image_url": "https://outside/x.png"}, "input[0].content[0].image_url"),
        ({"type": "input_image", "image_url": "file:///etc/passwd"}, "input[0].content[0].image_url"),
    ],
)
def test_unsupported_params_are_rejected_by_name(part: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        request_of(input=[{"role": "user", "content": [part]}])
    assert caught.value.param == param


def test_an_image_in_a_tool_output_must_be_a_data_url_too() -> None:
    history = answered("c1")
    history[-1]["output"] = [{"type": "input_image", "image_url": "https://outside/x.png"}]
    with pytest.raises(InvalidRequest, match="data: URL") as caught:
        request_of(input=history, tools=[LOOK])
    assert caught.value.param == "input[2].output[0].image_url"


@pytest.mark.parametrize(
    ("detail", "sent"), [("low", "auto"), ("auto", "auto"), ("high", "high"), ("original", "original")]
)
def test_a_detail_that_codex_does_not_take_is_sent_as_auto(detail: str, sent: str) -> None:
    image = {"type": "input_image", "image_url": DATA, "detail": detail}
    request = request_of(input=[{"role": "user", "content": [image]}])
    assert request.items[0]["content"] == [{"type": "input_image", "image_url": DATA, "detail": sent}]
    assert ("image detail 'low'" in str(request.downgrades)) == (detail == "low")


@pytest.mark.parametrize("detail", ["low", "high", "auto", None])
def test_the_detail_of_an_image_in_a_tool_output_is_not_sent(detail: str | None) -> None:
    history = answered("c1")
    history[-1]["output"] = [{"type": "input_image", "image_url": DATA, "detail": detail}]
    request = request_of(input=history, tools=[LOOK])
    assert request.items[-1]["output"] == [{"type": "input_image", "image_url": DATA}]
    assert bool(request.downgrades) == (detail not in ("auto", None))


def test_an_output_without_its_call_is_rejected() -> None:
    with pytest.raises(InvalidRequest, match="No tool call found"):
        request_of(input=[{"type": "function_call_output", "call_id": "c1", "output": "x"}])


def test_an_item_that_cannot_be_dropped_is_rejected() -> None:
    item = {"type": "program", "id": "cm_1", "code": "1", "call_id": "c", "fingerprint": "f"}
    with pytest.raises(Unsupported, match="program"):
        request_of(input=[{"role": "user", "content": "hi"}, item])


def test_tools_are_sent_in_codexs_format() -> None:
    free = {"type": "custom", "name": "free", "description": "Free text."}
    request = request_of(tools=[LOOK, free, {"type": "function", "name": "bare", "parameters": None}])
    look, custom, bare = request.thread["dynamicTools"]
    assert look == {
        "type": "function",
        "name": "look",
        "description": "Looks.",
        "inputSchema": LOOK["parameters"],
    }
    assert custom["inputSchema"]["required"] == ["input"]
    assert bare["inputSchema"] == {"type": "object", "properties": {}}
    assert {alias: tool.origin for alias, tool in request.tools.items()} == {
        "look": "look",
        "free": "free",
        "bare": "bare",
    }


def test_tool_choice_none_sends_no_tools() -> None:
    assert "dynamicTools" not in request_of(tools=[LOOK], tool_choice="none").thread


@pytest.mark.parametrize("choice", ["required", {"type": "function", "name": "look"}])
def test_an_unenforceable_tool_choice_is_prompted_and_reported(choice: Any) -> None:
    request = request_of(tools=[LOOK], tool_choice=choice, instructions="Be brief.")
    instructions = request.thread["developerInstructions"]
    assert instructions.startswith("Be brief.\n\nYou must answer by calling one of these tools")
    assert "look" in instructions
    assert rendered(request.downgrades) == [
        "tool_choice is asked for in the prompt: codex does not enforce it"
    ]


def test_effort_summary_and_schema_have_their_own_fields() -> None:
    schema: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": False}
    text = {"format": {"type": "json_schema", "name": "x", "schema": schema, "strict": True}}
    request = request_of(reasoning={"effort": "high", "summary": "concise"}, text=text)
    assert request.turn == {"effort": "high", "summary": "concise", "outputSchema": schema}
    assert request.downgrades == ()


def test_json_without_a_schema_is_prompted() -> None:
    request = request_of(text={"format": {"type": "json_object"}})
    assert request.turn == {}
    assert "JSON object" in request.thread["developerInstructions"]
    assert len(request.downgrades) == 1


def test_params_without_a_codex_field_are_reported_in_one_note() -> None:
    request = request_of(
        max_output_tokens=5,
        temperature=0,
        top_p=0.9,
        presence_penalty=0,
        text={"verbosity": "low"},
        service_tier="flex",
    )
    assert rendered(request.downgrades) == [
        "not sent to codex: max_output_tokens, temperature, top_p, text.verbosity, service_tier"
    ]


def test_outputs_at_the_end_become_answers_to_codex() -> None:
    history = answered("c1", "c2")
    history[-1]["output"] = [{"type": "input_text", "text": "a"}, {"type": "input_image", "image_url": DATA}]
    assert request_of(input=history, tools=[LOOK]).outputs == {
        "c1": {"success": True, "contentItems": [{"type": "inputText", "text": "saw c1"}]},
        "c2": {
            "success": True,
            "contentItems": [{"type": "inputText", "text": "a"}, {"type": "inputImage", "imageUrl": DATA}],
        },
    }


def test_the_fingerprint_distinguishes_requests() -> None:
    one = request_of(tools=[LOOK], input=answered("c1"))
    assert one.fingerprint(1) == request_of(tools=[LOOK]).fingerprint(1)
    for other in (
        request_of(tools=[LOOK], input="ho"),
        request_of(tools=[]),
        request_of(tools=[LOOK], instructions="Be brief."),
        request_of(tools=[LOOK], reasoning={"effort": "low"}),
    ):
        assert one.fingerprint(1) != other.fingerprint(1)


def test_the_continuation_consists_of_text_and_calls_only() -> None:
    question, call, output = answered("c1")
    answer = {"role": "assistant", "content": "words"}
    sent = {"type": "function_call", "call_id": "c1", "name": "look", "arguments": '{ "at" : 1 }'}
    assert request_of(input=[question, answer, call, output]).added_after(1) == ("words", [sent])
    assert request_of(input=[question, call, output]).added_after(1) == ("", [sent])
    assert request_of(input=[question, call, question, output]).added_after(1) is None
    assert request_of(input=[question, call, output, output]).added_after(1) is None


@pytest.mark.parametrize(
    ("arguments", "sent"),
    [
        ('{ "input": "words" }', '{"input":"words"}'),
        ('{"input": "words", "more": 1}', '{"input":"words"}'),
        ("{nonsense", '{"input":"{nonsense"}'),
    ],
)
def test_a_custom_call_is_known_again_by_its_text(arguments: str, sent: str) -> None:
    request = request_of(tools=[{"type": "custom", "name": "free"}])
    assert request.sent_back("c1", "free", arguments)["arguments"] == sent
