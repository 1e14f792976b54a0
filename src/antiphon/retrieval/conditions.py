"""Conditions on one metadatum of a chunk, as a filter may state them.

A metadatum is absent, null, a value, or an array of values. An array satisfies what one of its values does.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import cast

from msgspec import Struct

from antiphon.errors import Unsupported
from antiphon.retrieval.members import Member, Scalar, plain

WORD = re.compile(r"\w+")
MATCHES = ("value", "any", "except", "text", "phrase")
BOUNDS = ("gt", "gte", "lt", "lte")
MEMBERS = ("key", "match", "range", "values_count", "is_empty", "is_null", "has_id", "nested")
TESTS = MEMBERS[1:-1]

Metadata = Mapping[str, object]
Holds = Callable[[object], bool]
"""Says whether a metadatum passes. Absent is `ABSENT`."""

ABSENT = object()


class Condition(Struct, frozen=True):
    """What must hold for the metadatum of this plain name."""

    key: str
    holds: Holds

    def admits(self, metadata: Metadata) -> bool:
        """Whether it does."""
        return self.holds(metadata.get(self.key, ABSENT))


def parse_condition(member: Member) -> list[Condition]:
    """The conditions of `{key, match, range, …}`, all of which must hold."""
    parts = member.members(MEMBERS)
    if "nested" in parts:
        place = parts["nested"].place
        raise Unsupported(
            f"`{place}` is not supported: metadata is flat. Use `key` with `match`.", param=place
        )
    readers = {name: part for name, part in parts.items() if name != "key"}
    if not readers:
        raise member.refused(f"a condition with one of: {', '.join(TESTS)}")
    return [_READERS[name](member, parts, part) for name, part in readers.items()]


def one_of(values: Iterable[Scalar]) -> Holds:
    """One of the values is equal to one of these. Case matters; true is not 1."""
    wanted = frozenset(map(_exact, values))
    return lambda found: any(_exact(value) in wanted for value in values_of(found))


def contains_one_of(texts: Iterable[str]) -> Holds:
    """One of the values has one of these in it, in any case."""
    wanted = [text.casefold() for text in texts]
    return lambda found: any(text in str(value).casefold() for value in values_of(found) for text in wanted)


def values_of(found: object) -> list[Scalar]:
    """The values of a metadatum: none, one or several."""
    listed = cast("Iterable[object]", found) if isinstance(found, list | tuple) else (found,)
    return [value for value in listed if isinstance(value, str | int | float)]


def _exact(value: Scalar) -> tuple[bool, Scalar]:
    return isinstance(value, bool), value


def _none_of(values: Iterable[Scalar]) -> Holds:
    unwanted = one_of(values)
    return lambda found: bool(values_of(found)) and not unwanted(found)


def _words(text: str) -> list[str]:
    return [word.casefold() for word in WORD.findall(text)]


def _all_words(words: list[str]) -> Holds:
    return lambda found: any(set(words) <= set(_words(str(value))) for value in values_of(found))


def _in_a_row(words: list[str]) -> Holds:
    phrase = f" {' '.join(words)} "
    return lambda found: any(phrase in f" {' '.join(_words(str(value)))} " for value in values_of(found))


def _match(member: Member, parts: Mapping[str, Member], match: Member) -> Condition:
    tests = match.members(MATCHES)
    if len(tests) != 1:
        raise match.refused(f"an object with exactly one of: {', '.join(MATCHES)}")
    [(name, wanted)] = tests.items()
    if name == "value":
        holds = one_of([wanted.scalar()])
    elif name == "any":
        holds = one_of(wanted.scalars())
    elif name == "except":
        holds = _none_of(wanted.scalars())
    else:
        words = _words(wanted.text())
        if not words:
            raise wanted.refused("a text with at least one word")
        holds = _all_words(words) if name == "text" else _in_a_row(words)
    return Condition(_key(member, parts), holds)


def _bounds(member: Member) -> Callable[[float], bool]:
    bounds = {name: bound.number() for name, bound in member.members(BOUNDS).items()}
    if not bounds:
        raise member.refused(f"an object with at least one of: {', '.join(BOUNDS)}")
    above, least = bounds.get("gt"), bounds.get("gte")
    below, most = bounds.get("lt"), bounds.get("lte")

    def within(number: float) -> bool:
        return (
            (above is None or number > above)
            and (least is None or number >= least)
            and (below is None or number < below)
            and (most is None or number <= most)
        )

    return within


def _range(member: Member, parts: Mapping[str, Member], bounds: Member) -> Condition:
    within = _bounds(bounds)

    def holds(found: object) -> bool:
        numbers = [value for value in values_of(found) if not isinstance(value, str | bool)]
        return any(map(within, numbers))

    return Condition(_key(member, parts), holds)


def _values_count(member: Member, parts: Mapping[str, Member], bounds: Member) -> Condition:
    within = _bounds(bounds)
    return Condition(_key(member, parts), lambda found: within(len(values_of(found))))


def _is_empty(member: Member, parts: Mapping[str, Member], test: Member) -> Condition:
    return _presence(member, parts, test, lambda found: not values_of(found))


def _is_null(member: Member, parts: Mapping[str, Member], test: Member) -> Condition:
    return _presence(member, parts, test, lambda found: found is None)


def _presence(member: Member, parts: Mapping[str, Member], test: Member, holds: Holds) -> Condition:
    """`{"is_empty": {"key": K}}`, or `{"key": K, "is_empty": true}`."""
    if isinstance(test.value, Mapping):
        return Condition(_key(test, test.members(["key"])), holds)
    wanted = test.truth()
    return Condition(_key(member, parts), lambda found: holds(found) is wanted)


def _has_id(_member: Member, _parts: Mapping[str, Member], ids: Member) -> Condition:
    return Condition("id", one_of(ids.scalars()))


def _key(member: Member, parts: Mapping[str, Member]) -> str:
    if "key" not in parts:
        raise member.refused("an object with a `key`")
    return plain(parts["key"].text())


_READERS: dict[str, Callable[[Member, Mapping[str, Member], Member], Condition]] = {
    "match": _match,
    "range": _range,
    "values_count": _values_count,
    "is_empty": _is_empty,
    "is_null": _is_null,
    "has_id": _has_id,
}
