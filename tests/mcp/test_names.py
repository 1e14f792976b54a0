"""Names of functions for tools of MCP servers."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.mcp.names import MAX_FUNCTION_NAME_CHARS, FunctionNames, QualifiedTool

FUNCTION_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
TEXT = st.text(st.characters(codec="utf-8"), min_size=1, max_size=80)
NAME = st.one_of(st.sampled_from(["a", "b", "a.b", "a_b", "x__a", "n" * 64, "n" * 65]), TEXT)


def names_of(*tools: tuple[str, str], reserved: tuple[str, ...] = ()) -> list[str]:
    names = FunctionNames([QualifiedTool(*tool) for tool in tools], reserved)
    return [names.function_name(*tool) for tool in tools]


def test_a_name_is_kept_if_that_is_possible() -> None:
    assert names_of(("s", "search"), ("s", "fetch-page")) == ["search", "fetch-page"]


def test_the_same_name_on_two_servers_is_qualified() -> None:
    assert names_of(("s", "search"), ("t", "search"), ("t", "fetch")) == ["s__search", "t__search", "fetch"]


def test_a_name_of_another_tool_of_the_request_is_qualified() -> None:
    assert names_of(("s", "search"), reserved=("search",)) == ["s__search"]


@pytest.mark.parametrize("name", ["a.b", "a/b", "ä", "n" * 65, " "])
def test_other_names_end_with_a_digest(name: str) -> None:
    (found,) = names_of(("s", name))
    assert FUNCTION_NAME.fullmatch(found)
    assert re.search(r"_[0-9a-f]{8}$", found)
    assert names_of(("s", name)) == [found]
    assert names_of(("t", name)) != [found]


def test_names_that_become_the_same_stay_apart() -> None:
    assert (
        len(set(names_of(("s", "a.b"), ("s", "a/b"), ("s", "a_b"), ("s", "x" * 70 + "1"), ("s", "x" * 70))))
        == 5
    )
    assert len(set(names_of(("s", "a"), ("t", "a"), ("u", "s__a")))) == 3


@given(st.sets(st.builds(QualifiedTool, NAME, NAME), max_size=12), st.sets(NAME, max_size=4))
def test_every_tool_is_found_by_its_name(tools: set[QualifiedTool], reserved: set[str]) -> None:
    names = FunctionNames(tools, reserved)
    found = {tool: names.function_name(*tool) for tool in tools}
    assert all(FUNCTION_NAME.fullmatch(name) for name in found.values())
    assert {name: names.find(name) for name in found.values()} == {name: tool for tool, name in found.items()}
    assert len(set(found.values())) == len(tools)
    assert not reserved & set(found.values())
    again = FunctionNames(sorted(tools, reverse=True), reserved)
    assert {tool: again.function_name(*tool) for tool in tools} == found


def test_an_unknown_function() -> None:
    assert FunctionNames([]).find("search") is None
    assert MAX_FUNCTION_NAME_CHARS == 64
