"""Patterns determine the possible next events, and whether the stream may end."""

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


def remaining(pattern: Pattern, *events: str) -> Pattern | None:
    rest: Pattern | None = pattern
    for event in events:
        rest = None if rest is None else after(rest, event)
    return rest


@pytest.mark.parametrize("events", [("open", "done"), ("open", "delta", "delta", "done")])
def test_a_complete_sequence_leaves_an_empty_pattern(events: tuple[str, ...]) -> None:
    assert remaining(PART, *events) == NOTHING


@pytest.mark.parametrize("events", [("done",), ("open", "open"), ("open", "done", "done"), ("delta",)])
def test_an_impossible_event_leaves_no_pattern(events: tuple[str, ...]) -> None:
    assert remaining(PART, *events) is None


def test_many_may_end_only_between_two_rounds() -> None:
    parts = many(PART)
    assert may_end(parts)
    half = remaining(parts, "open", "done", "open")
    assert half is not None
    assert not may_end(half)
    rest = remaining(half, "done")
    assert rest is not None
    assert may_end(rest)


def test_alternatives_with_a_common_prefix_stay_open() -> None:
    both = either(sequence("open", "a"), sequence("open", "b"))
    assert remaining(both, "open", "a") == remaining(both, "open", "b") == NOTHING
    rest = remaining(both, "open")
    assert rest is not None
    assert wanted(rest) == ["a", "b"]


def test_optional_events_may_be_omitted() -> None:
    pattern = sequence("a", "b?", "c")
    assert remaining(pattern, "a", "c") == remaining(pattern, "a", "b", "c") == NOTHING
    assert remaining(pattern, "a", "b", "b") is None
    rest = remaining(pattern, "a")
    assert rest is not None
    assert wanted(rest) == ["b", "c"]


def test_the_empty_pattern_accepts_no_event() -> None:
    assert may_end(NOTHING)
    assert wanted(NOTHING) == []
    assert kinds(NOTHING) == frozenset()


def test_a_pattern_lists_its_kinds() -> None:
    assert kinds(many(either(PART, "x?"))) == {"open", "delta", "done", "x"}
