"""The scope filter: admitted chunks, and rejections with their path."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.errors import InvalidRequest, Unsupported
from antiphon.retrieval.scope import MAX_DEPTH, Scope, parse_scope

CHUNK: dict[str, object] = {
    "id": "docs/guide/runs.md#1",
    "path": "docs/guide/runs.md",
    "folder": ["docs/guide", "docs"],
    "file_name": "runs.md",
    "extension": [".md", "md"],
    "language": "markdown",
    "symbol": "Runs > How to cancel",
    "symbol_type": None,
    "start_line": 10,
    "end_line": 30,
    "version": 1,
    "tags": [],
}


def condition(key: str, **tests: Any) -> dict[str, Any]:
    return {"key": key, **{("except" if name == "except_" else name): test for name, test in tests.items()}}


def admits(value: object) -> bool:
    return parse_scope(value).admits(CHUNK)


MARKDOWN = condition("language", match={"value": "markdown"})
PYTHON = condition("language", match={"value": "python"})
EARLY = condition("start_line", range={"lt": 20})
LATE = condition("start_line", range={"gte": 20})


@pytest.mark.parametrize(
    "empty_filter", [None, {}, {"must": [], "should": []}, {"must": None}, {"conditions": []}]
)
def test_no_filter_admits_everything(empty_filter: object) -> None:
    assert admits(empty_filter)


def test_all_of_must_have_to_hold() -> None:
    assert admits({"must": [MARKDOWN, EARLY]})
    assert not admits({"must": [MARKDOWN, LATE]})


def test_no_must_not_condition_may_hold() -> None:
    assert admits({"must_not": [PYTHON, LATE]})
    assert not admits({"must_not": [PYTHON, EARLY]})


def test_one_of_should_has_to_hold() -> None:
    assert admits({"should": [PYTHON, EARLY]})
    assert not admits({"should": [PYTHON, LATE]})


def test_min_should_counts() -> None:
    three = [MARKDOWN, EARLY, PYTHON]
    assert admits({"min_should": {"min_count": 2, "conditions": three}})
    assert not admits({"min_should": {"min_count": 3, "conditions": three}})


def test_the_parts_of_a_filter_hold_together() -> None:
    assert not admits({"must": [MARKDOWN], "must_not": [EARLY]})
    assert not admits({"must": [MARKDOWN], "should": [LATE]})


def test_a_filter_may_be_nested_as_a_condition() -> None:
    assert admits({"must": [{"should": [PYTHON, {"must": [MARKDOWN, EARLY]}]}]})
    assert not admits({"must": [{"should": [PYTHON, {"must": [MARKDOWN, LATE]}]}]})


@pytest.mark.parametrize(
    ("stated", "holds"),
    [
        (condition("path", match={"value": "docs/guide/runs.md"}), True),
        (condition("path", match={"value": "docs/guide/RUNS.md"}), False),
        (condition("folder", match={"value": "docs"}), True),
        (condition("folder", match={"value": "doc"}), False),
        (condition("extension", match={"any": ["md", "txt"]}), True),
        (condition("extension", match={"any": ["py"]}), False),
        (condition("extension", match={"except": ["md"]}), False),
        (condition("extension", match={"except": ["py"]}), True),
        (condition("colour", match={"except": ["red"]}), False),
        (condition("colour", match={"value": "red"}), False),
        (condition("symbol", match={"text": "CANCEL runs"}), True),
        (condition("symbol", match={"text": "cancel them"}), False),
        (condition("symbol", match={"phrase": "to cancel"}), True),
        (condition("symbol", match={"phrase": "to can"}), False),
        (condition("symbol", match={"phrase": "cancel to"}), False),
        (condition("start_line", range={"gt": 10}), False),
        (condition("start_line", range={"gte": 10, "lte": 10}), True),
        (condition("start_line", range={"lt": 10}), False),
        (condition("path", range={"gt": 0}), False),
        (condition("version", match={"value": 1}), True),
        (condition("version", match={"value": True}), False),
        (condition("folder", values_count={"gte": 2}), True),
        (condition("folder", values_count={"gt": 2}), False),
        (condition("symbol_type", is_empty=True), True),
        (condition("symbol", is_empty=True), False),
        (condition("symbol", is_empty=False), True),
        (condition("colour", is_empty=True), True),
        (condition("tags", is_empty=True), True),
        (condition("tags", is_null=True), False),
        (condition("colour", is_null=True), False),
        (condition("symbol_type", is_null=True), True),
        ({"is_null": {"key": "symbol_type"}}, True),
        ({"is_empty": {"key": "symbol"}}, False),
        ({"has_id": ["x", "docs/guide/runs.md#1"]}, True),
        ({"has_id": ["x"]}, False),
        (condition("start_line", match={"value": 10}, range={"gt": 10}), False),
    ],
)
def test_conditions_match_as_documented(stated: dict[str, Any], holds: bool) -> None:
    assert admits({"must": [stated]}) is holds
    assert admits({"must_not": [stated]}) is not holds


@pytest.mark.parametrize(
    ("operator", "values", "holds"),
    [
        ("==", ["text", "markdown"], True),
        ("==", ["mark"], False),
        ("!=", ["text"], True),
        ("!=", ["text", "markdown"], False),
        ("contains", ["KDO"], True),
        ("contains", ["python"], False),
        ("does_not_contain", ["python"], True),
        ("doesNotContain", ["python", "down"], False),
    ],
)
def test_operators_match_as_documented(operator: str, values: list[str], holds: bool) -> None:
    assert admits({"conditions": [{"key": "language", "operator": operator, "values": values}]}) is holds


def test_all_conditions_with_operators_have_to_hold() -> None:
    markdown = {"key": "language", "operator": "==", "values": ["markdown"]}
    elsewhere = {"key": "path", "operator": "contains", "values": ["src/"]}
    assert not admits({"conditions": [markdown, elsewhere]})


def test_an_absent_key_is_not_equal_to_anything() -> None:
    assert admits({"conditions": [{"key": "colour", "operator": "!=", "values": ["red"]}]})
    assert not admits({"conditions": [{"key": "colour", "operator": "==", "values": ["red"]}]})


@pytest.mark.parametrize(
    "names", [("must_not", "start_line"), ("mustNot", "startLine"), ("MustNot", "StartLine")]
)
def test_names_are_read_in_any_case(names: tuple[str, str]) -> None:
    part, key = names
    assert not admits({part: [{"Key": key, "RANGE": {"Gte": 10}}]})
    assert admits({part: [{"Key": key, "RANGE": {"Gte": 11}}]})


def test_a_null_member_is_an_absent_one() -> None:
    stated = {"key": "language", "match": {"value": "markdown", "any": None}, "range": None, "nested": None}
    assert admits({"must": [stated], "min_should": None})


MALFORMED: list[tuple[Any, str]] = [
    ("docs", "ragScopeFilter"),
    ([], "ragScopeFilter"),
    ({"where": []}, "ragScopeFilter.where"),
    ({"must": {}}, "ragScopeFilter.must"),
    ({"must": ["x"]}, "ragScopeFilter.must[0]"),
    ({"must": [{}]}, "ragScopeFilter.must[0]"),
    ({"must": [MARKDOWN, {"key": "path"}]}, "ragScopeFilter.must[1]"),
    ({"must": [{"match": {"value": 1}}]}, "ragScopeFilter.must[0]"),
    ({"must": [{"key": 7, "match": {"value": 1}}]}, "ragScopeFilter.must[0].key"),
    ({"must": [{"key": " ", "match": {"value": 1}}]}, "ragScopeFilter.must[0].key"),
    ({"must": [condition("path", match={})]}, "ragScopeFilter.must[0].match"),
    ({"must": [condition("path", match={"value": 1, "any": [1]})]}, "ragScopeFilter.must[0].match"),
    ({"must": [condition("path", match={"regex": "x"})]}, "ragScopeFilter.must[0].match.regex"),
    ({"must": [condition("path", match={"value": {}})]}, "ragScopeFilter.must[0].match.value"),
    ({"must": [condition("path", match={"any": []})]}, "ragScopeFilter.must[0].match.any"),
    ({"must": [condition("path", match={"any": ["a", []]})]}, "ragScopeFilter.must[0].match.any[1]"),
    ({"must": [condition("path", match={"text": "…"})]}, "ragScopeFilter.must[0].match.text"),
    ({"must": [condition("path", match={"phrase": 1})]}, "ragScopeFilter.must[0].match.phrase"),
    ({"must": [condition("end_line", range={})]}, "ragScopeFilter.must[0].range"),
    ({"must": [condition("end_line", range={"gt": "1"})]}, "ragScopeFilter.must[0].range.gt"),
    ({"must": [condition("end_line", range={"gt": True})]}, "ragScopeFilter.must[0].range.gt"),
    ({"must": [condition("path", is_empty="yes")]}, "ragScopeFilter.must[0].is_empty"),
    ({"must": [{"is_null": {}}]}, "ragScopeFilter.must[0].is_null"),
    ({"must": [{"has_id": "x"}]}, "ragScopeFilter.must[0].has_id"),
    ({"must": [{"should": [{"must_not": [3]}]}]}, "ragScopeFilter.must[0].should[0].must_not[0]"),
    ({"mustNot": [{"Key": "path", "keY": "path"}]}, "ragScopeFilter.mustNot[0].keY"),
    ({"min_should": {"conditions": [MARKDOWN]}}, "ragScopeFilter.min_should"),
    (
        {"min_should": {"min_count": 0, "conditions": [MARKDOWN]}},
        "ragScopeFilter.min_should.min_count",
    ),
    (
        {"min_should": {"min_count": 2, "conditions": [MARKDOWN]}},
        "ragScopeFilter.min_should.conditions",
    ),
    ({"conditions": [{"key": "path", "values": ["x"]}]}, "ragScopeFilter.conditions[0]"),
    (
        {"conditions": [{"key": "path", "operator": ">", "values": ["x"]}]},
        "ragScopeFilter.conditions[0].operator",
    ),
    (
        {"conditions": [{"key": "path", "operator": "==", "values": []}]},
        "ragScopeFilter.conditions[0].values",
    ),
]


@pytest.mark.parametrize(("value", "place"), MALFORMED)
def test_malformed_filters_are_rejected_with_their_path(value: object, place: str) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        parse_scope(value)
    assert refusal.value.param == place
    assert f"`{place}`" in refusal.value.message


def test_nested_is_rejected_as_not_supported() -> None:
    nested: dict[str, Any] = {"must": [{"nested": {"key": "a", "filter": {}}}]}
    with pytest.raises(Unsupported) as refusal:
        parse_scope(nested, "modes.ask.rag_scope")
    assert refusal.value.param == "modes.ask.rag_scope.must[0].nested"


def test_filters_in_filters_have_a_bottom() -> None:
    deep: dict[str, Any] = {"must": [MARKDOWN]}
    for _ in range(MAX_DEPTH - 1):
        deep = {"must": [deep]}
    assert admits(deep)
    with pytest.raises(InvalidRequest, match="deep"):
        parse_scope({"must": [deep]})


def test_both_scopes_have_to_admit() -> None:
    markdown, early, late = (parse_scope({"must": [one]}) for one in (MARKDOWN, EARLY, LATE))
    assert markdown.both(early).admits(CHUNK)
    assert not markdown.both(late).admits(CHUNK)
    assert not late.both(markdown).admits(CHUNK)
    assert Scope().both(late) == late == late.both(Scope())


ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["must", "should", "conditions", "key", "match", "any", "range", "gt", "is_empty", "has_id"]
            ),
            inner,
            max_size=3,
        )
    ),
    max_leaves=20,
)


@given(ANY_JSON)
def test_any_json_is_a_scope_or_rejected_with_a_path(value: object) -> None:
    try:
        scope = parse_scope(value)
    except InvalidRequest as refusal:
        assert refusal.param is not None
        assert refusal.param.startswith("ragScopeFilter")
    else:
        assert scope.admits(CHUNK) in (True, False)
