"""Conditions of a filter on one metadata value of a chunk, and how they are parsed.

A metadata value is absent, null, a scalar, or an array of scalars. An array meets a condition if one of its
elements does.
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import lru_cache
from typing import cast

from msgspec import Struct

from antiphon.errors import InvalidRequest, Unsupported

Scalar = str | int | float | bool


class Member(Struct, frozen=True):
    """A JSON value and its path: `ragScopeFilter.must[0].match`."""

    place: str
    value: object

    def refused(self, wanted: str) -> InvalidRequest:
        """The error for a value that is not `wanted`."""
        return InvalidRequest(f"`{self.place}` must be {wanted}.", param=self.place)

    def members(self, known: Collection[str]) -> dict[str, "Member"]:
        """The members of an object by their plain names. Null counts as absent."""
        if not isinstance(self.value, Mapping):
            raise self.refused(f"an object with members of: {', '.join(known)}")
        names = {plain(name): name for name in known}
        found: dict[str, Member] = {}
        for key, value in cast("Mapping[object, object]", self.value).items():
            member = Member(f"{self.place}.{key}", value)
            name = names.get(plain(str(key)))
            if name is None:
                raise InvalidRequest(
                    f"`{member.place}` is unknown. Known here: {', '.join(known)}.", param=member.place
                )
            if name in found:
                raise InvalidRequest(f"`{member.place}` occurs twice.", param=member.place)
            if value is not None:
                found[name] = member
        return found

    def has_one_of(self, names: Iterable[str]) -> bool:
        """Whether it is an object with one of these members."""
        if not isinstance(self.value, Mapping):
            return False
        found = {plain(str(key)) for key in cast("Mapping[object, object]", self.value)}
        return not found.isdisjoint(map(plain, names))

    def elements(self) -> list["Member"]:
        if not isinstance(self.value, list | tuple):
            raise self.refused("an array")
        listed = cast("list[object]", self.value)
        return [Member(f"{self.place}[{index}]", value) for index, value in enumerate(listed)]

    def scalar(self) -> Scalar:
        if not isinstance(self.value, str | int | float):  # a bool is an int
            raise self.refused("a string, a number, true or false")
        return self.value

    def scalars(self) -> tuple[Scalar, ...]:
        """A non-empty array of scalars."""
        listed = tuple(element.scalar() for element in self.elements())
        if not listed:
            raise self.refused("an array with at least one value")
        return listed

    def text(self) -> str:
        if not isinstance(self.value, str) or not self.value.strip():
            raise self.refused("a string that is not blank")
        return self.value

    def number(self) -> float:
        if isinstance(self.value, bool) or not isinstance(self.value, int | float):
            raise self.refused("a number")
        return self.value

    def truth(self) -> bool:
        if not isinstance(self.value, bool):
            raise self.refused("true or false")
        return self.value


MAX_CACHED_CHARACTERS = 64
"""Clients choose names of any length."""


def plain(name: str) -> str:
    """The folded name: `must_not`, `mustNot` and `MustNot` are equal."""
    return _folded(name) if len(name) <= MAX_CACHED_CHARACTERS else name.replace("_", "").lower()


@lru_cache(maxsize=1024)
def _folded(name: str) -> str:
    return name.replace("_", "").lower()


WORD = re.compile(r"\w+")
MATCHES = ("value", "any", "except", "text", "phrase")
BOUNDS = ("gt", "gte", "lt", "lte")
MEMBERS = ("key", "match", "range", "values_count", "is_empty", "is_null", "has_id", "nested")
TESTS = MEMBERS[1:-1]

Metadata = Mapping[str, object]
Holds = Callable[[object], bool]
"""Whether a metadata value meets the condition; `ABSENT` if the key has no value."""

ABSENT = object()


class Condition(Struct, frozen=True):
    """A condition on the metadata value of a plain name."""

    key: str
    holds: Holds

    def admits(self, metadata: Metadata) -> bool:
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
    """One of the values equals one of these. Case-sensitive; true is not 1."""
    wanted = frozenset(map(_exact, values))
    return lambda found: any(_exact(value) in wanted for value in values_of(found))


def contains_one_of(texts: Iterable[str]) -> Holds:
    """One of the values contains one of these, in any case."""
    wanted = [text.casefold() for text in texts]
    return lambda found: any(text in str(value).casefold() for value in values_of(found) for text in wanted)


def values_of(found: object) -> list[Scalar]:
    """The scalars of a metadata value: none, one or several."""
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
