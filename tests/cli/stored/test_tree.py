"""The drawing of branches."""

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.cli.stored.views import Forest
from antiphon.errors import NotFound
from antiphon.store.base import StoredResponse
from tests.cli.stored_responses import turn


def drawn(*oldest_first: StoredResponse, root: str | None = None) -> list[str]:
    forest = Forest(oldest_first[::-1])
    roots: Iterable[str] = forest.roots if root is None else [root]
    return [
        f"{line.lead} {line.stored.response.id}" if line.stored else line.lead
        for root in roots
        for line in forest.draw(root)
    ]


def test_a_line_of_turns_stays_in_its_column() -> None:
    assert drawn(turn("a"), turn("b", "a"), turn("c", "b")) == ["● a", "● b", "● c"]


def test_a_branch_gets_its_own_column() -> None:
    turns = [turn("a"), turn("b", "a"), turn("c", "b"), turn("d", "a"), turn("e", "d")]
    assert drawn(*turns) == ["● a", "├─● d", "│ ● e", "● b", "● c"]


def test_branches_of_branches() -> None:
    turns = [turn("a"), turn("b", "a"), turn("c", "a"), turn("d", "c"), turn("e", "c"), turn("f", "a")]
    assert drawn(*turns) == ["● a", "├─● c", "│ ├─● e", "│ ● d", "├─● f", "● b"]


def test_a_failed_response_is_not_on_the_main_line() -> None:
    turns = [turn("a"), turn("b", "a", status="failed"), turn("c", "a")]
    assert drawn(*turns) == ["● a", "├─● b", "● c"]


def test_every_first_response_is_a_separate_tree() -> None:
    turns = [turn("a"), turn("b"), turn("c", "a")]
    assert Forest(turns[::-1]).roots == ["a", "b"]
    assert drawn(*turns) == ["● a", "● c", "● b"]


def test_a_deleted_first_response_is_marked() -> None:
    assert drawn(turn("b", "deleted"), turn("c", "b")) == ["┄", "● b", "● c"]


def test_the_turns_of_a_conversation_are_a_line() -> None:
    turns = [
        turn("a", conversation="conv"),
        turn("x", conversation="other"),
        turn("b", conversation="conv"),
        turn("c", conversation="conv", status="failed"),
        turn("d", conversation="conv"),
        turn("e", "a"),
    ]
    assert drawn(*turns) == ["● a", "├─● e", "● b", "├─● c", "● d", "● x"]


def test_the_tree_of_a_response_begins_at_its_root() -> None:
    forest = Forest([turn("d"), turn("c", "b"), turn("b", "a"), turn("a")])
    assert (forest.root_of("c"), forest.root_of("a"), forest.root_of("d")) == ("a", "a", "d")
    with pytest.raises(NotFound, match="'nobody' not found"):
        forest.root_of("nobody")


@given(st.lists(st.integers(0, 30), max_size=30))
def test_every_response_is_drawn_once_after_its_parent(choices: list[int]) -> None:
    turns = [turn("r0")]
    turns += [turn(f"r{n}", f"r{choice % n}") for n, choice in enumerate(choices, 1)]
    lines = [line.split()[-1] for line in drawn(*turns)]
    assert sorted(lines) == sorted(stored.response.id for stored in turns)
    for stored in turns[1:]:
        assert lines.index(stored.parent or "") < lines.index(stored.response.id)


def test_a_very_long_chain_is_drawn() -> None:
    turns = [turn("r0"), *(turn(f"r{n}", f"r{n - 1}") for n in range(1, 5000))]
    assert drawn(*turns)[-1] == "● r4999"
