"""Answers of strict schemas that are rejected before they end."""

from typing import Any

import pytest

from antiphon.protocol.parse_create import create_from
from antiphon.turn.chunks import (
    CallStarted,
    Chunk,
    Finished,
    ItemBegun,
    ReasoningDelta,
    RefusalDelta,
    TextDelta,
)
from antiphon.turn.constraint_check import COMMENTARY, ConstraintCheck, constraint_check
from antiphon.turn.constraints import Violation
from antiphon.turn.context import build_turn
from antiphon.turn.json_prefix.checker import MAX_DEPTH
from antiphon.turn.json_prefix.watch import MAX_PIECE_CHARACTERS, AnswerWatch
from tests.turn.check_steps import run_here
from tests.turn.test_constraint_check import FUNCTION, SCHEMA, USAGE, turn_for

WRONG = '{"n": "'
WHY = "At 'n': a string is not allowed, it must be of type 'integer'."


def strict_check(*, held: bool, strict: bool = True, **body: Any) -> ConstraintCheck:
    turn = turn_for(text={"format": {**SCHEMA, "strict": strict}}, **body)
    check = constraint_check(turn, frozenset({"format"}) if held else frozenset())
    assert check is not None
    return check


def feed(check: ConstraintCheck, *texts: str) -> list[Chunk]:
    """The chunks that pass, each text being a batch."""
    return [chunk for text in texts for chunk in check.feed([TextDelta(text)])]


def violation(check: ConstraintCheck) -> Violation | None:
    return run_here(check.end()).violation


def test_streamed_json_ends_at_its_violation() -> None:
    check = strict_check(held=False)
    assert feed(check, "{", '"n": ', '"o') == [TextDelta("{"), TextDelta('"n": ')]
    assert check.is_rejected
    assert violation(check) == Violation("format", WHY, '{"n": "o', sent=True, early=True)


def test_what_has_not_been_sent_can_be_repaired() -> None:
    check = strict_check(held=False)
    assert feed(check, " ", WRONG) == []
    assert violation(check) == Violation("format", WHY, " " + WRONG, sent=False, early=True)


@pytest.mark.parametrize("opening", ["", "\n ", "```json\n", "```\r\n  "])
def test_held_json_ends_at_its_violation(opening: str) -> None:
    check = strict_check(held=True)
    assert feed(check, *opening, WRONG) == []
    assert check.is_rejected
    assert violation(check) == Violation("format", WHY, opening + WRONG, early=True)


def test_nothing_passes_after_a_rejection_and_the_usage_counts() -> None:
    check = strict_check(held=False)
    check.feed([TextDelta("{")])
    assert check.feed([TextDelta('"n": "one'), ReasoningDelta("hm"), TextDelta('"}'), USAGE]) == []
    assert check.feed([TextDelta(" and more")]) == []
    assert run_here(check.end()).usage == USAGE.usage


@pytest.mark.parametrize(
    "text",
    ['Here it is: {"n": 1}', '{"n": 1} I hope that helps.', '[Note] {"n": 1}', '```json\n{"n": 1}\n```'],
)
def test_text_around_held_json_is_still_removed(text: str) -> None:
    check = strict_check(held=True)
    assert feed(check, *text) == []
    assert not check.is_rejected
    check.feed([Finished("stop")])
    ending = run_here(check.end())
    assert (ending.violation, [*ending.passed]) == (None, [TextDelta('{"n": 1}'), Finished("stop")])


@pytest.mark.parametrize("text", ['{"n": 1} I hope', '{"n": 1}{"n"', "{n: 1}", "[1", '{"n": 01}'])
def test_streamed_text_must_be_json_and_nothing_else(text: str) -> None:
    check = strict_check(held=False)
    feed(check, *text)
    assert check.is_rejected


def test_text_after_the_json_in_the_last_batch_is_a_violation() -> None:
    check = strict_check(held=False)
    check.feed([TextDelta('{"n": 1}')])
    check.feed([TextDelta("x" * (MAX_PIECE_CHARACTERS + 1)), Finished("stop")])
    found = violation(check)
    assert found is not None
    assert (found.sent, found.early, found.reason) == (True, False, "There is other text around the JSON.")


def test_text_around_json_of_a_loose_schema_is_reported() -> None:
    check = strict_check(held=False, strict=False)
    feed(check, '{"n": 1} I hope')
    check.feed([Finished("stop")])
    ending = run_here(check.end())
    assert (ending.violation, "other text around" in ending.downgrades[0].text) == (None, True)


def test_a_schema_that_is_not_strict_is_not_watched() -> None:
    check = strict_check(held=False, strict=False)
    assert feed(check, WRONG, 'one"}') == [TextDelta(WRONG), TextDelta('one"}')]
    assert not check.is_rejected


def test_with_tools_held_text_may_be_followed_by_a_call() -> None:
    check = strict_check(held=True, tools=[FUNCTION])
    assert feed(check, WRONG) == []
    assert not check.is_rejected
    assert check.feed([CallStarted(0, "c", "look")]) == [TextDelta(WRONG), CallStarted(0, "c", "look")]


def test_with_hosted_tools_held_text_may_be_a_preface() -> None:
    request = create_from(
        model="m",
        input="x",
        text={"format": {**SCHEMA, "strict": True}},
        tools=[{"type": "web_search"}],
    )
    turn = build_turn(request, model="m", native=frozenset({"function", "web_search"}))
    assert turn.hosted
    check = constraint_check(turn, frozenset({"format"}))
    assert check is not None
    assert (feed(check, WRONG), check.is_rejected) == ([], False)


def test_with_tools_streamed_text_may_begin_like_json() -> None:
    check = strict_check(held=False, tools=[FUNCTION])
    assert feed(check, "[I ", "look]") == [TextDelta("[I "), TextDelta("look]")]
    assert not check.is_rejected


def test_with_tools_streamed_json_ends_at_its_violation() -> None:
    check = strict_check(held=False, tools=[FUNCTION])
    assert feed(check, "{", '"n": ', '"o') == [TextDelta("{"), TextDelta('"n": ')]
    assert check.is_rejected


def test_tools_that_must_not_be_called_change_nothing() -> None:
    check = strict_check(held=True, tools=[FUNCTION], tool_choice="none")
    feed(check, WRONG)
    assert check.is_rejected


def test_text_that_a_required_call_replaces_is_not_watched() -> None:
    check = strict_check(held=False, tools=[FUNCTION], tool_choice="required")
    assert (feed(check, WRONG), check.is_rejected) == ([], False)


def test_text_after_a_call_is_not_watched() -> None:
    check = strict_check(held=False, tools=[FUNCTION])
    check.feed([CallStarted(0, "c", "look")])
    assert (feed(check, WRONG), check.is_rejected) == ([TextDelta(WRONG)], False)


def test_a_commentary_is_not_watched_and_the_answer_after_it_is() -> None:
    check = strict_check(held=False)
    check.feed([ItemBegun(COMMENTARY)])
    feed(check, WRONG)
    assert not check.is_rejected
    check.feed([ItemBegun()])
    feed(check, "{", WRONG[1:])
    assert check.is_rejected


@pytest.mark.parametrize("before", ["", "{"])
def test_text_after_a_refusal_is_not_watched(before: str) -> None:
    check = strict_check(held=False)
    check.feed([TextDelta(before), RefusalDelta("no")])
    feed(check, '{"n": "')
    assert not check.is_rejected


def test_an_answer_in_one_piece_is_checked_once_at_its_end() -> None:
    check = strict_check(held=True)
    check.feed([TextDelta('{"n": "one"}'), USAGE, Finished("stop")])
    found = violation(check)
    assert found is not None
    assert (check.is_rejected, found.early) == (False, False)


def test_a_deep_answer_is_left_to_the_end() -> None:
    watch = AnswerWatch({})
    assert watch.feed("[" * (MAX_DEPTH + 1)) is None
    assert watch.feed("}") is None


def test_a_long_piece_is_left_to_the_end() -> None:
    watch = AnswerWatch(SCHEMA["schema"])
    assert watch.feed(WRONG + "x" * MAX_PIECE_CHARACTERS) is None
    assert watch.feed("}") is None


@pytest.mark.parametrize("text", [" " * 300 + WRONG, "``" + WRONG, "```json {" + WRONG, "No: " + WRONG])
def test_other_beginnings_are_left_to_the_end(text: str) -> None:
    watch = AnswerWatch(SCHEMA["schema"])
    assert not any(map(watch.feed, text))
