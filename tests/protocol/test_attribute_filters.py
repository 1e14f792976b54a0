"""Filters on the attributes of files: what they mean, and what is no filter."""

from typing import Any

import pytest

from antiphon.errors import InvalidRequest
from antiphon.protocol.attribute_filters import (
    MAX_FILTER_CONDITIONS,
    MAX_FILTER_NESTING,
    MAX_FILTER_VALUES,
    Comparison,
    filter_keys,
    matcher,
    parse_filter,
)

ATTRIBUTES: dict[str, Any] = {"city": "Rome", "year": 2020.0, "draft": False, "zero": 0.0}


def compare(kind: str, key: str, value: Any) -> dict[str, Any]:
    return {"type": kind, "key": key, "value": value}


@pytest.mark.requirement("VECTOR-STORES/search-filters", "VECTOR-STORES/search-missing-attribute")
@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (compare("eq", "city", "Rome"), True),
        (compare("eq", "city", "rome"), False),
        (compare("eq", "year", 2020), True),
        (compare("eq", "year", "2020"), False),
        (compare("eq", "draft", False), True),
        (compare("eq", "draft", 0), False),
        (compare("eq", "zero", False), False),
        (compare("ne", "city", "Paris"), True),
        (compare("ne", "city", "Rome"), False),
        (compare("ne", "absent", "x"), False),
        (compare("gt", "year", 2019), True),
        (compare("gt", "year", 2020), False),
        (compare("gte", "year", 2020), True),
        (compare("lt", "year", 2020.5), True),
        (compare("lt", "year", 2020), False),
        (compare("lte", "year", 2020), True),
        (compare("gt", "city", "Paris"), True),
        (compare("gt", "city", 1), False),
        (compare("lt", "draft", 1), False),
        (compare("in", "city", ["Paris", "Rome"]), True),
        (compare("in", "year", [1, 2020]), True),
        (compare("in", "city", []), False),
        (compare("nin", "city", ["Paris"]), True),
        (compare("nin", "city", ["Rome"]), False),
        (compare("nin", "absent", ["x"]), False),
        ({"type": "and", "filters": [compare("eq", "city", "Rome"), compare("lt", "year", 2000)]}, False),
        ({"type": "or", "filters": [compare("eq", "city", "Rome"), compare("lt", "year", 2000)]}, True),
        (
            {
                "type": "and",
                "filters": [
                    {"type": "or", "filters": [compare("eq", "city", "Oslo"), compare("eq", "year", 2020)]},
                    compare("eq", "draft", False),
                ],
            },
            True,
        ),
    ],
)
def test_what_a_filter_means(given: dict[str, Any], expected: bool) -> None:
    parsed = parse_filter(given)
    assert parsed is not None
    assert matcher(parsed)(ATTRIBUTES) is expected


def nested(levels: int) -> dict[str, Any]:
    found = compare("eq", "a", 1)
    for _ in range(levels):
        found = {"type": "and", "filters": [found]}
    return found


@pytest.mark.requirement("VECTOR-STORES/search-filter-errors")
@pytest.mark.parametrize(
    ("given", "param"),
    [
        ("x", "filters"),
        ([], "filters"),
        ({}, "filters.type"),
        ({"type": "not", "filters": []}, "filters.type"),
        ({"type": ["eq"]}, "filters.type"),
        ({"type": "eq", "value": 1}, "filters.key"),
        ({"type": "eq", "key": 1, "value": 1}, "filters.key"),
        ({"type": "eq", "key": "a"}, "filters.value"),
        (compare("eq", "a", [1]), "filters.value"),
        (compare("eq", "a", {}), "filters.value"),
        (compare("gt", "a", True), "filters.value"),
        (compare("in", "a", "x"), "filters.value"),
        (compare("in", "a", ["x", None]), "filters.value[1]"),
        (compare("in", "a", ["x"] * (MAX_FILTER_VALUES + 1)), "filters.value"),
        ({"type": "and"}, "filters.filters"),
        ({"type": "or", "filters": {}}, "filters.filters"),
        ({"type": "or", "filters": []}, "filters.filters"),
        ({"type": "and", "filters": [compare("eq", "a", 1), 3]}, "filters.filters[1]"),
        (
            {"type": "and", "filters": [{"type": "or", "filters": [{"type": "eq", "value": 1}]}]},
            "filters.filters[0].filters[0].key",
        ),
        (nested(MAX_FILTER_NESTING), "filters" + ".filters[0]" * (MAX_FILTER_NESTING - 1)),
        (
            {"type": "and", "filters": [compare("eq", "a", 1)] * (MAX_FILTER_CONDITIONS + 1)},
            f"filters.filters[{MAX_FILTER_CONDITIONS}]",
        ),
    ],
)
def test_what_is_no_filter_is_named_by_its_full_path(given: Any, param: str) -> None:
    with pytest.raises(InvalidRequest) as raised:
        parse_filter(given)
    assert raised.value.param == param


def test_the_deepest_filter_is_parsed() -> None:
    assert parse_filter(nested(MAX_FILTER_NESTING - 1)) is not None
    assert parse_filter(None) is None


def test_the_keys_that_a_filter_reads() -> None:
    assert filter_keys(None) == ()
    both = {"type": "or", "filters": [compare("eq", "a", 1), compare("ne", "b", 2), compare("gt", "a", 3)]}
    assert filter_keys(parse_filter(both)) == ("a", "b")


class Counted(str):
    """A text that counts with how many others it is compared."""

    __slots__ = ()
    comparisons = 0

    def __eq__(self, other: object) -> bool:
        Counted.comparisons += 1
        return super().__eq__(other)

    __hash__ = str.__hash__


@pytest.mark.parametrize("operator", ["in", "nin"])
def test_a_value_is_looked_up_in_a_long_list(operator: Any) -> None:
    """A search compares every file of a store with every condition."""
    values = tuple(Counted(f"value {number}") for number in range(MAX_FILTER_VALUES))
    matches = matcher(Comparison(operator, "k", values))
    Counted.comparisons = 0
    found = [matches({"k": f"value {number}"}) for number in range(2 * MAX_FILTER_VALUES)]
    assert found.count(operator == "in") == MAX_FILTER_VALUES
    assert Counted.comparisons < 3 * MAX_FILTER_VALUES
