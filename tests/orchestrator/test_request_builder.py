"""AGN-003: the body of a call, rule by rule."""

import copy
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.orchestrator.models import AgentExecuteRequest, AgentToolCall, ConversationContext
from antiphon.orchestrator.request_builder import build_responses_request
from antiphon.protocol.parse_create import parse_create

CONTEXT = ConversationContext(model_name="gpt-5.1", system="You are Aptix.", temperature=0.7)
TOOL = {"type": "function", "name": "ddr_document", "parameters": {"type": "object"}}
TOOLS = msgspec.json.encode([TOOL]).decode()
RESULTS = '[{"CallId":"call_1","Name":"ddr_document","ResultJson":"{\\"ok\\":true}"}]'
BLANK = [None, "", "  ", "\n\t "]


def initial(**members: Any) -> AgentExecuteRequest:
    usual: dict[str, Any] = {"mode": "DDR_CREATION", "instruction": "Write it."}
    return AgentExecuteRequest(**(usual | members))


def continuation(**members: Any) -> AgentExecuteRequest:
    return initial(**{"response_continuation_id": "resp_1", **members})


def texts(message: dict[str, Any]) -> list[str]:
    assert all(set(item) == {"type", "text"} and item["type"] == "text" for item in message["content"])
    return [item["text"] for item in message["content"]]


@pytest.mark.requirement(
    "AGN-003/2-model-name", "AGN-003/2-system", "AGN-003/2-temperature", "AGN-003/2-mode", "AGN-003/2-instruction",
    "AGN-003/2-tools-json", "AGN-003/2-tool-choice-name", "AGN-003/2-tool-results-json", "AGN-003/2-system-prompt",
    "AGN-003/2-rag-context-block", "AGN-003/2-tool-usage-metadata-block", "AGN-003/2-stream", "AGN-003/3-input",
    "AGN-003/4-layout", "AGN-003/5-layout",
)  # fmt: skip
def test_an_initial_request_with_everything_is_literally_this() -> None:
    request = initial(
        system_prompt="Be brief.",
        tools_json=TOOLS,
        tool_choice_name="ddr_document",
        tool_results_json=RESULTS,
    )
    body = build_responses_request(
        CONTEXT, request, rag_context_block="[CONTEXT]\n\n…", tool_usage_metadata_block="<<<…>>>", stream=True
    )
    results = (
        '[TOOL_RESULTS]\n\n- CallId: call_1\n  Name: ddr_document\n  ResultJson:\n    {"ok":true}'
    )  # fmt: skip
    assert body == {
        "model": "gpt-5.1",
        "temperature": 0.7,
        "stream": True,
        "input": [
            {
                "role": "system",
                "content": [
                    {"type": "text", "text": "You are Aptix."},
                    {"type": "text", "text": "Be brief."},
                    {"type": "text", "text": "<<<…>>>"},
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "[MODE: DDR_CREATION]\n\n[INSTRUCTION]\nWrite it."},
                    {"type": "text", "text": "[CONTEXT]\n\n…"},
                    {"type": "text", "text": results},
                ],
            },
        ],
        "tools": [TOOL],
        "tool_choice": {"type": "tool", "name": "ddr_document"},
    }


@pytest.mark.requirement(
    "AGN-003/2-response-continuation-id", "AGN-003/3-previous-response-id", "AGN-003/4.2-initial-only",
    "AGN-003/4.4-no-system-message", "AGN-003/4.4-previous-response-id", "AGN-003/6.1-continuation",
    "AGN-003/8-continuation", "AGN-003/8-tests-initial-or-continuation",
)  # fmt: skip
def test_a_continuation_with_everything_is_literally_this() -> None:
    request = continuation(system_prompt="Be brief.", tools_json=TOOLS, tool_choice_name="ddr_document")
    body = build_responses_request(
        CONTEXT, request, rag_context_block="[CONTEXT]", tool_usage_metadata_block="<<<…>>>", stream=False
    )
    assert body == {
        "model": "gpt-5.1",
        "temperature": 0.7,
        "stream": False,
        "previous_response_id": "resp_1",
        "input": [
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "[MODE: DDR_CREATION]\n\n[INSTRUCTION]\nWrite it."},
                    {"type": "text", "text": "[CONTEXT]"},
                ],
            }
        ],
        "tool_choice": {"type": "tool", "name": "ddr_document"},
    }


def test_the_least_request_has_a_model_and_two_messages() -> None:
    body = build_responses_request(ConversationContext(), AgentExecuteRequest())
    assert body == {
        "model": "",
        "input": [
            {"role": "system", "content": [{"type": "text", "text": ""}]},
            {"role": "user", "content": [{"type": "text", "text": "[MODE: ]\n\n[INSTRUCTION]\n"}]},
        ],
    }


@pytest.mark.requirement("AGN-003/3-initial", "AGN-003/8-initial-or-continuation")
@pytest.mark.parametrize("blank", BLANK)
def test_a_blank_continuation_id_is_ignored(blank: str | None) -> None:
    body = build_responses_request(CONTEXT, initial(response_continuation_id=blank, tools_json=TOOLS))
    assert "previous_response_id" not in body
    assert [message["role"] for message in body["input"]] == ["system", "user"]
    assert "tools" in body


@pytest.mark.requirement("AGN-003/3-continuation", "AGN-003/8-initial-or-continuation")
def test_a_continuation_id_is_passed_on_as_it_is() -> None:
    body = build_responses_request(CONTEXT, continuation(response_continuation_id=" resp_9 "))
    assert body["previous_response_id"] == " resp_9 "
    assert [message["role"] for message in body["input"]] == ["user"]


@pytest.mark.requirement(
    "AGN-003/3-model", "AGN-003/3-temperature", "AGN-003/3-stream", "AGN-003/7-passed-through",
    "AGN-003/8-model-temperature-stream",
)  # fmt: skip
@pytest.mark.parametrize("make", [initial, continuation])
@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("temperature", [0.0, 1.5])
def test_model_temperature_and_stream_are_the_same_on_both_kinds(
    make: Any, stream: bool, temperature: float
) -> None:
    context = ConversationContext(model_name="m", temperature=temperature)
    body = build_responses_request(context, make(), stream=stream)
    assert (body["model"], body["temperature"], body["stream"]) == ("m", temperature, stream)


@pytest.mark.requirement("AGN-003/7-nothing")
@pytest.mark.parametrize("make", [initial, continuation])
def test_unset_fields_are_absent_and_not_null(make: Any) -> None:
    body = build_responses_request(ConversationContext(model_name="m"), make())
    assert {"temperature", "stream", "tools", "tool_choice"}.isdisjoint(body)


@pytest.mark.requirement(
    "AGN-003/4.1-always-there", "AGN-003/4-one-system-message", "AGN-003/8-one-system-message"
)
@pytest.mark.parametrize("system", ["", " ", "Boot.", None])
def test_the_base_prompt_is_always_there_even_if_it_is_empty(system: Any) -> None:
    body = build_responses_request(ConversationContext(model_name="m", system=system), initial())
    systems = [message for message in body["input"] if message["role"] == "system"]
    assert [texts(message) for message in systems] == [[system or ""]]


@pytest.mark.requirement("AGN-003/4.2-omitted-when-blank", "AGN-003/4.3-omitted-when-blank")
@pytest.mark.parametrize("blank", BLANK)
def test_a_blank_part_of_the_system_message_is_omitted(blank: str | None) -> None:
    body = build_responses_request(CONTEXT, initial(system_prompt=blank), tool_usage_metadata_block=blank)
    assert texts(body["input"][0]) == ["You are Aptix."]


@pytest.mark.requirement(
    "AGN-003/4.2-second", "AGN-003/4.3-last", "AGN-003/8-system-first", "AGN-003/8-system-prompt-second",
    "AGN-003/8-usage-third", "AGN-003/8-tests-system",
)  # fmt: skip
@pytest.mark.parametrize("prompt", ["  Be brief.\n", None])
@pytest.mark.parametrize("usage", ["<<<usage>>>", None])
def test_the_system_message_has_one_to_three_items_in_order(prompt: str | None, usage: str | None) -> None:
    body = build_responses_request(CONTEXT, initial(system_prompt=prompt), tool_usage_metadata_block=usage)
    assert texts(body["input"][0]) == [text for text in ("You are Aptix.", prompt, usage) if text]


@pytest.mark.requirement(
    "AGN-003/5.1-mode", "AGN-003/5.1-instruction", "AGN-003/5.1-raw", "AGN-003/5-one-user-message",
    "AGN-003/8-user-message",
)  # fmt: skip
@pytest.mark.parametrize("make", [initial, continuation])
def test_the_instruction_is_sent_verbatim(make: Any) -> None:
    instruction = "  [MODE: x]\r\nDo\tthis, “please”. \n"
    body = build_responses_request(CONTEXT, make(mode="QA", instruction=instruction))
    users = [message for message in body["input"] if message["role"] == "user"]
    assert [texts(message) for message in users] == [[f"[MODE: QA]\n\n[INSTRUCTION]\n{instruction}"]]


@pytest.mark.requirement("AGN-003/5.1-mode")
def test_a_missing_mode_leaves_its_header_empty() -> None:
    body = build_responses_request(CONTEXT, AgentExecuteRequest(instruction="Hi"))
    assert texts(body["input"][1]) == ["[MODE: ]\n\n[INSTRUCTION]\nHi"]


@pytest.mark.requirement("AGN-003/5.2-second", "AGN-003/8-tests-rag")
@pytest.mark.parametrize("make", [initial, continuation])
def test_a_context_block_comes_between_the_instruction_and_the_tool_results(make: Any) -> None:
    request = make(tool_results_json=RESULTS)
    body = build_responses_request(CONTEXT, request, rag_context_block="[CONTEXT]\n")
    first, second, third = texts(body["input"][-1])
    assert (first[:6], second, third[:14]) == ("[MODE:", "[CONTEXT]\n", "[TOOL_RESULTS]")


@pytest.mark.requirement("AGN-003/5.2-omitted-when-empty", "AGN-003/8-tests-rag")
@pytest.mark.parametrize("blank", BLANK)
def test_a_blank_context_block_is_omitted(blank: str | None) -> None:
    body = build_responses_request(CONTEXT, initial(), rag_context_block=blank)
    assert len(texts(body["input"][1])) == 1


@pytest.mark.requirement(
    "AGN-003/5-results-on-initial", "AGN-003/5.3-appended", "AGN-003/8-tests-tool-results"
)
@pytest.mark.parametrize("make", [initial, continuation])
def test_tool_results_are_one_more_item_on_both_kinds(make: Any) -> None:
    body = build_responses_request(CONTEXT, make(tool_results_json=RESULTS))
    _, block = texts(body["input"][-1])
    assert block.startswith("[TOOL_RESULTS]\n\n- CallId: call_1\n")


@pytest.mark.requirement("AGN-003/5.3-nothing-to-say", "AGN-003/8-tests-tool-results")
@pytest.mark.parametrize("no_results", [*BLANK, "{", "{}", "[]", "7", "[1, null]", "[" * 100_000])
def test_tool_results_without_a_result_add_no_item(no_results: str | None) -> None:
    body = build_responses_request(CONTEXT, continuation(tool_results_json=no_results))
    assert len(texts(body["input"][0])) == 1


def test_typed_tool_results_are_used_without_json_results() -> None:
    typed = (AgentToolCall(call_id="call_2", name="look"),)
    body = build_responses_request(CONTEXT, continuation(tool_results_json=" ", tool_results=typed))
    assert "- CallId: call_2" in texts(body["input"][0])[1]
    body = build_responses_request(CONTEXT, continuation(tool_results_json=RESULTS, tool_results=typed))
    assert "call_2" not in texts(body["input"][0])[1]


@pytest.mark.requirement(
    "AGN-003/3-tools", "AGN-003/6.1-array", "AGN-003/6.1-objects-only", "AGN-003/8-tests-tools"
)
@pytest.mark.parametrize(
    ("tools_json", "tools"),
    [
        (TOOLS, [TOOL]),
        (f" [1, {TOOLS[1:-1]}, null, [], \"x\"] ", [TOOL]),
        ('[{"unknown": {"deep": [1]}}]', [{"unknown": {"deep": [1]}}]),
        ("[1]", []),
    ],
)  # fmt: skip
def test_the_objects_of_the_array_are_the_tools(tools_json: str, tools: list[Any]) -> None:
    assert build_responses_request(CONTEXT, initial(tools_json=tools_json))["tools"] == tools


@pytest.mark.requirement("AGN-003/6.1-malformed", "AGN-003/8-tools", "AGN-003/8-tests-tools")
@pytest.mark.parametrize(
    "malformed", [*BLANK, "[", "[]", "{}", '{"type":"function"}', "null", "“[]”", "[" * 100_000]
)
def test_tools_that_are_no_array_are_omitted(malformed: str | None) -> None:
    assert "tools" not in build_responses_request(CONTEXT, initial(tools_json=malformed))


@pytest.mark.requirement(
    "AGN-003/6.2-choice", "AGN-003/3-tool-choice", "AGN-003/8-tool-choice", "AGN-003/8-tests-tools"
)
@pytest.mark.parametrize("make", [initial, continuation])
def test_a_tool_choice_is_there_when_one_is_supplied_and_only_then(make: Any) -> None:
    body = build_responses_request(CONTEXT, make(tool_choice_name="ddr_document"))
    assert body["tool_choice"] == {"type": "tool", "name": "ddr_document"}
    for blank in BLANK:
        assert "tool_choice" not in build_responses_request(CONTEXT, make(tool_choice_name=blank))


texts_or_none = st.none() | st.text()


@given(
    request=st.builds(
        AgentExecuteRequest, mode=texts_or_none, instruction=texts_or_none, response_continuation_id=texts_or_none,
        tools_json=texts_or_none | st.just(TOOLS), tool_choice_name=texts_or_none, system_prompt=texts_or_none,
        tool_results_json=texts_or_none | st.just(RESULTS),
    ),
    rag=texts_or_none, usage=texts_or_none, stream=st.none() | st.booleans(),
)  # fmt: skip
def test_building_is_deterministic_and_does_not_modify_the_request(
    request: AgentExecuteRequest, rag: str | None, usage: str | None, stream: bool | None
) -> None:
    before = copy.deepcopy(request)
    blocks: dict[str, Any] = {"rag_context_block": rag, "tool_usage_metadata_block": usage, "stream": stream}
    body = build_responses_request(CONTEXT, request, **blocks)
    assert build_responses_request(CONTEXT, request, **blocks) == body
    assert request == before
    assert all(value is not None for value in body.values())
    if "previous_response_id" in body:
        body["previous_response_id"] = "resp_1"  # other servers may have other ids
    parse_create(msgspec.json.encode(body))  # our own server accepts it literally
