"""The constraint check: held chunks, emitted chunks, and violations."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.errors import BackendBroken
from antiphon.protocol.parse_create import create_from
from antiphon.protocol.response import InputTokensDetails, OutputTokensDetails, Usage
from antiphon.protocol.tool_items import WebSearchCall
from antiphon.turn.chunks import (
    CallDelta,
    CallFinished,
    CallStarted,
    Chunk,
    Failed,
    Finished,
    HostedItemDone,
    ItemBegun,
    ReasoningDelta,
    RefusalDelta,
    TextDelta,
    UsageReported,
)
from antiphon.turn.constraint_check import ConstraintCheck, constraint_check
from antiphon.turn.constraints import Violation
from antiphon.turn.context import TurnRequest, build_turn
from tests.turn.check_steps import run_here

FUNCTION: dict[str, Any] = {
    "type": "function",
    "name": "look",
    "parameters": {"type": "object", "properties": {}},
}
OTHER = {**FUNCTION, "name": "other"}
PATCH = {
    "type": "custom",
    "name": "patch",
    "format": {"type": "grammar", "syntax": "regex", "definition": "[a-z]+"},
}
SCHEMA: dict[str, Any] = {
    "type": "json_schema",
    "name": "answer",
    "schema": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
}
USAGE = UsageReported(Usage(3, InputTokensDetails(), 2, OutputTokensDetails(), 5))


def turn_for(**body: Any) -> TurnRequest:
    return build_turn(create_from(model="m", input="x", **body), model="m")


def run(check: ConstraintCheck | None, *chunks: Chunk) -> tuple[list[Chunk], Violation | None]:
    assert check is not None
    emitted: list[Chunk] = []
    for chunk in chunks:
        emitted += check.feed([chunk])
    ending = run_here(check.end())
    return [*emitted, *ending.passed], ending.violation


def required(**body: Any) -> ConstraintCheck | None:
    return constraint_check(turn_for(tools=[FUNCTION], tool_choice="required", **body), frozenset())


def structured(*, enforced: bool) -> ConstraintCheck | None:
    return constraint_check(
        turn_for(text={"format": SCHEMA}), frozenset() if enforced else frozenset({"format"})
    )


def grammar() -> ConstraintCheck | None:
    return constraint_check(turn_for(tools=[PATCH, FUNCTION]), frozenset({"grammar"}))


def test_without_constraints_there_is_no_check() -> None:
    assert constraint_check(turn_for(tools=[FUNCTION]), frozenset()) is None


def test_a_required_call_is_emitted_at_once() -> None:
    check = required()
    assert check is not None
    assert check.feed([TextDelta("I look"), CallStarted(0, "c", "look")]) == [
        TextDelta("I look"),
        CallStarted(0, "c", "look"),
    ]
    assert check.feed([CallDelta(0, "{}")]) == [CallDelta(0, "{}")]


def test_text_instead_of_a_required_call_is_not_emitted() -> None:
    emitted, found_violation = run(
        required(), TextDelta("no, "), TextDelta("thanks"), USAGE, Finished("stop")
    )
    assert emitted == []
    assert found_violation == Violation("tool_choice", "no tool was called", "no, thanks")


def test_usage_of_a_rejected_answer_is_reported() -> None:
    check = required()
    assert check is not None
    check.feed([TextDelta("no"), Finished("stop"), USAGE])
    assert run_here(check.end()).usage == USAGE.usage


def test_reasoning_is_never_held_back() -> None:
    check = required()
    assert check is not None
    assert check.feed([ReasoningDelta("hm")]) == [ReasoningDelta("hm")]


@pytest.mark.parametrize("reason", ["length", "content_filter"])
def test_a_truncated_answer_is_not_checked(reason: Any) -> None:
    emitted, found_violation = run(required(), TextDelta("no"), USAGE, Finished(reason))
    assert (emitted, found_violation) == ([TextDelta("no"), USAGE, Finished(reason)], None)


def test_a_refusal_is_emitted_under_any_constraint() -> None:
    emitted, found_violation = run(required(), RefusalDelta("never"), Finished("stop"))
    assert (emitted, found_violation) == ([RefusalDelta("never"), Finished("stop")], None)


def test_a_failed_answer_is_emitted_as_far_as_received() -> None:
    failed = Failed(BackendBroken("gone"))
    emitted, found_violation = run(required(), TextDelta("no"), failed)
    assert (emitted, found_violation) == ([TextDelta("no"), failed], None)


def test_an_excluded_call_is_a_violation() -> None:
    choice = {"type": "function", "name": "look"}
    check = constraint_check(turn_for(tools=[FUNCTION, OTHER], tool_choice=choice), frozenset())
    emitted, found_violation = run(
        check, CallStarted(0, "c", "other"), CallDelta(0, "{}"), Finished("tool_calls")
    )
    assert emitted == []
    assert found_violation is not None
    assert (found_violation.constraint, "'other'" in found_violation.reason) == ("tool_choice", True)


def test_valid_json_is_emitted_unchanged() -> None:
    chunks: list[Chunk] = [TextDelta('{"n": '), TextDelta("1}"), USAGE, Finished("stop")]
    assert run(structured(enforced=False), *chunks) == (chunks, None)


def test_fences_and_text_around_json_are_removed() -> None:
    emitted, found_violation = run(
        structured(enforced=False), TextDelta('Sure:\n```json\n{"n": 1}\n```'), Finished("stop")
    )
    assert (emitted, found_violation) == ([TextDelta('{"n": 1}'), Finished("stop")], None)


@pytest.mark.requirement("PROTOCOL/create-format-emulated")
@pytest.mark.parametrize("text", ["", "one", '{"n": "one"}', '{"n": 1', "[1]"])
def test_invalid_json_is_not_emitted(text: str) -> None:
    emitted, found_violation = run(structured(enforced=False), TextDelta(text), Finished("stop"))
    assert emitted == []
    assert found_violation is not None
    assert (found_violation.constraint, found_violation.text, bool(found_violation.reason)) == (
        "format",
        text,
        True,
    )


def test_text_before_a_call_is_not_checked_as_an_answer() -> None:
    check = constraint_check(turn_for(tools=[FUNCTION], text={"format": SCHEMA}), frozenset({"format"}))
    emitted, found_violation = run(
        check, TextDelta("I look"), CallStarted(0, "c", "look"), Finished("tool_calls")
    )
    assert (emitted[0], found_violation) == (TextDelta("I look"), None)


def test_where_the_server_enforces_json_it_streams() -> None:
    check = structured(enforced=True)
    assert check is not None
    assert check.feed([TextDelta("\n")]) == []
    assert check.feed([TextDelta('{"n"')]) == [TextDelta("\n"), TextDelta('{"n"')]
    assert check.feed([TextDelta(": 1}")]) == [TextDelta(": 1}")]


@pytest.mark.requirement("PROTOCOL/create-format-emulated")
def test_a_server_that_ignores_the_format_is_found_out() -> None:
    emitted, found_violation = run(structured(enforced=True), TextDelta("One, I think."), Finished("stop"))
    assert emitted == []
    assert found_violation is not None
    assert found_violation.constraint == "format"


@pytest.mark.requirement("PROTOCOL/tools-grammar-lark")
def test_input_that_matches_its_grammar_is_emitted() -> None:
    chunks: list[Chunk] = [
        CallStarted(0, "c", "patch"),
        CallDelta(0, '{"input": "abc"}'),
        Finished("tool_calls"),
    ]
    assert run(grammar(), *chunks) == (chunks, None)


@pytest.mark.requirement("PROTOCOL/tools-custom-repaired")
def test_input_that_violates_its_grammar_is_not_emitted() -> None:
    call = [CallStarted(0, "c", "patch"), CallDelta(0, '{"input": '), CallDelta(0, '"A1"}')]
    emitted, found_violation = run(grammar(), *call, Finished("tool_calls"))
    assert emitted == []
    assert found_violation is not None
    assert (found_violation.constraint, found_violation.alone, found_violation.calls[0].arguments) == (
        "grammar",
        True,
        '{"input": "A1"}',
    )
    emitted, found_violation = run(grammar(), TextDelta("Patching."), *call, Finished("tool_calls"))
    assert emitted == [TextDelta("Patching.")]
    assert found_violation is not None
    assert not found_violation.alone


def test_a_violation_with_valid_calls_is_not_alone() -> None:
    calls = [
        CallStarted(0, "c", "look"),
        CallDelta(0, "{}"),
        CallStarted(1, "d", "patch"),
        CallDelta(1, '{"input": "1"}'),
    ]
    emitted, found_violation = run(grammar(), *calls, Finished("tool_calls"))
    assert emitted == calls[:2]
    assert found_violation is not None
    assert not found_violation.alone


def test_valid_chunks_are_emitted_completely_and_in_order() -> None:
    chunks = [
        CallStarted(1, "d", "patch"),
        CallDelta(1, '{"input": "a"}'),
        CallStarted(0, "c", "look"),
        CallDelta(0, "{}"),
        Finished("tool_calls"),
    ]
    assert run(grammar(), *chunks) == (chunks, None)


def test_of_several_calls_only_the_invalid_ones_are_not_emitted() -> None:
    good: list[Chunk] = [CallStarted(0, "c", "patch"), CallDelta(0, '{"input": "good"}')]
    bad: list[Chunk] = [CallStarted(1, "d", "patch"), CallDelta(1, '{"input": "B1"}')]
    look: list[Chunk] = [CallStarted(2, "e", "look"), CallDelta(2, "{}")]
    check = grammar()
    assert check is not None
    assert check.feed([*good, *bad, *look, USAGE, Finished("tool_calls")]) == []
    ending = run_here(check.end())
    assert ending.passed == [*good, *look]
    assert ending.withheld == [*bad, USAGE, Finished("tool_calls")]
    assert ending.violation is not None
    assert [call.call_id for call in ending.violation.calls] == ["d"]


SEARCHED = HostedItemDone(WebSearchCall(id="ws_1", status="completed"))


def test_a_tool_that_the_server_ran_is_a_tool_that_was_called() -> None:
    emitted, found_violation = run(required(), SEARCHED, TextDelta("Found."), Finished("stop"))
    assert (emitted, found_violation) == ([SEARCHED, TextDelta("Found."), Finished("stop")], None)


def test_an_answer_after_a_hosted_tool_is_checked() -> None:
    emitted, found_violation = run(structured(enforced=False), SEARCHED, TextDelta("One."), Finished("stop"))
    assert emitted == [SEARCHED]
    assert found_violation is not None


@pytest.mark.parametrize("enforced", [True, False])
def test_an_aside_is_not_the_answer(enforced: bool) -> None:
    aside: list[Chunk] = [ItemBegun("commentary"), TextDelta("I count.")]
    answer: list[Chunk] = [ItemBegun("final_answer"), TextDelta('{"n": 1}')]
    chunks = [*aside, *answer, Finished("stop")]
    assert run(structured(enforced=enforced), *chunks) == (chunks, None)
    emitted, found_violation = run(
        structured(enforced=enforced), *aside, ItemBegun("final_answer"), TextDelta("One."), Finished("stop")
    )
    assert emitted == aside
    assert found_violation is not None
    assert found_violation.text == "One."


def test_of_several_messages_the_last_is_the_answer() -> None:
    chunks: list[Chunk] = [TextDelta("Let me see."), ItemBegun(), TextDelta('{"n": 1}'), Finished("stop")]
    assert run(structured(enforced=False), *chunks) == (chunks, None)


def test_a_call_of_an_unknown_tool_is_a_violation() -> None:
    unknown_call: list[Chunk] = [CallStarted(0, "c", "nonsense"), CallDelta(0, "{}")]
    emitted, found_violation = run(required(), *unknown_call, Finished("tool_calls"))
    assert emitted == []
    assert found_violation is not None
    assert found_violation.reason == "the tool 'nonsense' must not be called now"


@pytest.mark.requirement("PROTOCOL/tools-choice-holds")
@pytest.mark.parametrize(
    "choice",
    ["none", {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "look"}]}],
)
def test_a_call_excluded_by_the_choice_is_a_violation_or_omitted_with_a_note(choice: Any) -> None:
    turn = turn_for(tools=[FUNCTION, OTHER], tool_choice=choice)
    wrong: list[Chunk] = [CallStarted(0, "c", "other"), CallDelta(0, "{}"), CallFinished(0)]
    emitted, found_violation = run(constraint_check(turn, frozenset()), *wrong, Finished("tool_calls"))
    assert emitted == []
    assert found_violation is not None
    assert found_violation.constraint == "tool_choice"
    check = constraint_check(turn, frozenset())
    assert check is not None
    assert check.feed([TextDelta("Well."), *wrong, Finished("stop")]) == [TextDelta("Well.")]
    ending = run_here(check.end())
    assert (ending.passed, ending.violation) == ([Finished("stop")], None)
    assert "'other' was left out" in ending.downgrades[0].render()


def test_a_server_that_enforces_json_incorrectly_is_reported() -> None:
    check = structured(enforced=True)
    assert check is not None
    assert check.feed([TextDelta('{"wrong"'), TextDelta(": true}")]) != []
    check.feed([Finished("stop")])
    ending = run_here(check.end())
    assert ending.violation is None
    assert "did not hold it to the format" in ending.downgrades[0].render()


def test_usage_is_emitted_before_a_failure() -> None:
    failed = Failed(BackendBroken("gone"))
    emitted, _ = run(required(), TextDelta("no"), USAGE, failed)
    assert emitted == [TextDelta("no"), USAGE, failed]


def test_grammars_are_not_judged_where_the_server_enforces_them() -> None:
    assert constraint_check(turn_for(tools=[PATCH]), frozenset()) is None


ANSWER_CHUNKS = st.one_of(
    st.builds(TextDelta, st.text(min_size=1, max_size=5)),
    st.builds(ReasoningDelta, st.text(min_size=1, max_size=5)),
    st.builds(RefusalDelta, st.just("no")),
)


@given(
    st.lists(ANSWER_CHUNKS, max_size=8), st.sampled_from(["stop", "length", "content_filter"]), st.booleans()
)
def test_chunks_are_neither_lost_nor_emitted_twice(
    model_chunks: list[Chunk], reason: Any, enforced: bool
) -> None:
    emitted, found_violation = run(structured(enforced=enforced), *model_chunks, Finished(reason))
    text = "".join(each.text for each in model_chunks if isinstance(each, TextDelta))
    if found_violation is not None:
        assert found_violation.text == text
        assert not any(isinstance(chunk, TextDelta) for chunk in emitted)
    elif reason != "stop":
        assert emitted == [*model_chunks, Finished(reason)]


@pytest.mark.parametrize("enforced", [True, False])
def test_an_item_without_text_is_no_answer(enforced: bool) -> None:
    answer: list[Chunk] = [
        ItemBegun(),
        TextDelta('{"n": 1}'),
        ItemBegun(),
        ReasoningDelta("done"),
        ItemBegun(),
    ]
    emitted, found_violation = run(structured(enforced=enforced), *answer, Finished("stop"))
    assert found_violation is None
    assert [chunk for chunk in emitted if not isinstance(chunk, ItemBegun)] == [
        TextDelta('{"n": 1}'),
        ReasoningDelta("done"),
        Finished("stop"),
    ]


@pytest.mark.requirement("PROTOCOL/create-format-strict")
def test_a_strict_schema_that_was_streamed_and_violated_is_a_violation() -> None:
    check = constraint_check(turn_for(text={"format": {**SCHEMA, "strict": True}}), frozenset())
    assert check is not None
    chunks: list[Chunk] = [
        TextDelta('{"wrong"'),
        TextDelta(": true"),
        TextDelta("}"),
        USAGE,
        Finished("stop"),
    ]
    assert check.feed(chunks) == chunks[:2]
    assert check.is_rejected
    ending = run_here(check.end())
    assert ending.violation is not None
    assert (ending.violation.constraint, ending.violation.sent, ending.usage) == ("format", True, USAGE.usage)
    assert [*ending.passed, *ending.withheld, *ending.downgrades] == []
