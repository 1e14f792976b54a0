"""The state folded from events."""

from typing import Any

import msgspec
import pytest

from antiphon.orchestrator.events import (
    AgentStarted,
    AgentWarned,
    TextDelta,
    ToolCompleted,
    ToolStarted,
    TurnCompleted,
    TurnStarted,
)
from antiphon.orchestrator.models import AgentExecuteResponse, AgentToolCall, FileBundleItem, LlmUsage
from antiphon.orchestrator.run_state import RunState, propose
from antiphon.tools.call_record import CallKey, Outcome


def started(number: int, call_id: str, arguments: str = "{}") -> ToolStarted:
    return ToolStarted(sequence_number=number, turn=1, call_id=call_id, name="t", arguments_json=arguments)


def completed(
    number: int, call_id: str, outcome: Outcome = "ok", output: str = "out", **more: Any
) -> ToolCompleted:
    return ToolCompleted(
        sequence_number=number,
        turn=1,
        call_id=call_id,
        name="t",
        outcome=outcome,
        output=output,
        elapsed_ms=1,
        **more,
    )


def answer(number: int, turn: int, tokens: int = 0) -> TurnCompleted:
    usage = LlmUsage(tokens, tokens, 2 * tokens)
    return TurnCompleted(
        sequence_number=number, turn=turn, response=AgentExecuteResponse(kind="ok", usage=usage)
    )


def test_numbers_go_on_after_the_last_event() -> None:
    assert RunState().next_number == 0
    assert RunState([TurnStarted(sequence_number=7, turn=1)]).next_number == 8


def test_a_requested_turn_is_not_answered() -> None:
    state = RunState(
        [TurnStarted(sequence_number=0, turn=1), TextDelta(sequence_number=1, turn=1, delta="x")]
    )
    assert (state.asked, state.turn, state.answer) == (1, 0, None)


def test_usage_is_added_up() -> None:
    assert RunState([answer(0, 1, 3), answer(1, 2, 4)]).usage == LlmUsage(7, 7, 14)


def test_the_same_call_id_in_the_next_turn_is_another_call() -> None:
    state = RunState([answer(0, 1), started(1, "c"), completed(2, "c")])
    state.apply(answer(3, 2))
    assert set(state.calls) == {CallKey(1, "c")}
    state.apply(msgspec.structs.replace(started(4, "c"), turn=2))
    assert [call.ended is None for call in state.calls.values()] == [False, True]
    assert [call.call_id for call in state.executed] == ["c"]


@pytest.mark.parametrize(
    ("outcome", "output", "expected"),
    [
        ("ok", "out", AgentToolCall(call_id="c", name="t", was_executed=True, result_json="out")),
        ("suppressed", "{}", AgentToolCall(call_id="c", name="t", result_json="{}")),
        ("error", '{"error":"E: m"}', AgentToolCall(call_id="c", name="t", error_message="E: m")),
        ("timeout", '{"error":"late"}', AgentToolCall(call_id="c", name="t", error_message="late")),
        ("interrupted", "odd", AgentToolCall(call_id="c", name="t", error_message="odd")),
    ],
)
def test_the_outcome_of_a_call_is_reported_to_the_client(
    outcome: Outcome, output: str, expected: AgentToolCall
) -> None:
    [call] = RunState([started(0, "c", ""), completed(1, "c", outcome, output)]).executed
    assert call.is_server_tool
    assert (call.was_executed, call.result_json, call.error_message) == (
        expected.was_executed,
        expected.result_json,
        expected.error_message,
    )


def test_a_call_passed_to_the_client_is_no_server_call() -> None:
    state = RunState([started(0, "c"), completed(1, "c", "handed", "")])
    assert state.executed == []
    assert state.calls[CallKey(1, "c")].ended is not None
    assert state.guard.judge("t", "{}") == "new"


def test_answered_calls_count_for_the_repeat_guard() -> None:
    state = RunState([started(0, "a"), completed(1, "a"), started(2, "b")])
    assert state.guard.judge("t", "{}") == "repeated"


def test_the_last_change_of_the_mode_wins() -> None:
    events = [started(0, "a"), completed(1, "a", mode="x"), started(2, "b"), completed(3, "b", mode="y")]
    assert RunState([*events, started(4, "c"), completed(5, "c")]).mode == "y"


def test_warnings_of_the_start_and_of_later_events_are_collected() -> None:
    begin = AgentStarted(sequence_number=0, mode="general", model="m", warnings=("one",))
    assert RunState([begin, AgentWarned(sequence_number=1, message="two")]).warnings == ["one", "two"]


CREATE = FileBundleItem(action="create", path="a", contents="1")
REPLACE = FileBundleItem(action="replace", path="a", contents="2")
DELETE = FileBundleItem(action="delete", path="a")


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ([CREATE], [CREATE]),
        ([CREATE, REPLACE], [FileBundleItem(action="create", path="a", contents="2")]),
        ([CREATE, DELETE], []),
        ([CREATE, DELETE, CREATE], [CREATE]),
        ([REPLACE, DELETE], [DELETE]),
        ([DELETE, CREATE], [FileBundleItem(action="replace", path="a", contents="1")]),
        ([REPLACE, REPLACE], [REPLACE]),
    ],
)
def test_a_later_change_of_a_path_wins(changes: list[FileBundleItem], expected: list[FileBundleItem]) -> None:
    files: dict[str, FileBundleItem] = {}
    for change in changes:
        propose(files, change)
    assert list(files.values()) == expected


def test_without_changes_no_bundle_is_returned() -> None:
    assert RunState().bundle() is None
    state = RunState([started(0, "c"), completed(1, "c", files=(CREATE,))])
    bundle = state.bundle()
    assert bundle is not None
    assert (bundle.root, bundle.files) == (".", (CREATE,))
