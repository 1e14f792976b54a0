"""Patterns say what may come next, and whether it may end."""

import pytest

from antiphon.conformance.pattern import (
    NOTHING,
    Pattern,
    after,
    either,
    kinds,
    many,
    may_end,
    sequence,
    wanted,
)

PART = sequence("open", "delta*", "done")


def left(pattern: Pattern, *events: str) -> Pattern | None:
    rest: Pattern | None = pattern
    for event in events:
        rest = None if rest is None else after(rest, event)
    return rest


@pytest.mark.parametrize("events", [("open", "done"), ("open", "delta", "delta", "done")])
def test_a_complete_sequence_leaves_nothing(events: tuple[str, ...]) -> None:
    assert left(PART, *events) == NOTHING


@pytest.mark.parametrize("events", [("done",), ("open", "open"), ("open", "done", "done"), ("delta",)])
def test_what_cannot_come_leaves_no_pattern(events: tuple[str, ...]) -> None:
    assert left(PART, *events) is None


def test_many_may_end_only_between_two_rounds() -> None:
    parts = many(PART)
    assert may_end(parts)
    half = left(parts, "open", "done", "open")
    assert half is not None
    assert not may_end(half)
    rest = left(half, "done")
    assert rest is not None
    assert may_end(rest)


def test_alternatives_with_a_common_beginning_stay_open() -> None:
    both = either(sequence("open", "a"), sequence("open", "b"))
    assert left(both, "open", "a") == left(both, "open", "b") == NOTHING
    rest = left(both, "open")
    assert rest is not None
    assert wanted(rest) == ["a", "b"]


def test_what_is_optional_may_be_left_out() -> None:
    pattern = sequence("a", "b?", "c")
    assert left(pattern, "a", "c") == left(pattern, "a", "b", "c") == NOTHING
    assert left(pattern, "a", "b", "b") is None
    rest = left(pattern, "a")
    assert rest is not None
    assert wanted(rest) == ["b", "c"]


def test_nothing_wants_nothing() -> None:
    assert may_end(NOTHING)
    assert wanted(NOTHING) == []
    assert kinds(NOTHING) == frozenset()


def test_a_pattern_knows_its_kinds() -> None:
    assert kinds(many(either(PART, "x?"))) == {"open", "delta", "done", "x"}
