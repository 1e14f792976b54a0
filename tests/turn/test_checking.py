"""The checker: what waits, what is said, what is judged."""

from itertools import repeat
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.errors import BackendBroken
from antiphon.protocol.parse_create import create_from
from antiphon.protocol.response import InputTokensDetails, OutputTokensDetails, Usage
from antiphon.turn.checking import Checker, checker
from antiphon.turn.chunks import (
    CallDelta,
    CallStarted,
    Chunk,
    Failed,
    Finished,
    ReasoningDelta,
    RefusalDelta,
    TextDelta,
    UsageReported,
)
from antiphon.turn.context import TurnRequest, build_turn
from antiphon.turn.demands import Unmet

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


def run(check: Checker | None, *chunks: Chunk) -> tuple[list[Chunk], Unmet | None]:
    assert check is not None
    said: list[Chunk] = []
    for chunk in chunks:
        said += check.feed([chunk])
    ending = check.end()
    return (said if ending.unmet else [*said, *ending.chunks]), ending.unmet


def required(**body: Any) -> Checker | None:
    return checker(asked(tools=[FUNCTION], tool_choice="required", **body), frozenset(), NOW)


def structured(*, enforced: bool) -> Checker | None:
    return checker(asked(text={"format": SCHEMA}), frozenset() if enforced else frozenset({"format"}), NOW)


def grammar() -> Checker | None:
    return checker(asked(tools=[PATCH, FUNCTION]), frozenset({"grammar"}), NOW)


def test_nothing_is_checked_where_nothing_can_be_wrong() -> None:
    assert checker(asked(tools=[FUNCTION]), frozenset(), NOW) is None


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
    assert unmet == Unmet("tool_choice", "no tool was called", "no, thanks")


def test_the_cost_of_what_is_not_said_is_known() -> None:
    check = required()
    assert check is not None
    check.feed([TextDelta("no"), Finished("stop"), USAGE])
    assert check.end().spent == USAGE.usage


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
    check = checker(asked(tools=[FUNCTION, OTHER], tool_choice=choice), frozenset(), NOW)
    said, unmet = run(check, CallStarted(0, "c", "other"), CallDelta(0, "{}"), Finished("tool_calls"))
    assert said == []
    assert unmet is not None
    assert (unmet.demand, "'other'" in unmet.why) == ("tool_choice", True)


def test_json_that_fits_is_said_as_it_came() -> None:
    chunks: list[Chunk] = [TextDelta('{"n": '), TextDelta("1}"), USAGE, Finished("stop")]
    assert run(structured(enforced=False), *chunks) == (chunks, None)


def test_fences_and_words_around_json_are_taken_off() -> None:
    said, unmet = run(
        structured(enforced=False), TextDelta('Sure:\n```json\n{"n": 1}\n```'), Finished("stop")
    )
    assert (said, unmet) == ([TextDelta('{"n": 1}'), Finished("stop")], None)


@pytest.mark.parametrize("text", ["", "one", '{"n": "one"}', '{"n": 1', "[1]"])
def test_what_does_not_fit_is_not_said(text: str) -> None:
    said, unmet = run(structured(enforced=False), TextDelta(text), Finished("stop"))
    assert said == []
    assert unmet is not None
    assert (unmet.demand, unmet.text, bool(unmet.why)) == ("format", text, True)


def test_words_before_a_call_are_no_answer() -> None:
    check = checker(asked(tools=[FUNCTION], text={"format": SCHEMA}), frozenset({"format"}), NOW)
    said, unmet = run(check, TextDelta("I look"), CallStarted(0, "c", "look"), Finished("tool_calls"))
    assert (said[0], unmet) == (TextDelta("I look"), None)


def test_where_the_server_enforces_json_it_streams() -> None:
    check = structured(enforced=True)
    assert check is not None
    assert check.feed([TextDelta("\n")]) == []
    assert check.feed([TextDelta('{"n"')]) == [TextDelta("\n"), TextDelta('{"n"')]
    assert check.feed([TextDelta(": 1}")]) == [TextDelta(": 1}")]


def test_a_server_that_ignores_the_format_is_found_out() -> None:
    said, unmet = run(structured(enforced=True), TextDelta("One, I think."), Finished("stop"))
    assert said == []
    assert unmet is not None
    assert unmet.demand == "format"


def test_input_by_its_grammar_is_said() -> None:
    chunks: list[Chunk] = [
        CallStarted(0, "c", "patch"),
        CallDelta(0, '{"input": "abc"}'),
        Finished("tool_calls"),
    ]
    assert run(grammar(), *chunks) == (chunks, None)


def test_input_against_its_grammar_is_not_said() -> None:
    call = [CallStarted(0, "c", "patch"), CallDelta(0, '{"input": '), CallDelta(0, '"A1"}')]
    said, unmet = run(grammar(), TextDelta("Patching."), *call, Finished("tool_calls"))
    assert said == [TextDelta("Patching.")]
    assert unmet is not None
    assert (unmet.demand, unmet.alone, unmet.calls[0].arguments) == ("grammar", True, '{"input": "A1"}')


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
    check = checker(asked(tools=[PATCH]), frozenset({"grammar"}), lambda: float(next(ticks)))
    call = [CallStarted(0, "c", "patch"), CallDelta(0, '{"input": "%s"}' % ("a" * 50_000))]
    _, unmet = run(check, *call, Finished("tool_calls"))
    assert unmet is not None
    assert unmet.demand == "grammar"
