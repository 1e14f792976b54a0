"""The scope of a search: a filter over the metadata of chunks (`path`, `language`, `symbol`, …).

Two notations, which may be combined in one object: `must`, `must_not`, `should` and `min_should` with
conditions, or `conditions` with operators, all of which must hold. Member names are read in any case.
"""

from collections.abc import Mapping
from typing import cast

from msgspec import Struct

from antiphon.protocol.bounds import check_count
from antiphon.retrieval.conditions import Condition, Member, contains_one_of, one_of, parse_condition, plain

PARTS = ("must", "must_not", "should", "min_should", "conditions")
OPERATORS = ("==", "!=", "contains", "does_not_contain")
MAX_DEPTH = 8
"""Levels of nested filters."""
MAX_FILTER_VALUES = 2000


class Quorum(Struct, frozen=True):
    """Rules of which at least `count` must hold."""

    count: int
    rules: tuple["Rule", ...]


class Scope(Struct, frozen=True):
    """A filter; the empty one admits everything."""

    must: tuple["Rule", ...] = ()
    must_not: tuple["Rule", ...] = ()
    quorums: tuple[Quorum, ...] = ()

    def admits(self, metadata: Mapping[str, object]) -> bool:
        """Whether a chunk with this metadata is within the scope. Absent metadata matches nothing."""
        return self == _EVERYTHING or _holds(self, {plain(key): value for key, value in metadata.items()})

    def both(self, other: "Scope") -> "Scope":
        """The intersection of two scopes."""
        if self == _EVERYTHING:
            return other
        return self if other == _EVERYTHING else Scope(must=(self, other))


Rule = Condition | Scope
_EVERYTHING = Scope()


def parse_scope(value: object, param: str = "ragScopeFilter") -> Scope:
    """Parse a scope from JSON. `InvalidRequest` names the invalid path. None: no filter."""
    if value is None:
        return _EVERYTHING
    _check_size(value, param)
    return _scope(Member(param, value), 1)


def _check_size(value: object, param: str) -> None:
    """Every chunk is compared with every condition."""
    waiting, count = [value], 0
    while waiting:
        found = waiting.pop()
        if isinstance(found, Mapping):
            found = [*cast("Mapping[str, object]", found).values()]
        if isinstance(found, list | tuple):
            inner = cast("list[object]", found)
            count += len(inner)
            check_count(count, MAX_FILTER_VALUES, param, "values")
            waiting += inner


def _holds(rule: Rule, metadata: Mapping[str, object]) -> bool:
    if isinstance(rule, Condition):
        return rule.admits(metadata)
    return (
        all(_holds(inner, metadata) for inner in rule.must)
        and not any(_holds(inner, metadata) for inner in rule.must_not)
        and all(
            sum(_holds(inner, metadata) for inner in quorum.rules) >= quorum.count for quorum in rule.quorums
        )
    )


def _scope(member: Member, depth: int) -> Scope:
    if depth > MAX_DEPTH:
        raise member.refused(f"simpler: filters may be nested {MAX_DEPTH} levels deep")
    parts = member.members(PARTS)
    must = _rules(parts.get("must"), depth)
    if "conditions" in parts:
        must += tuple(_operation(element) for element in parts["conditions"].elements())
    quorums: list[Quorum] = []
    if should := _rules(parts.get("should"), depth):
        quorums.append(Quorum(1, should))
    if "min_should" in parts:
        quorums.append(_min_should(parts["min_should"], depth))
    return Scope(must, _rules(parts.get("must_not"), depth), tuple(quorums))


def _rules(member: Member | None, depth: int) -> tuple[Rule, ...]:
    return () if member is None else tuple(_rule(element, depth) for element in member.elements())


def _rule(member: Member, depth: int) -> Rule:
    """A condition, or a nested filter."""
    if member.has_one_of(PARTS):
        return _scope(member, depth + 1)
    conditions = parse_condition(member)
    return conditions[0] if len(conditions) == 1 else Scope(must=tuple(conditions))


def _min_should(member: Member, depth: int) -> Quorum:
    parts = member.members(("min_count", "conditions"))
    if len(parts) != 2:
        raise member.refused("an object with `min_count` and `conditions`")
    count = parts["min_count"]
    if isinstance(count.value, bool) or not isinstance(count.value, int) or count.value < 1:
        raise count.refused("an integer of at least 1")
    rules = _rules(parts["conditions"], depth)
    if len(rules) < count.value:
        raise parts["conditions"].refused(
            f"an array of at least {count.value} conditions, because of `min_count`"
        )
    return Quorum(count.value, rules)


def _operation(member: Member) -> Rule:
    """`{key, operator, values}`: the key has, or does not have, one of the values."""
    parts = member.members(("key", "operator", "values"))
    if len(parts) != 3:
        raise member.refused("an object with `key`, `operator` and `values`")
    key, values = plain(parts["key"].text()), parts["values"].scalars()
    operator = plain(parts["operator"].text())
    if operator not in map(plain, OPERATORS):
        raise parts["operator"].refused(f"one of: {', '.join(OPERATORS)}")
    by_equality = operator in ("==", "!=")
    condition = Condition(key, one_of(values) if by_equality else contains_one_of(map(str, values)))
    return condition if operator in ("==", "contains") else Scope(must_not=(condition,))
