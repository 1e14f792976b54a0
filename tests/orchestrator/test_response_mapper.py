"""AGN-004: the mapping of a response, rule by rule."""

from collections import UserDict
from types import MappingProxyType
from typing import Any

import msgspec
import pytest

from antiphon.orchestrator.casing import to_json
from antiphon.orchestrator.models import (
    ConversationContext,
    EntityHeader,
    LlmUsage,
)
from antiphon.orchestrator.response_mapper import map_response
from tests.orchestrator.answers import CALL, CONTEXT, REQUEST, mapped, of, text_part


@pytest.mark.requirement("AGN-004/1-response", "AGN-004/1-tool-call", "AGN-004/1-usage")
def test_the_contract_has_the_members_of_the_document() -> None:
    written = msgspec.json.decode(to_json(of(text_part("Hi"), CALL, usage={"total_tokens": 1}), "pascal"))
    assert list(written) == [
        "Kind", "ConversationId", "TurnId", "AgentContextId", "ConversationContextId", "ResponseContinuationId",
        "Mode", "ModelId", "Text", "FinishReason", "Usage", "Sources", "FileBundle", "Warnings", "ErrorCode",
        "ErrorMessage", "RawResponseJson", "ToolCalls",
        "HostedCalls", "Approvals",  # Antiphon's own
    ]  # fmt: skip
    assert list(written["ToolCalls"][0])[:3] == ["CallId", "Name", "ArgumentsJson"]
    assert written["Usage"] == {"PromptTokens": 0, "CompletionTokens": 0, "TotalTokens": 1}


@pytest.mark.requirement("AGN-004/1-defaults", "AGN-004/2.8-not-mapped")
def test_sources_files_and_warnings_are_empty_lists() -> None:
    response = of(text_part("Hi"), sources=[1], Warnings=["x"], warnings=["x"], fileBundle={"files": []})
    assert (response.sources, response.file_bundle, response.warnings) == ((), None, ())
    assert (response.tool_calls, of().usage) == ((), LlmUsage())


@pytest.mark.requirement(
    "AGN-004/2.1-conversation-id", "AGN-004/2.1-conversation-context-id", "AGN-004/2.1-agent-context-id",
    "AGN-004/2.1-continuation-id", "AGN-004/2.1-turn-id", "AGN-004/2.1-mode", "AGN-004/5-receives",
)  # fmt: skip
def test_ids_and_mode_come_from_request_context_and_response() -> None:
    response = of(text_part("Hi"))
    assert (response.conversation_id, response.mode) == ("conv_1", "QA")
    assert (response.conversation_context_id, response.agent_context_id) == ("ctx_1", "agent_1")
    assert (response.response_continuation_id, response.turn_id) == ("resp_1", "resp_1")


@pytest.mark.requirement("AGN-004/2.1-turn-id")
def test_the_callers_turn_count_is_preserved() -> None:
    counted = msgspec.structs.replace(REQUEST, current_turn_id="turn_7")
    response = mapped({"id": "resp_1", "output": []}, counted)
    assert (response.turn_id, response.response_continuation_id) == ("turn_7", "resp_1")


@pytest.mark.requirement("AGN-004/2.1-conversation-context-id", "AGN-004/2.1-agent-context-id")
def test_the_request_names_the_contexts_if_the_execution_context_does_not() -> None:
    request = msgspec.structs.replace(
        REQUEST, conversation_context=EntityHeader("ctx_2"), agent_context=EntityHeader("agent_2")
    )
    response = map_response({"output": []}, request, ConversationContext())
    assert (response.conversation_context_id, response.agent_context_id) == ("ctx_2", "agent_2")
    response = map_response({"output": []}, request, CONTEXT)
    assert (response.conversation_context_id, response.agent_context_id) == ("ctx_1", "agent_1")


@pytest.mark.requirement("AGN-004/2.2-model", "AGN-004/tests-extraction")
def test_the_model_is_the_one_that_answered() -> None:
    assert of(text_part("Hi")).model_id == "gpt-5.1"
    assert of(text_part("Hi"), model=None).model_id is None


@pytest.mark.requirement(
    "AGN-004/2.3-prompt-tokens", "AGN-004/2.3-completion-tokens", "AGN-004/2.3-total-tokens",
    "AGN-004/2.3-default", "AGN-004/risks-usage", "AGN-004/tests-extraction",
)  # fmt: skip
@pytest.mark.parametrize(
    ("usage", "found"),
    [
        ({"prompt_tokens": 210, "completion_tokens": 310, "total_tokens": 520}, (210, 310, 520)),
        ({"input_tokens": 210, "output_tokens": 310, "total_tokens": 520}, (210, 310, 520)),
        ({"prompt_tokens": 1, "input_tokens": 2, "output_tokens": 3}, (1, 3, 0)),
        ({"prompt_tokens": None, "input_tokens": 2}, (2, 0, 0)),
        ({"prompt_tokens": "9", "completion_tokens": True, "total_tokens": -1}, (0, 0, 0)),
        ({"total_tokens": 2**70}, (0, 0, 0)),
        ({}, (0, 0, 0)),
        (None, (0, 0, 0)),
        ([1], (0, 0, 0)),
    ],
)
def test_usage_has_either_naming_and_missing_parts_are_0(usage: object, found: tuple[int, int, int]) -> None:
    assert of(text_part("Hi"), usage=usage).usage == LlmUsage(*found)


@pytest.mark.requirement("AGN-004/2.4-values")
@pytest.mark.parametrize(
    ("members", "reason"),
    [
        ({}, "stop"),
        ({"status": "completed"}, "stop"),
        ({"status": "completed", "output": [text_part("Hm."), CALL]}, "tool_use"),
        ({"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}, "length"),
        ({"status": "incomplete", "output": [CALL]}, "length"),
        ({"status": "incomplete", "incomplete_details": {"reason": "content_filter"}}, "content_filter"),
        ({"status": "incomplete", "incomplete_details": {"reason": "steered"}}, "steered"),
        ({"status": "failed"}, "error"),
        ({"status": "cancelled"}, "cancelled"),
        ({"status": "in_progress"}, "in_progress"),
    ],
)
def test_a_missing_finish_reason_is_derived(members: dict[str, Any], reason: str) -> None:
    assert mapped({"output": [text_part("Hi")], **members}).finish_reason == reason


@pytest.mark.requirement(
    "AGN-004/2.7-whole", "AGN-004/2.7-unknown-fields", "AGN-004/1-raw-and-structured", "AGN-004/tests-raw"
)
def test_the_raw_json_is_the_received_text() -> None:
    raw = '{ "id": "resp_1",\n "output": [{"type":"tool_call","id":"c","name":"f"}], "später": {"x": [1.0, null]} }'
    assert mapped(raw).raw_response_json == raw
    assert mapped(raw.encode()).raw_response_json == raw
    assert mapped(raw).tool_calls[0].name == "f"
    assert mapped(raw) == mapped(raw.encode())


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_all_bytes_types_are_read_and_a_byte_order_mark_is_skipped(kind: Any, mark: bytes) -> None:
    written = '{"output":[{"type":"output_text","text":"\u00fc"}]}'
    response = mapped(kind(mark + written.encode()))
    assert (response.text, response.raw_response_json) == ("\u00fc", written)
    assert mapped(mark.decode() + written) == response


@pytest.mark.requirement("AGN-004/2.7-whole", "AGN-004/2.7-unknown-fields")
@pytest.mark.parametrize("kind", [dict, MappingProxyType, UserDict])
def test_an_object_is_written_completely_and_not_modified(kind: Any) -> None:
    members = {"id": "resp_1", "output": [text_part("Hi")], "new": {"deep": [1, None]}}
    response = mapped(kind(members))
    assert msgspec.json.decode(response.raw_response_json or "") == members
    assert members == {"id": "resp_1", "output": [text_part("Hi")], "new": {"deep": [1, None]}}
    assert response.text == "Hi"


@pytest.mark.requirement(
    "AGN-004/4-ok", "AGN-004/4-tool-only", "AGN-004/4-empty", "AGN-004/4-error", "AGN-004/tests-kind"
)
@pytest.mark.parametrize(
    ("raw", "kind"),
    [
        ({"output": [text_part("Hi")]}, "ok"),
        ({"output": [text_part("Hi"), CALL]}, "ok"),
        ({"output": [CALL]}, "tool-only"),
        ({"output": [text_part(" "), CALL]}, "tool-only"),
        ({"output": []}, "empty"),
        ({"output": [{"type": "reasoning"}]}, "empty"),
        ({"output": [text_part("Hi")], "status": "incomplete"}, "ok"),
        ({"output": [text_part("Hi")], "error": None}, "ok"),
        ({"output": [text_part("Hi")], "status": "failed"}, "error"),
        ({"output": [], "error": {"code": "x", "message": "y"}}, "error"),
    ],
)
def test_the_kind_matches_the_content(raw: dict[str, Any], kind: str) -> None:
    assert mapped(raw).kind == kind


@pytest.mark.requirement("AGN-004/3-logical-error", "AGN-004/3-logical-error-text")
def test_a_model_that_reports_an_error_has_answered() -> None:
    response = of(text_part("Error: the context is missing."))
    assert (response.kind, response.error_code, response.error_message) == ("ok", None, None)
    assert response.text == "Error: the context is missing."


@pytest.mark.requirement("AGN-004/risks-streaming")
@pytest.mark.parametrize(
    ("event", "kind", "reason"),
    [("completed", "ok", "stop"), ("incomplete", "ok", "length"), ("failed", "error", "error"), ("cancelled", "ok", "cancelled")],
)  # fmt: skip
def test_the_last_event_of_a_stream_is_a_response(event: str, kind: str, reason: str) -> None:
    inner = {"id": "resp_1", "status": event, "output": [text_part("Hi")]}
    raw = msgspec.json.encode({"type": f"response.{event}", "sequence_number": 9, "response": inner}).decode()
    response = mapped(raw)
    assert (response.kind, response.text, response.finish_reason) == (kind, "Hi", reason)
    assert (response.response_continuation_id, response.raw_response_json) == ("resp_1", raw)
