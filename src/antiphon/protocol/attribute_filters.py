"""Filters of a search: conditions on the attributes of files, parsed with the path of every member.

A condition on an attribute that a file does not have is false, whatever its operator: `ne` and `nin` find the
files that have another value, not those without one. `not` exists in neither API, so this cannot surprise.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, cast, get_args

from msgspec import Struct

from antiphon.errors import InvalidRequest
from antiphon.protocol.parse import as_object, kind_of, missing

Operator = Literal["eq", "ne", "gt", "gte", "lt", "lte", "in", "nin"]
OPERATORS: tuple[str, ...] = get_args(Operator)
LISTED: tuple[str, ...] = ("in", "nin")
ORDERED: tuple[str, ...] = ("gt", "gte", "lt", "lte")
MAX_FILTER_CONDITIONS = 128
MAX_FILTER_NESTING = 8
MAX_FILTER_VALUES = 1000
"""Of one `in` or `nin`."""

Attribute = str | float | bool
Matches = Callable[[Mapping[str, Attribute]], bool]


class Comparison(Struct, frozen=True):
    """One condition on one attribute; `value` is a tuple for `in` and `nin`."""

    type: Operator
    key: str
    value: Attribute | tuple[Attribute, ...]


class Compound(Struct, frozen=True):
    """All of these conditions, or one of them."""

    type: Literal["and", "or"]
    filters: "tuple[Filter, ...]"


Filter = Comparison | Compound


def parse_filter(value: object, path: str = "filters") -> Filter | None:
    """Parse a filter; None if it is null. Raises `InvalidRequest` with the path of the member."""
    if value is None:
        return None
    return _Parser().parse(value, path, 1)


class _Parser:
    def __init__(self) -> None:
        self._conditions = 0

    def parse(self, value: object, path: str, level: int) -> Filter:
        members = as_object(value, path)
        kind = members.get("type")
        if kind is None:
            raise missing(f"{path}.type", f"Use one of {', '.join((*OPERATORS, 'and', 'or'))}.")
        if kind in ("and", "or"):
            return self._compound(kind, members, path, level)
        if kind not in OPERATORS:
            names = ", ".join(f"'{name}'" for name in (*OPERATORS, "and", "or"))
            raise _invalid(f"{path}.type", f"expected one of {names}")
        self._conditions += 1
        if self._conditions > MAX_FILTER_CONDITIONS:
            raise _invalid(path, f"a filter has at most {MAX_FILTER_CONDITIONS} conditions")
        return _comparison(cast("Operator", kind), members, path)

    def _compound(
        self, kind: Literal["and", "or"], members: Mapping[str, Any], path: str, level: int
    ) -> Compound:
        if level >= MAX_FILTER_NESTING:
            raise _invalid(path, f"filters are nested at most {MAX_FILTER_NESTING} levels deep")
        given = members.get("filters")
        if given is None:
            raise missing(f"{path}.filters")
        if not isinstance(given, list):
            raise _invalid_type(f"{path}.filters", "an array of filters", given)
        listed = cast("list[object]", given)
        if not listed:
            raise _invalid(f"{path}.filters", "expected at least one filter")
        parsed = (
            self.parse(each, f"{path}.filters[{index}]", level + 1) for index, each in enumerate(listed)
        )
        return Compound(kind, tuple(parsed))


def _comparison(kind: Operator, members: Mapping[str, Any], path: str) -> Comparison:
    key, value = members.get("key"), members.get("value")
    if key is None:
        raise missing(f"{path}.key")
    if not isinstance(key, str):
        raise _invalid_type(f"{path}.key", "a string", key)
    if value is None:
        raise missing(f"{path}.value")
    if kind in LISTED:
        return Comparison(kind, key, _values(value, f"{path}.value"))
    if not isinstance(value, str | int | float):  # a boolean is an integer here
        raise _invalid_type(f"{path}.value", "a string, a number or a boolean", value)
    if kind in ORDERED and isinstance(value, bool):
        raise _invalid_type(f"{path}.value", f"a string or a number, because '{kind}' compares sizes", value)
    return Comparison(kind, key, value)


def _values(value: object, path: str) -> tuple[Attribute, ...]:
    if not isinstance(value, list):
        raise _invalid_type(path, "an array", value)
    listed = cast("list[object]", value)
    if len(listed) > MAX_FILTER_VALUES:
        raise _invalid(path, f"at most {MAX_FILTER_VALUES} values are allowed")
    for index, each in enumerate(listed):
        if not isinstance(each, str | int | float):
            raise _invalid_type(f"{path}[{index}]", "a string, a number or a boolean", each)
    return tuple(cast("list[Attribute]", listed))


def matcher(wanted: Filter) -> Matches:
    """Whether files with these attributes are found, for many files: a value is looked up in long lists."""
    if isinstance(wanted, Compound):
        inner = [matcher(each) for each in wanted.filters]
        combine = all if wanted.type == "and" else any
        return lambda attributes: combine(each(attributes) for each in inner)
    key, kind, value = wanted.key, wanted.type, wanted.value
    if kind in ORDERED and not isinstance(value, tuple):
        return lambda attributes: (found := attributes.get(key)) is not None and _compare(kind, found, value)
    known = frozenset(map(_comparable, value if isinstance(value, tuple) else (value,)))
    included = kind in ("in", "eq")
    return lambda attributes: (
        (found := attributes.get(key)) is not None and (_comparable(found) in known) is included
    )


def _comparable(value: Attribute) -> tuple[bool, Attribute]:
    """Equal for equal values of the same kind: `true` is not 1, and 1 is 1.0."""
    return isinstance(value, bool), value


def _compare(operator: Operator, found: Attribute, value: Attribute) -> bool:
    """Numbers with numbers and texts with texts; nothing else has an order."""
    if isinstance(found, str) and isinstance(value, str):
        return _ordered(operator, (found > value) - (found < value))
    if isinstance(found, str | bool) or isinstance(value, str | bool):
        return False
    return _ordered(operator, (found > value) - (found < value))


def _ordered(operator: Operator, difference: int) -> bool:
    match operator:
        case "gt":
            return difference > 0
        case "gte":
            return difference >= 0
        case "lt":
            return difference < 0
        case _:
            return difference <= 0


def filter_keys(wanted: Filter | None) -> Sequence[str]:
    """The attributes that a filter reads."""
    if wanted is None:
        return ()
    if isinstance(wanted, Comparison):
        return (wanted.key,)
    return tuple(dict.fromkeys(key for each in wanted.filters for key in filter_keys(each)))


def _invalid(path: str, reason: str) -> InvalidRequest:
    return InvalidRequest(f"Invalid value for '{path}': {reason}.", param=path, code="invalid_value")


def _invalid_type(path: str, wanted: str, value: object) -> InvalidRequest:
    message = f"Invalid type for '{path}': expected {wanted}, but got {kind_of(value)} instead."
    return InvalidRequest(message, param=path, code="invalid_type")
