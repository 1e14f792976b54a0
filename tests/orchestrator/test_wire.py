"""From the seeds' spelling to the protocol's spelling."""

import copy
from typing import Any

import pytest

from antiphon.orchestrator.blocks import build_tool_results_block
from antiphon.orchestrator.models import AgentExecuteRequest, AgentToolCall, ConversationContext
from antiphon.orchestrator.request_builder import build_responses_request
from antiphon.orchestrator.wire import SentTools, answer_calls, to_strict
from antiphon.protocol.parse_create import create_from
from antiphon.protocol.tools import FunctionTool

CALL = AgentToolCall(call_id="call_1", name="look", was_executed=True, result_json='{"found": 3}')
TOOL = {"type": "function", "name": "look", "description": "Looks.", "parameters": {"type": "object"}}
CONTEXT = ConversationContext(model_name="m", system="Be brief.")


def text(value: str, kind: str = "text") -> dict[str, Any]:
    return {"type": kind, "text": value}


def continuation(instruction: str, *calls: AgentToolCall, rag: str | None = None) -> dict[str, Any]:
    """The builder's body for a continuation with these results."""
    request = AgentExecuteRequest(
        mode="general", instruction=instruction, response_continuation_id="resp_1", tool_results=calls
    )
    return build_responses_request(CONTEXT, request, rag_context_block=rag)


def outputs_of(body: dict[str, Any]) -> list[str]:
    return [item["output"] for item in body["input"] if item.get("type") == "function_call_output"]


def messages_of(body: dict[str, Any]) -> list[dict[str, Any]]:
    return [item for item in body["input"] if "role" in item]


@pytest.mark.parametrize(
    ("role", "kind"),
    [
        ("system", "input_text"),
        ("user", "input_text"),
        ("developer", "input_text"),
        ("assistant", "output_text"),
    ],
)
def test_text_gets_the_type_of_its_role(role: str, kind: str) -> None:
    body = {"model": "m", "input": [{"role": role, "content": [text("a"), text("b")]}]}
    assert to_strict(body)["input"] == [{"role": role, "content": [text("a", kind), text("b", kind)]}]


def test_text_in_the_output_of_a_tool_is_input() -> None:
    item = {"type": "function_call_output", "call_id": "c", "output": [text("seen")]}
    assert to_strict({"input": [item]})["input"] == [{**item, "output": [text("seen", "input_text")]}]


@pytest.mark.parametrize(
    "body",
    [
        {"model": "m", "input": "hi"},
        {"model": "m", "input": [{"role": "user", "content": "hi"}, {"type": "item_reference", "id": "x"}]},
        {
            "input": [
                {
                    "role": "user",
                    "content": [text("a", "input_text"), {"type": "input_image", "image_url": "u"}],
                }
            ]
        },
        {"tools": [TOOL, {"type": "web_search"}], "tool_choice": {"type": "function", "name": "look"}},
        {"tool_choice": "auto", "temperature": 0.2, "unknown": [1]},
        {"input": ["no item", {"role": "user", "content": ["no part"]}], "tools": ["no tool"]},
    ],
)
def test_a_strict_body_is_unchanged(body: dict[str, Any]) -> None:
    assert to_strict(body) == body


def test_a_named_tool_is_a_function() -> None:
    choice = to_strict({"tool_choice": {"type": "tool", "name": "look"}})["tool_choice"]
    assert choice == {"type": "function", "name": "look"}


@pytest.mark.parametrize(
    "tool",
    [
        {"name": "look", "description": "Looks.", "parameters": {"type": "object"}},
        {
            "type": "function",
            "function": {"name": "look", "description": "Looks.", "parameters": {"type": "object"}},
        },
        {"function": {"name": "look", "description": "Looks.", "parameters": {"type": "object"}}},
    ],
)
def test_every_spelling_of_a_function_becomes_flat(tool: dict[str, Any]) -> None:
    assert to_strict({"tools": [tool]})["tools"] == [TOOL]


def test_the_body_is_not_modified() -> None:
    body = continuation("", CALL)
    body |= {"tools": [{"function": {"name": "look"}}], "tool_choice": {"type": "tool", "name": "look"}}
    before = copy.deepcopy(body)
    to_strict(body)
    answer_calls(body, [CALL])
    assert body == before


def test_a_body_of_the_builder_is_accepted_by_the_strict_parser() -> None:
    request = AgentExecuteRequest(
        mode="QA", instruction="Why?", tools_json='[{"name": "look", "parameters": {"type": "object"}}]', tool_choice_name="look"
    )  # fmt: skip
    parsed = create_from(**to_strict(build_responses_request(CONTEXT, request)))
    assert [tool.name for tool in parsed.tools if isinstance(tool, FunctionTool)] == ["look"]


def test_results_become_leading_items_and_are_not_repeated() -> None:
    other = AgentToolCall(call_id="call_2", name="look", was_executed=True, result_json="[]")
    body = answer_calls(continuation("Go on.", CALL, other), [CALL, other])
    assert body["input"] == [
        {"type": "function_call_output", "call_id": "call_1", "output": '{"found": 3}'},
        {"type": "function_call_output", "call_id": "call_2", "output": "[]"},
        {"role": "user", "content": [text("[MODE: general]\n\n[INSTRUCTION]\nGo on.")]},
    ]
    assert body["previous_response_id"] == "resp_1"


@pytest.mark.parametrize("instruction", ["", "  \n"])
def test_a_user_message_without_text_is_omitted(instruction: str) -> None:
    assert messages_of(answer_calls(continuation(instruction, CALL), [CALL])) == []


@pytest.mark.parametrize(
    ("instruction", "rag"),
    [("", "[CONTEXT]\n\nsomething"), ("Go on.", None), ("a]\n\n[INSTRUCTION]\n", None), ("[MODE: x]", None)],
)
def test_a_user_message_with_content_is_sent(instruction: str, rag: str | None) -> None:
    messages = messages_of(answer_calls(continuation(instruction, CALL, rag=rag), [CALL]))
    texts = [part["text"] for part in messages[0]["content"]]
    assert texts == [f"[MODE: general]\n\n[INSTRUCTION]\n{instruction}", *([rag] if rag else [])]


def test_the_block_of_other_results_is_preserved() -> None:
    other = AgentToolCall(call_id="call_2", name="look", result_json="7", was_executed=True)
    messages = messages_of(answer_calls(continuation("", CALL), [other]))
    assert messages[0]["content"][-1] == text(build_tool_results_block([CALL]))


@pytest.mark.parametrize(
    ("members", "output"),
    [
        ({"result_json": "42", "was_executed": True}, "42"),
        ({"result_json": "no JSON", "was_executed": True}, "no JSON"),
        ({"result_json": "42"}, "42"),
        ({"result_json": "", "was_executed": True}, ""),
        ({"was_executed": True}, ""),
        ({"error_message": 'the "disk" is full'}, '{"error":"the \\"disk\\" is full"}'),
        ({"error_message": "full", "result_json": "null", "was_executed": True}, '{"error":"full"}'),
        ({"error_message": "full", "result_json": '{"error":"Full: full"}'}, '{"error":"Full: full"}'),
        ({"error_message": "  "}, '{"error":"This call was not executed."}'),
        ({}, '{"error":"This call was not executed."}'),
    ],
)  # fmt: skip
def test_an_output_reports_the_outcome_of_the_call(members: dict[str, Any], output: str) -> None:
    call = AgentToolCall(call_id="c", name="look", **members)
    assert outputs_of(answer_calls({"input": []}, [call])) == [output]


def test_a_string_as_input_is_one_message() -> None:
    body = answer_calls({"input": "Go on."}, [CALL])
    assert messages_of(body) == [{"role": "user", "content": "Go on."}]
    assert len(body["input"]) == 2
    assert len(answer_calls({"previous_response_id": "r"}, [CALL])["input"]) == 1


def test_without_results_the_body_is_unchanged() -> None:
    body = continuation("")
    assert answer_calls(body, []) == body


def test_missing_tools_are_filled_in() -> None:
    sent = SentTools()
    sent.remember("resp_1", {"tools": [TOOL]})
    assert sent.fill_in({"previous_response_id": "resp_1"})["tools"] == [TOOL]
    others: list[dict[str, Any]] = [
        {"previous_response_id": "resp_1", "tools": []},
        {"previous_response_id": "resp_2"},
        {"input": "hi"},
    ]
    assert [sent.fill_in(body) for body in others] == others


def test_only_the_tools_of_the_last_responses_are_remembered() -> None:
    sent = SentTools(limit=2)
    for number in range(3):
        sent.remember(f"resp_{number}", {"tools": [TOOL]})
        sent.remember(f"bare_{number}", {"tools": []})
    filled = ["tools" in sent.fill_in({"previous_response_id": f"resp_{number}"}) for number in range(3)]
    assert filled == [False, True, True]
