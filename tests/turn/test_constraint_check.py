"""The checker: what waits, what is said, what is judged."""

from itertools import repeat
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
SCHEMA = {
    "type": "json_schema",
    "name": "answer",
    "schema": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
}
NOW = repeat(0.0).__next__
USAGE = UsageReported(Usage(3, InputTokensDetails(), 2, OutputTokensDetails(), 5))


def asked(**body: Any) -> TurnRequest:
    return build_turn(create_from(model="m", input="x", **body), model="m")


def run(check: ConstraintCheck | None, *chunks: Chunk) -> tuple[list[Chunk], Violation | None]:
    assert check is not None
    said: list[Chunk] = []
    for chunk in chunks:
        said += check.feed([chunk])
    ending = check.end()
    return [*said, *ending.passed], ending.violation


def required(**body: Any) -> ConstraintCheck | None:
    return constraint_check(asked(tools=[FUNCTION], tool_choice="required", **body), frozenset(), NOW)


def structured(*, enforced: bool) -> ConstraintCheck | None:
    return constraint_check(
        asked(text={"format": SCHEMA}), frozenset() if enforced else frozenset({"format"}), NOW
    )


def grammar() -> ConstraintCheck | None:
    return constraint_check(asked(tools=[PATCH, FUNCTION]), frozenset({"grammar"}), NOW)


def test_nothing_is_checked_where_nothing_can_be_wrong() -> None:
    assert constraint_check(asked(tools=[FUNCTION]), frozenset(), NOW) is None


def test_a_call_that_had_to_be_made_is_said_at_once() -> None:
    check = required()
    assert check is not None
    assert check.feed([TextDelta("I look"), CallStarted(0, "c", "look")]) == [
        TextDelta("I look"),
        CallStarted(0, "c", "look"),
    ]
    assert check.feed([CallDelta(0, "{}")]) == [CallDelta(0, "{}")]


def test_words_instead_of_a_call_are_not_said() -> None:
    said, unmet = run(required(), TextDelta("no, "), TextDelta("thanks"), USAGE, Finished("stop"))
    assert said == []
    assert unmet == Violation("tool_choice", "no tool was called", "no, thanks")


def test_the_cost_of_what_is_not_said_is_known() -> None:
    check = required()
    assert check is not None
    check.feed([TextDelta("no"), Finished("stop"), USAGE])
    assert check.end().usage == USAGE.usage


def test_reasoning_is_never_held_back() -> None:
    check = required()
    assert check is not None
    assert check.feed([ReasoningDelta("hm")]) == [ReasoningDelta("hm")]


@pytest.mark.parametrize("reason", ["length", "content_filter"])
def test_what_was_cut_short_is_not_judged(reason: Any) -> None:
    said, unmet = run(required(), TextDelta("no"), USAGE, Finished(reason))
    assert (said, unmet) == ([TextDelta("no"), USAGE, Finished(reason)], None)


def test_a_refusal_is_said_whatever_was_demanded() -> None:
    said, unmet = run(required(), RefusalDelta("never"), Finished("stop"))
    assert (said, unmet) == ([RefusalDelta("never"), Finished("stop")], None)


def test_what_broke_off_is_said_as_far_as_it_came() -> None:
    failed = Failed(BackendBroken("gone"))
    said, unmet = run(required(), TextDelta("no"), failed)
    assert (said, unmet) == ([TextDelta("no"), failed], None)


def test_a_call_that_is_ruled_out_is_asked_for_again() -> None:
    choice = {"type": "function", "name": "look"}
    check = constraint_check(asked(tools=[FUNCTION, OTHER], tool_choice=choice), frozenset(), NOW)
    said, unmet = run(check, CallStarted(0, "c", "other"), CallDelta(0, "{}"), Finished("tool_calls"))
    assert said == []
    assert unmet is not None
    assert (unmet.constraint, "'other'" in unmet.reason) == ("tool_choice", True)


def test_json_that_fits_is_said_as_it_came() -> None:
    chunks: list[Chunk] = [TextDelta('{"n": '), TextDelta("1}"), USAGE, Finished("stop")]
    assert run(structured(enforced=False), *chunks) == (chunks, None)


def test_fences_and_words_around_json_are_taken_off() -> None:
    said, unmet = run(
        structured(enforced=False), TextDelta('Sure:\n```json\n{"n": 1}\n```'), Finished("stop")
    )
    assert (said, unmet) == ([TextDelta('{"n": 1}'), Finished("stop")], None)


@pytest.mark.requirement("PROTOCOL/create-format-emulated")
@pytest.mark.parametrize("text", ["", "one", '{"n": "one"}', '{"n": 1', "[1]"])
def test_what_does_not_fit_is_not_said(text: str) -> None:
    said, unmet = run(structured(enforced=False), TextDelta(text), Finished("stop"))
    assert said == []
    assert unmet is not None
    assert (unmet.constraint, unmet.text, bool(unmet.reason)) == ("format", text, True)


def test_words_before_a_call_are_no_answer() -> None:
    check = constraint_check(asked(tools=[FUNCTION], text={"format": SCHEMA}), frozenset({"format"}), NOW)
    said, unmet = run(check, TextDelta("I look"), CallStarted(0, "c", "look"), Finished("tool_calls"))
    assert (said[0], unmet) == (TextDelta("I look"), None)


def test_where_the_server_enforces_json_it_streams() -> None:
    check = structured(enforced=True)
    assert check is not None
    assert check.feed([TextDelta("\n")]) == []
    assert check.feed([TextDelta('{"n"')]) == [TextDelta("\n"), TextDelta('{"n"')]
    assert check.feed([TextDelta(": 1}")]) == [TextDelta(": 1}")]


@pytest.mark.requirement("PROTOCOL/create-format-emulated")
def test_a_server_that_ignores_the_format_is_found_out() -> None:
    said, unmet = run(structured(enforced=True), TextDelta("One, I think."), Finished("stop"))
    assert said == []
    assert unmet is not None
    assert unmet.constraint == "format"


@pytest.mark.requirement("PROTOCOL/tools-grammar-lark")
def test_input_by_its_grammar_is_said() -> None:
    chunks: list[Chunk] = [
        CallStarted(0, "c", "patch"),
        CallDelta(0, '{"input": "abc"}'),
        Finished("tool_calls"),
    ]
    assert run(grammar(), *chunks) == (chunks, None)


@pytest.mark.requirement("PROTOCOL/tools-custom-repaired")
def test_input_against_its_grammar_is_not_said() -> None:
    call = [CallStarted(0, "c", "patch"), CallDelta(0, '{"input": '), CallDelta(0, '"A1"}')]
    said, unmet = run(grammar(), *call, Finished("tool_calls"))
    assert said == []
    assert unmet is not None
    assert (unmet.constraint, unmet.alone, unmet.calls[0].arguments) == ("grammar", True, '{"input": "A1"}')
    said, unmet = run(grammar(), TextDelta("Patching."), *call, Finished("tool_calls"))
    assert said == [TextDelta("Patching.")]
    assert unmet is not None
    assert not unmet.alone


def test_a_faulty_call_among_others_is_not_alone() -> None:
    calls = [
        CallStarted(0, "c", "look"),
        CallDelta(0, "{}"),
        CallStarted(1, "d", "patch"),
        CallDelta(1, '{"input": "1"}'),
    ]
    said, unmet = run(grammar(), *calls, Finished("tool_calls"))
    assert said == calls[:2]
    assert unmet is not None
    assert not unmet.alone


def test_whatever_passes_comes_out_in_order_and_whole() -> None:
    chunks = [
        CallStarted(1, "d", "patch"),
        CallDelta(1, '{"input": "a"}'),
        CallStarted(0, "c", "look"),
        CallDelta(0, "{}"),
        Finished("tool_calls"),
    ]
    assert run(grammar(), *chunks) == (chunks, None)


def test_of_several_calls_only_the_wrong_ones_are_not_said() -> None:
    good: list[Chunk] = [CallStarted(0, "c", "patch"), CallDelta(0, '{"input": "good"}')]
    bad: list[Chunk] = [CallStarted(1, "d", "patch"), CallDelta(1, '{"input": "B1"}')]
    look: list[Chunk] = [CallStarted(2, "e", "look"), CallDelta(2, "{}")]
    check = grammar()
    assert check is not None
    assert check.feed([*good, *bad, *look, USAGE, Finished("tool_calls")]) == []
    ending = check.end()
    assert ending.passed == [*good, *look]
    assert ending.withheld == [*bad, USAGE, Finished("tool_calls")]
    assert ending.violation is not None
    assert [call.call_id for call in ending.violation.calls] == ["d"]


SEARCHED = HostedItemDone(WebSearchCall(id="ws_1", status="completed"))


def test_a_tool_that_the_server_ran_is_a_tool_that_was_called() -> None:
    said, unmet = run(required(), SEARCHED, TextDelta("Found."), Finished("stop"))
    assert (said, unmet) == ([SEARCHED, TextDelta("Found."), Finished("stop")], None)


def test_an_answer_after_the_servers_own_work_is_still_judged() -> None:
    said, unmet = run(structured(enforced=False), SEARCHED, TextDelta("One."), Finished("stop"))
    assert said == [SEARCHED]
    assert unmet is not None


@pytest.mark.parametrize("enforced", [True, False])
def test_an_aside_is_not_the_answer(enforced: bool) -> None:
    aside: list[Chunk] = [ItemBegun("commentary"), TextDelta("I count.")]
    answer: list[Chunk] = [ItemBegun("final_answer"), TextDelta('{"n": 1}')]
    chunks = [*aside, *answer, Finished("stop")]
    assert run(structured(enforced=enforced), *chunks) == (chunks, None)
    said, unmet = run(
        structured(enforced=enforced), *aside, ItemBegun("final_answer"), TextDelta("One."), Finished("stop")
    )
    assert said == aside
    assert unmet is not None
    assert unmet.text == "One."


def test_of_several_messages_the_last_is_the_answer() -> None:
    chunks: list[Chunk] = [TextDelta("Let me see."), ItemBegun(), TextDelta('{"n": 1}'), Finished("stop")]
    assert run(structured(enforced=False), *chunks) == (chunks, None)


def test_a_name_that_the_model_made_up_is_no_call() -> None:
    made_up: list[Chunk] = [CallStarted(0, "c", "nonsense"), CallDelta(0, "{}")]
    said, unmet = run(required(), *made_up, Finished("tool_calls"))
    assert said == []
    assert unmet is not None
    assert unmet.reason == "the tool 'nonsense' must not be called now"


@pytest.mark.requirement("PROTOCOL/tools-choice-holds")
@pytest.mark.parametrize(
    "choice",
    ["none", {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "look"}]}],
)
def test_what_the_choice_rules_out_is_asked_for_again_or_left_out_with_a_note(choice: Any) -> None:
    turn = asked(tools=[FUNCTION, OTHER], tool_choice=choice)
    wrong: list[Chunk] = [CallStarted(0, "c", "other"), CallDelta(0, "{}"), CallFinished(0)]
    said, unmet = run(constraint_check(turn, frozenset(), NOW), *wrong, Finished("tool_calls"))
    assert said == []
    assert unmet is not None
    assert unmet.constraint == "tool_choice"
    check = constraint_check(turn, frozenset(), NOW)
    assert check is not None
    assert check.feed([TextDelta("Well."), *wrong, Finished("stop")]) == [TextDelta("Well.")]
    ending = check.end()
    assert (ending.passed, ending.violation) == ([Finished("stop")], None)
    assert "'other' was left out" in ending.downgrades[0].render()


def test_a_server_that_enforces_json_badly_is_told_of() -> None:
    check = structured(enforced=True)
    assert check is not None
    assert check.feed([TextDelta('{"wrong"'), TextDelta(": true}")]) != []
    check.feed([Finished("stop")])
    ending = check.end()
    assert ending.violation is None
    assert "did not hold it to the format" in ending.downgrades[0].render()


def test_usage_is_said_before_a_failure() -> None:
    failed = Failed(BackendBroken("gone"))
    said, _ = run(required(), TextDelta("no"), USAGE, failed)
    assert said == [TextDelta("no"), USAGE, failed]


def test_grammars_are_not_judged_where_the_server_enforces_them() -> None:
    assert constraint_check(asked(tools=[PATCH]), frozenset(), NOW) is None


WORDS = st.one_of(
    st.builds(TextDelta, st.text(min_size=1, max_size=5)),
    st.builds(ReasoningDelta, st.text(min_size=1, max_size=5)),
    st.builds(RefusalDelta, st.just("no")),
)


@given(st.lists(WORDS, max_size=8), st.sampled_from(["stop", "length", "content_filter"]), st.booleans())
def test_nothing_is_lost_and_nothing_is_said_twice(words: list[Chunk], reason: Any, enforced: bool) -> None:
    said, unmet = run(structured(enforced=enforced), *words, Finished(reason))
    text = "".join(word.text for word in words if isinstance(word, TextDelta))
    if unmet is not None:
        assert unmet.text == text
        assert not any(isinstance(chunk, TextDelta) for chunk in said)
    elif reason != "stop":
        assert said == [*words, Finished(reason)]


def test_a_grammar_that_takes_too_long_to_judge_is_not_met() -> None:
    ticks = iter(range(1000))
    check = constraint_check(asked(tools=[PATCH]), frozenset({"grammar"}), lambda: float(next(ticks)))
    call = [CallStarted(0, "c", "patch"), CallDelta(0, '{"input": "%s"}' % ("a" * 50_000))]
    _, unmet = run(check, *call, Finished("tool_calls"))
    assert unmet is not None
    assert unmet.constraint == "grammar"


@pytest.mark.parametrize("enforced", [True, False])
def test_an_item_without_a_word_is_no_answer(enforced: bool) -> None:
    answer: list[Chunk] = [
        ItemBegun(),
        TextDelta('{"n": 1}'),
        ItemBegun(),
        ReasoningDelta("done"),
        ItemBegun(),
    ]
    said, unmet = run(structured(enforced=enforced), *answer, Finished("stop"))
    assert unmet is None
    assert [chunk for chunk in said if not isinstance(chunk, ItemBegun)] == [
        TextDelta('{"n": 1}'),
        ReasoningDelta("done"),
        Finished("stop"),
    ]
