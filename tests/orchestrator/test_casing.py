"""Values of the orchestrator as JSON: written in three cases, read in any."""

from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.errors import InvalidRequest
from antiphon.orchestrator.casing import Case, case_of, cased, event_from_json, from_json, spelled, to_json
from antiphon.orchestrator.events import AgentCompleted, AgentEvent, AgentStarted, ToolCompleted
from antiphon.orchestrator.models import (
    ActiveFile,
    AgentExecuteRequest,
    AgentExecuteResponse,
    AgentToolCall,
    EntityHeader,
    FileBundle,
    FileBundleItem,
    SourceRef,
)

CASES: list[Case] = ["camel", "pascal", "snake"]
REQUEST = AgentExecuteRequest(
    mode="QA",
    instruction="Hi",
    agent_context=EntityHeader("a1", "Agent"),
    active_files=(ActiveFile(relative_path="a.py", sha256_hash="00"),),
    rag_scope_filter={"must_not": [{"some_key": 1, "otherKey": {"A_b": None}}]},
    tool_results=(AgentToolCall(call_id="c1", result_json="{}"),),
)


@pytest.mark.parametrize(
    ("case", "names"),
    [
        ("camel", ["mode", "instruction", "toolResults", "agentContext", "ragScopeFilter", "activeFiles"]),
        ("pascal", ["Mode", "Instruction", "ToolResults", "AgentContext", "RagScopeFilter", "ActiveFiles"]),
        (
            "snake",
            ["mode", "instruction", "tool_results", "agent_context", "rag_scope_filter", "active_files"],
        ),
    ],
)
def test_a_request_is_written_in_each_case_without_its_defaults(case: Case, names: list[str]) -> None:
    written = msgspec.json.decode(to_json(REQUEST, case))
    assert list(written) == names
    file = written[names[5]][0]
    assert list(file) == [cased("relative_path", case), cased("sha256_hash", case)]


def test_opaque_json_keeps_its_names() -> None:
    written = msgspec.json.decode(to_json(REQUEST, "pascal"))
    assert written["RagScopeFilter"] == {"must_not": [{"some_key": 1, "otherKey": {"A_b": None}}]}
    assert from_json(to_json(REQUEST, "pascal"), AgentExecuteRequest) == REQUEST


def test_a_response_is_written_with_null_members() -> None:
    response = AgentExecuteResponse(
        kind="ok",
        tool_calls=(AgentToolCall(call_id="c", name="f"),),
        file_bundle=FileBundle(files=(FileBundleItem(action="delete", path="a"),)),
    )
    written = msgspec.json.decode(to_json(response))
    assert len(written) == 20
    assert written["text"] is None
    assert written["usage"] == {"promptTokens": 0, "completionTokens": 0, "totalTokens": 0}
    assert written["toolCalls"] == [
        {
            "callId": "c", "name": "f", "argumentsJson": None, "isServerTool": False, "wasExecuted": False,
            "resultJson": None, "errorMessage": None,
        }
    ]  # fmt: skip
    assert written["fileBundle"] == {
        "root": ".",
        "files": [{"action": "delete", "path": "a", "contents": None}],
    }


@pytest.mark.parametrize("case", CASES)
def test_events_have_their_type(case: Case) -> None:
    event = AgentStarted(
        sequence_number=0, mode="QA", model="m", sources=(SourceRef(tag="t", file_name="f"),)
    )
    written = msgspec.json.decode(to_json(event, case))
    assert written[cased("type", case)] == "agent.started"
    assert written["sources" if case != "pascal" else "Sources"][0][cased("file_name", case)] == "f"
    assert event_from_json(to_json(event, case)) == event


def test_an_event_with_a_response_is_read_back() -> None:
    event = AgentCompleted(
        sequence_number=4, response=AgentExecuteResponse(kind="tool-only", warnings=("w",))
    )
    assert event_from_json(to_json(event, "pascal").decode()) == event


@pytest.mark.parametrize("document", ["{}", '{"type": 3}', '{"type": "agent.unknown"}'])
def test_an_invalid_event_is_rejected(document: str) -> None:
    with pytest.raises(InvalidRequest, match="not the type"):
        event_from_json(document)


def test_every_event_is_known() -> None:
    for kind in get_args(AgentEvent):
        with pytest.raises(InvalidRequest) as caught:
            event_from_json(f'{{"type": "{kind.__struct_config__.tag}"}}')
        assert caught.value.param == "sequenceNumber"


requests = st.builds(
    AgentExecuteRequest,
    mode=st.none() | st.text(),
    tool_results=st.lists(st.builds(AgentToolCall, call_id=st.text(), name=st.text())).map(tuple),
    agent_context=st.none() | st.builds(EntityHeader, id=st.text()),
    streaming=st.booleans(),
    rag_scope_filter=st.none() | st.dictionaries(st.text(), st.integers()),
    active_files=st.lists(st.builds(ActiveFile, contents=st.text())).map(tuple),
)


@given(value=requests, case=st.sampled_from(CASES))
def test_written_values_are_read_back(value: AgentExecuteRequest, case: Case) -> None:
    assert from_json(to_json(value, case), AgentExecuteRequest) == value


@pytest.mark.parametrize(
    "document",
    [
        '{"toolChoiceName": "f"}', '{"ToolChoiceName": "f"}', '{"tool_choice_name": "f"}', '{"TOOL_CHOICE_NAME": "f"}',
        '{"Tool_ChoiceName": "f", "unknown": {"toolChoiceName": 1}, "Mode": null}',
    ],
)  # fmt: skip
def test_names_are_read_in_any_case(document: str) -> None:
    assert from_json(document, AgentExecuteRequest) == AgentExecuteRequest(tool_choice_name="f")


def test_null_means_absent_at_every_depth() -> None:
    document = '{"activeFiles": [{"contents": null, "FileName": "a"}], "usage": null, "Streaming": null}'
    expected = AgentExecuteRequest(active_files=(ActiveFile(file_name="a"),))
    assert from_json(document, AgentExecuteRequest) == expected


@pytest.mark.parametrize(
    ("document", "param"),
    [
        ('{"Mode": 3}', "Mode"),
        ('{"ActiveFiles": [{}, {"contents": 1}]}', "ActiveFiles[1].contents"),
        ('{"active_files": {"contents": "x"}}', "active_files"),
        ('{"activeFiles": [3]}', "activeFiles[0]"),
        ('{"AgentContext": []}', "AgentContext"),
        ('{"agent_context": {"ID": 3}}', "agent_context.ID"),
        ('{"ToolResults": [{"Name": "f"}]}', "ToolResults[0].CallId"),
        ('{"toolResults": [{}]}', "toolResults[0].callId"),
        ('{"tool_results": [{"result_json": ""}]}', "tool_results[0].call_id"),
        ('{"mode": "a", "Mode": "b"}', "Mode"),
        ('{"activeFiles": [{"fileName": "a", "file_name": "b"}]}', "activeFiles[0].file_name"),
        ('{"ragScopeFilter": []}', "ragScopeFilter"),
        ("[]", None),
    ],
)
def test_an_error_names_the_field_as_it_was_spelled(document: str, param: str | None) -> None:
    with pytest.raises(InvalidRequest) as caught:
        from_json(document, AgentExecuteRequest)
    assert caught.value.param == param
    assert param is None or f"'{param}'" in caught.value.message


@pytest.mark.parametrize("document", ["", "{", b"\xff", "\ud800", "[" * 100_000])
def test_invalid_json_is_rejected(document: Any) -> None:
    with pytest.raises(InvalidRequest, match=r"The document|got `array`"):
        from_json(document, AgentExecuteRequest)


def test_a_path_is_spelled_like_its_neighbours() -> None:
    assert spelled({"Mode": 1}, "tools_json") == "ToolsJson"
    assert spelled({"active_files": []}, "active_files[3].file_name") == "active_files[3].file_name"
    assert spelled({}, "tools_json") == "toolsJson"
    assert [case_of(raw) for raw in ({"a_b": 1}, {"aB": 1}, {"A": 1}, {"": 1}, 3)] == [
        "snake", "camel", "pascal", "camel", "camel",
    ]  # fmt: skip


def test_a_tool_event_has_all_its_members() -> None:
    event = ToolCompleted(
        sequence_number=1, turn=1, call_id="c", name="f", outcome="ok", output="{}", elapsed_ms=3,
        files=(FileBundleItem(action="create", path="p", contents="x"),),
    )  # fmt: skip
    assert msgspec.json.decode(to_json(event))["files"] == [
        {"action": "create", "path": "p", "contents": "x"}
    ]
    assert event_from_json(to_json(event, "snake")) == event
