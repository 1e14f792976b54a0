"""The tree of a run: turns, each with the model's calls."""

from collections.abc import Sequence

from antiphon.orchestrator.events import (
    AgentCancelled,
    AgentCompleted,
    AgentEvent,
    AgentFailed,
    AgentStarted,
    AgentWarned,
    ToolCompleted,
    ToolStarted,
    TurnCompleted,
    TurnStarted,
)
from antiphon.orchestrator.models import AgentExecuteResponse, AgentToolCall, LlmUsage
from antiphon.orchestrator.run_tree import (
    MAX_EXCERPT_CHARS,
    CallNode,
    RunTree,
    TurnNode,
    response_of,
    tree_of,
)

CALLS = (
    AgentToolCall(call_id="c1", name="search", arguments_json='{"q": "ü"}'),
    AgentToolCall(call_id="c2", name="open_editor", arguments_json=None),
)
ANSWER = AgentExecuteResponse(kind="ok", text="Found it.", response_continuation_id="resp_2")


def story() -> list[AgentEvent]:
    """Two turns; the first one calls a server tool and a client tool."""
    handed_over = AgentExecuteResponse(
        kind="tool-only",
        text=None,
        response_continuation_id="resp_1",
        finish_reason="tool_calls",
        usage=LlmUsage(10, 5, 15),
        tool_calls=CALLS,
    )
    return [
        AgentStarted(sequence_number=0, mode="general", model="m", warnings=("early",)),
        TurnStarted(sequence_number=1, turn=1),
        TurnCompleted(sequence_number=2, turn=1, response=handed_over),
        ToolStarted(sequence_number=3, turn=1, call_id="c1", name="search", arguments_json='{"q": "ü"}'),
        ToolCompleted(
            sequence_number=4, turn=1, call_id="c1", name="search", outcome="ok", output="1 hit", elapsed_ms=7
        ),
        AgentWarned(sequence_number=5, message="late"),
        TurnStarted(sequence_number=6, turn=2),
        TurnCompleted(sequence_number=7, turn=2, response=ANSWER),
        AgentCompleted(sequence_number=8, response=ANSWER),
    ]


def test_without_events_the_tree_is_empty_and_in_progress() -> None:
    assert tree_of([]) == RunTree(state="in_progress")
    assert response_of([]) is None


def test_a_run_becomes_its_turns_and_their_calls() -> None:
    assert tree_of(story()) == RunTree(
        state="completed",
        mode="general",
        model="m",
        warnings=("early", "late"),
        turns=(
            TurnNode(
                number=1,
                response_id="resp_1",
                finish_reason="tool_calls",
                usage=LlmUsage(10, 5, 15),
                calls=(
                    CallNode(
                        call_id="c1",
                        name="search",
                        arguments='{"q": "ü"}',
                        started=True,
                        outcome="ok",
                        output="1 hit",
                        elapsed_ms=7,
                    ),
                    CallNode(call_id="c2", name="open_editor", arguments=""),
                ),
            ),
            TurnNode(number=2, text="Found it.", response_id="resp_2"),
        ),
    )
    assert response_of(story()) == ANSWER


def test_a_run_in_progress_shows_its_open_calls() -> None:
    tree = tree_of(story()[:4])
    assert tree.state == "in_progress"
    [turn] = tree.turns
    assert [(call.name, call.started, call.outcome) for call in turn.calls] == [
        ("search", True, None),
        ("open_editor", False, None),
    ]
    assert response_of(story()[:4]) is None
    assert tree_of(story()[:2]).turns == (TurnNode(number=1),)


def test_a_call_with_only_an_outcome_event_is_shown() -> None:
    suppressed = ToolCompleted(
        sequence_number=3, turn=1, call_id="c1", name="search", outcome="suppressed", output="", elapsed_ms=0
    )
    [turn] = tree_of([*story()[:3], suppressed]).turns
    assert (turn.calls[0].outcome, turn.calls[0].started, turn.calls[0].arguments) == (
        "suppressed",
        False,
        '{"q": "ü"}',
    )
    assert tree_of([suppressed]).turns[0].calls[0].name == "search"


def test_a_failure_shows_its_reason_and_a_cancelled_run_has_no_answer() -> None:
    error = AgentExecuteResponse(kind="error", error_code="x", error_message="It broke.")
    failed: Sequence[AgentEvent] = [*story()[:2], AgentFailed(sequence_number=2, response=error)]
    assert (tree_of(failed).state, tree_of(failed).error, response_of(failed)) == (
        "failed",
        "It broke.",
        error,
    )
    cancelled: Sequence[AgentEvent] = [*story()[:2], AgentCancelled(sequence_number=2)]
    assert (tree_of(cancelled).state, response_of(cancelled)) == ("cancelled", None)


def test_long_texts_are_truncated_to_one_line() -> None:
    long = AgentExecuteResponse(kind="ok", text="word\n\n" * 10_000)
    text = tree_of([TurnCompleted(sequence_number=0, turn=1, response=long)]).turns[0].text
    assert text == f"{('word ' * 40)[: MAX_EXCERPT_CHARS - 1]}…"
    output = ToolCompleted(
        sequence_number=1, turn=1, call_id="c", name="n", outcome="ok", output="x" * 10_000, elapsed_ms=0
    )
    assert len(tree_of([output]).turns[0].calls[0].output) == MAX_EXCERPT_CHARS
