"""The request parser of the agent endpoint: every field, well-formed and malformed."""

from base64 import b64encode
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.errors import InvalidRequest
from antiphon.orchestrator.models import (
    ActiveFile,
    AgentExecuteRequest,
    AgentToolCall,
    EntityHeader,
    ImageAttachment,
)
from antiphon.orchestrator.request_parser import (
    MAX_TITLE_CHARS,
    parse_execute_request,
    parse_run_request,
    tool_results_of,
)

PIXEL = b64encode(b"pixel").decode()
RESULT = {"callId": "c1", "name": "look", "resultJson": "{}"}


def parsed(**members: Any) -> AgentExecuteRequest:
    return parse_execute_request(msgspec.json.encode({"instruction": "Go.", **members}))


def refused(**members: Any) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as caught:
        parsed(**members)
    assert caught.value.status == 400
    return caught.value


def test_a_complete_request_is_parsed() -> None:
    request = parse_execute_request(
        msgspec.json.encode(
            {
                "Mode": "QA", "instruction": "Go.", "response_continuation_id": "resp_1", "ToolsJson": '[{"name":"f"}]',
                "toolChoiceName": "f", "toolResultsJson": msgspec.json.encode([RESULT]).decode(), "SystemPrompt": "s",
                "conversationId": "c", "AgentContext": {"Id": "a", "Text": "A"}, "conversation_context": {"id": "b"},
                "previousTurnId": "t0", "currentTurnId": "t1", "workspaceId": "w", "repo": "r", "language": "en",
                "ragScopeFilter": {"must": []}, "activeFiles": [{"Contents": "x", "sha256Hash": "0"}],
                "imageAttachments": [{"id": "i", "mimeType": "image/png", "dataBase64": PIXEL}], "streaming": True,
                "somethingNew": {"x": 1}, "unknown": None,
            }
        )
    )  # fmt: skip
    assert request == AgentExecuteRequest(
        mode="QA", instruction="Go.", response_continuation_id="resp_1", tools_json='[{"name":"f"}]',
        tool_choice_name="f", tool_results_json=msgspec.json.encode([RESULT]).decode(), system_prompt="s",
        conversation_id="c", agent_context=EntityHeader("a", "A"), conversation_context=EntityHeader("b"),
        previous_turn_id="t0", current_turn_id="t1", workspace_id="w", repo="r", language="en",
        rag_scope_filter={"must": []}, active_files=(ActiveFile(contents="x", sha256_hash="0"),),
        image_attachments=(ImageAttachment(id="i", mime_type="image/png", data_base64=PIXEL),), streaming=True,
    )  # fmt: skip


NOT_A_STRING: list[object] = [3, True, {}, ["x"]]


@pytest.mark.parametrize("name", [
    "mode", "instruction", "responseContinuationId", "toolChoiceName", "systemPrompt", "conversationId",
    "previousTurnId", "currentTurnId", "workspaceId", "repo", "language",
])  # fmt: skip
@pytest.mark.parametrize("value", NOT_A_STRING)
def test_a_non_string_text_is_reported(name: str, value: object) -> None:
    assert refused(**{name: value}).param == name


MALFORMED: list[tuple[dict[str, Any], str]] = [
    ({"Streaming": "yes"}, "Streaming"),
    ({"ragScopeFilter": "x"}, "ragScopeFilter"),
    ({"agentContext": "x"}, "agentContext"),
    ({"agentContext": {"Id": 4}}, "agentContext.Id"),
    ({"conversation_context": [1]}, "conversation_context"),
    ({"activeFiles": "x"}, "activeFiles"),
    ({"activeFiles": [{"contents": 5}]}, "activeFiles[0].contents"),
    ({"ActiveFiles": [{}, "x"]}, "ActiveFiles[1]"),
    ({"imageAttachments": 1}, "imageAttachments"),
    ({"ImageAttachments": [{"MimeType": "image/png"}]}, "ImageAttachments[0].DataBase64"),
    ({"imageAttachments": [{"dataBase64": PIXEL}]}, "imageAttachments[0].mimeType"),
    (
        {"imageAttachments": [{"mime_type": "text/html", "data_base64": PIXEL}]},
        "imageAttachments[0].mime_type",
    ),
    (
        {"imageAttachments": [{"mimeType": "image/png;x", "dataBase64": PIXEL}]},
        "imageAttachments[0].mimeType",
    ),
    (
        {"imageAttachments": [{"mimeType": "image/png", "dataBase64": "cGl4\nZWw="}]},
        "imageAttachments[0].dataBase64",
    ),
    (
        {"imageAttachments": [{"mimeType": "image/png", "dataBase64": "é"}]},
        "imageAttachments[0].dataBase64",
    ),
    ({"ToolsJson": 5}, "ToolsJson"),
    ({"ToolsJson": "{"}, "ToolsJson"),
    ({"tools_json": "{}"}, "tools_json"),
    ({"toolsJson": "[1]"}, "toolsJson[0]"),
    ({"toolsJson": '[{"name":"f"},{"type":"function"}]'}, "toolsJson[1].name"),
    ({"toolsJson": [{"name": " "}]}, "toolsJson[0].name"),
    ({"toolsJson": [{"name": 3}]}, "toolsJson[0].name"),
    ({"toolsJson": [{"name": "no blanks"}]}, "toolsJson[0].name"),
    ({"ToolsJson": [{"name": "f", "parameters": 5}]}, "ToolsJson[0].parameters"),
    ({"toolsJson": [{"name": "f", "parameters": {"type": "nonsense"}}]}, "toolsJson[0].parameters"),
    ({"toolsJson": [{"name": "f", "description": 5}]}, "toolsJson[0].description"),
    ({"toolsJson": [{"name": "f", "strict": "yes"}]}, "toolsJson[0].strict"),
    ({"toolsJson": [{"type": "nonsense", "name": "f"}]}, "toolsJson[0].type"),
    ({"toolsJson": [{"type": "function", "function": {"name": "f"}}]}, "toolsJson[0].name"),
    ({"toolsJson": [{"name": "f"}] * 513}, "toolsJson"),
    ({"toolsJson": [{"type": ["x"]}]}, "toolsJson[0].type"),
    ({"toolResultsJson": "nope"}, "toolResultsJson"),
    ({"toolResultsJson": "{}"}, "toolResultsJson"),
    ({"toolResultsJson": "[" * 100_000}, "toolResultsJson"),
    ({"toolResultsJson": {}}, "toolResultsJson"),
    ({"toolResultsJson": "[7]"}, "toolResultsJson[0]"),
    ({"toolResultsJson": '[{"name":"f"}]'}, "toolResultsJson[0].callId"),
    ({"toolResultsJson": '[{"CallId":" ","ResultJson":"1"}]'}, "toolResultsJson[0].CallId"),
    ({"toolResultsJson": '[{"CallId":5}]'}, "toolResultsJson[0].CallId"),
    ({"toolResultsJson": [{"call_id": "c", "result_json": {}}]}, "toolResultsJson[0].result_json"),
    ({"toolResultsJson": [{"call_id": "c"}]}, "toolResultsJson[0].result_json"),
    ({"toolResultsJson": [{"callId": "c", "CallId": "d"}]}, "toolResultsJson[0].CallId"),
    ({"toolResultsJson": [RESULT, RESULT]}, "toolResultsJson[1]"),
    ({"ToolResults": [{"CallId": ""}]}, "ToolResults[0].CallId"),
    ({"toolResults": [{"name": "f"}]}, "toolResults[0].callId"),
    ({"toolResults": [RESULT, RESULT]}, "toolResults[1]"),
    ({"toolResults": [RESULT], "toolResultsJson": [RESULT | {"resultJson": "2"}]}, "toolResults"),
    ({"Instruction": "twice"}, "Instruction"),
    ({"instruction": None}, "instruction"),
    ({"instruction": " \n"}, "instruction"),
    ({"instruction": None, "toolResultsJson": "[]"}, "instruction"),
]


@pytest.mark.parametrize(("members", "param"), MALFORMED)
def test_every_malformed_field_is_reported_in_the_clients_spelling(
    members: dict[str, Any], param: str
) -> None:
    error = refused(**members)
    assert error.param == param
    assert f"'{param}'" in error.message


def test_two_tools_of_one_name_are_rejected() -> None:
    error = refused(tools_json=[{"name": "f"}, {"type": "web_search"}, {"type": "function", "name": "f"}])
    assert (error.param, error.code) == ("tools_json[2].name", "duplicate_tool_name")


def test_other_violations_are_reported_in_the_clients_spelling() -> None:
    def check(request: AgentExecuteRequest) -> None:
        message = f"'tool_choice_name' is {request.tool_choice_name}."
        raise InvalidRequest(message, param="tool_choice_name", code="no")

    for name in ("toolChoiceName", "ToolChoiceName", "tool_choice_name"):
        with pytest.raises(InvalidRequest) as caught:
            parse_execute_request(msgspec.json.encode({"instruction": "Go.", name: "x"}), check)
        error = caught.value
        assert (error.param, error.code, error.message) == (name, "no", f"'{name}' is x.")


def test_the_title_of_a_run_is_not_passed_to_the_agent() -> None:
    run = parse_run_request(msgspec.json.encode({"Instruction": "Go.", "Title": "x" * MAX_TITLE_CHARS}))
    assert (run.title, run.request) == ("x" * MAX_TITLE_CHARS, AgentExecuteRequest(instruction="Go."))
    assert parse_run_request(b'{"instruction": "Go.", "title": null}').title == ""


@pytest.mark.parametrize("title", [5, "x" * (MAX_TITLE_CHARS + 1)])
def test_an_invalid_title_is_reported_in_the_clients_spelling(title: object) -> None:
    for name in ("title", "Title"):
        with pytest.raises(InvalidRequest) as caught:
            parse_run_request(msgspec.json.encode({"instruction": "Go.", name: title}))
        assert caught.value.param == name
        assert f"'{name}'" in caught.value.message


@pytest.mark.parametrize(
    "body", [b"", b" ", b"{", b"[]", b"7", b'"x"', b"\xff{}", b'{"a":"\xff"}', b"[" * 100_000]
)
def test_a_body_that_is_no_object_is_rejected(body: bytes) -> None:
    with pytest.raises(InvalidRequest):
        parse_execute_request(body)


def test_a_body_of_any_depth_is_read_or_rejected() -> None:
    for depth in range(800, 1000):
        with pytest.raises(InvalidRequest):
            parse_execute_request(b'{"instruction": "x", "toolsJson": %s%s}' % (b"[" * depth, b"]" * depth))


def test_a_missing_instruction_is_reported_in_the_clients_case() -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse_execute_request(b'{"Mode": "QA"}')
    assert (caught.value.param, caught.value.code) == ("Instruction", "missing_required_parameter")


def test_tool_results_need_no_instruction() -> None:
    assert parsed(instruction=None, toolResults=[RESULT]).tool_results[0].call_id == "c1"
    assert parsed(instruction="", toolResultsJson=[RESULT]).instruction == ""


def test_an_array_is_accepted_instead_of_its_json_text() -> None:
    request = parsed(
        toolsJson=[{"type": "function", "name": "f"}, {"type": "web_search"}], ToolResultsJson=[RESULT]
    )
    assert request.tools_json == '[{"type":"function","name":"f"},{"type":"web_search"}]'
    assert request.tool_results_json == '[{"callId":"c1","name":"look","resultJson":"{}"}]'


@pytest.mark.parametrize("blank", [None, "", "  "])
def test_blank_json_is_ignored(blank: str | None) -> None:
    assert tool_results_of(parsed(toolsJson=blank, toolResultsJson=blank)) == ()


def test_results_in_both_spellings_are_one_list() -> None:
    other = AgentToolCall(call_id="c2", error_message="gone")
    first = AgentToolCall(call_id="c1", name="look", result_json="{}")
    request = AgentExecuteRequest(
        tool_results_json='[{"CallId":"c1","Name":"look","ResultJson":"{}"}]', tool_results=(other, first)
    )
    assert tool_results_of(request) == (first, other)


@pytest.mark.parametrize(
    ("request_", "param"),
    [
        (AgentExecuteRequest(tool_results_json="{"), "tool_results_json"),
        (AgentExecuteRequest(tool_results=(AgentToolCall(call_id="c"),)), "tool_results[0].result_json"),
        (
            AgentExecuteRequest(tool_results=(AgentToolCall(call_id="c", result_json=""),) * 2),
            "tool_results[1]",
        ),
    ],
)
def test_results_of_a_request_built_in_python_are_checked_too(
    request_: AgentExecuteRequest, param: str
) -> None:
    with pytest.raises(InvalidRequest) as caught:
        tool_results_of(request_)
    assert caught.value.param == param


def test_long_lists_and_long_texts_are_no_problem() -> None:
    results = [{"callId": f"c{number}", "resultJson": "{}"} for number in range(10_000)]
    request = parsed(
        instruction="x" * 10_000_000, activeFiles=[{"contents": "y"}] * 10_000, toolResultsJson=results,
        toolResults=results,
    )  # fmt: skip
    assert len(request.instruction or "") == 10_000_000
    assert len(request.active_files) == len(tool_results_of(request)) == 10_000


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)
names = st.sampled_from([
    "mode", "Instruction", "toolsJson", "ToolResultsJson", "tool_results", "activeFiles", "imageAttachments",
    "agentContext", "ragScopeFilter", "streaming",
])  # fmt: skip


@given(st.dictionaries(names, json_values) | json_values)
def test_a_request_is_parsed_or_rejected(value: object) -> None:
    try:
        request = parse_execute_request(msgspec.json.encode(value))
    except InvalidRequest as error:
        assert error.message
    else:
        tool_results_of(request)
