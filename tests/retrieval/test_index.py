"""The index: results, their order, and scopes."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.retrieval.base import RagChunk
from antiphon.retrieval.chunking import cut
from antiphon.retrieval.index import ChunkIndex
from antiphon.retrieval.scope import Scope, parse_scope

EVERYTHING = Scope()
FILLER = {f"filler/{number}.txt": f"Sentence {number} about weather and food." for number in range(20)}


@pytest.fixture
def index() -> Iterator[ChunkIndex]:
    opened = ChunkIndex()
    yield opened
    opened.close()


def put(index: ChunkIndex, **files: str) -> None:
    """Files by name; `__` is replaced by a dot, `___` by a slash."""
    named = {name.replace("___", "/").replace("__", "."): text for name, text in files.items()}
    index.replace((path, cut(path, text)) for path, text in (named | FILLER).items())


def paths(chunks: list[RagChunk]) -> list[str]:
    return [chunk.path for chunk in chunks]


def test_a_chunk_is_returned_unchanged_with_a_score(index: ChunkIndex) -> None:
    [source_chunk] = cut("docs/a.md", "# Cats\n\nA cat purrs.\n")
    index.replace([("docs/a.md", [source_chunk])])
    [found] = index.search("purring cat", EVERYTHING, 5)
    assert found.score > 0
    assert (found.id, found.path, found.text) == (source_chunk.id, source_chunk.path, source_chunk.text)
    assert (found.start_line, found.end_line, found.language) == (1, 3, "markdown")
    assert (found.symbol, found.symbol_type) == ("Cats", "section")


def test_terms_are_found_in_other_forms_and_without_accents(index: ChunkIndex) -> None:
    put(index, a__txt="The response was cancelled in the café.")
    assert paths(index.search("cancelling responses", EVERYTHING, 1)) == ["a.txt"]
    assert paths(index.search("CAFE", EVERYTHING, 1)) == ["a.txt"]


def test_a_rare_word_weighs_more_than_a_common_one(index: ChunkIndex) -> None:
    put(index, rare__txt="The axolotl sleeps.", common__txt="weather weather food food")
    assert paths(index.search("weather food axolotl", EVERYTHING, 1)) == ["rare.txt"]


def test_a_hit_in_a_symbol_or_a_path_weighs_more_than_one_in_the_text(index: ChunkIndex) -> None:
    put(index)
    index.replace(
        [
            ("x/a", [RagChunk("text", "x/a", 1, 1, "", "lease words here", "name")]),
            ("lease/c", [RagChunk("path", "lease/c", 1, 1, "", "some words here", "name")]),
            ("x/b", [RagChunk("symbol", "x/b", 1, 1, "", "some words here", "lease")]),
        ]
    )
    assert [found.id for found in index.search("lease", EVERYTHING, 3)] == ["symbol", "path", "text"]


def test_a_name_is_found_by_its_parts_and_parts_by_a_name(index: ChunkIndex) -> None:
    put(index, a__ts="const parseScope = 1", b__py="previous_response_id = 2")
    assert paths(index.search("how is a scope parsed", EVERYTHING, 1)) == ["a.ts"]
    assert paths(index.search("previousResponseId", EVERYTHING, 1)) == ["b.py"]
    assert paths(index.search("response", EVERYTHING, 1)) == ["b.py"]


def test_adjacent_parts_of_a_name_rank_above_separate_words(index: ChunkIndex) -> None:
    put(index, apart__txt="id of a response, the previous", name__txt="set previous_response_id, of a")
    assert paths(index.search("previous_response_id", EVERYTHING, 2)) == ["name.txt", "apart.txt"]


@pytest.mark.parametrize(
    "operator", ['"', "purr*", "a AND", "NOT purr", "NEAR(", "text:purr", "^purr", "(((", "-purr"]
)
def test_a_question_is_never_syntax(index: ChunkIndex, operator: str) -> None:
    put(index, a__txt="A cat purrs.")
    found = index.search(f"{operator} cat", EVERYTHING, 5)
    assert paths(found) == ["a.txt"]


@given(st.text())
def test_no_question_is_an_error(query: str) -> None:
    index = ChunkIndex()
    index.replace([("a.txt", cut("a.txt", query + "\nand words"))])
    assert len(index.search(query, EVERYTHING, 3)) <= 1
    index.close()


def test_a_query_without_terms_finds_nothing(index: ChunkIndex) -> None:
    put(index, a__txt="how is it")
    assert index.search("", EVERYTHING, 5) == []
    assert index.search("how is it?", EVERYTHING, 5) == []
    assert index.search("weather", EVERYTHING, 0) == []


def test_a_narrow_scope_finds_its_chunks_despite_many_better_hits(index: ChunkIndex) -> None:
    many = {f"many/{number}.md": f"# lease\n\nlease lease {number}" for number in range(300)}
    index.replace((path, cut(path, text)) for path, text in many.items())
    put(index, deep___one__txt="It rains, and somewhere there is a lease. " + "Other words follow. " * 30)
    scope = parse_scope({"must": [{"key": "folder", "match": {"value": "deep"}}]})
    assert paths(index.search("lease", scope, 1)) == ["deep/one.txt"]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("path", "docs/deep/a.md"),
        ("file_name", "a.md"),
        ("folder", "docs"),
        ("folder", "docs/deep"),
        ("extension", "md"),
        ("extension", ".md"),
        ("language", "markdown"),
        ("symbol", "Cats"),
        ("symbol_type", "section"),
        ("start_line", 1),
        ("end_line", 3),
    ],
)
def test_a_scope_may_ask_about(index: ChunkIndex, key: str, value: object) -> None:
    put(index, docs___deep___a__md="# Cats\n\nA cat.", b__txt="\nA cat.")
    assert paths(
        index.search("cat", parse_scope({"must": [{"key": key, "match": {"value": value}}]}), 5)
    ) == ["docs/deep/a.md"]


def test_a_scope_may_name_ids(index: ChunkIndex) -> None:
    put(index, a__txt="A cat.", b__txt="A cat.")
    wanted = index.search("cat", EVERYTHING, 2)[1]
    assert index.search("cat", parse_scope({"must": [{"has_id": [wanted.id]}]}), 2)[0].id == wanted.id


def test_of_one_symbol_only_the_best_chunk_is_found(index: ChunkIndex) -> None:
    def chunk(name: str, symbol: str, text: str) -> RagChunk:
        return RagChunk(name, "a.md", 1, 1, "markdown", text, symbol, "section")

    index.replace([("a.md", [chunk("1", "Cats", "one cat and a dog"), chunk("2", "CATS", "cat cat")])])
    assert [found.id for found in index.search("cat", EVERYTHING, 5)] == ["2"]
    index.replace([("a.md", [chunk("1", "", "one cat and a dog"), chunk("2", "", "cat cat")])])
    assert [found.id for found in index.search("cat", EVERYTHING, 5)] == ["2", "1"]


def test_duplicates_do_not_use_up_the_limit(index: ChunkIndex) -> None:
    same = [RagChunk(str(number), "a.md", 1, 1, "markdown", "cat cat", "Cats") for number in range(60)]
    put(index, b__txt="A cat, at the end of a much longer sentence about something else.")
    index.replace([("a.md", same)])
    assert sorted(paths(index.search("cat", EVERYTHING, 2))) == ["a.md", "b.txt"]


def test_a_file_that_is_put_again_is_replaced(index: ChunkIndex) -> None:
    put(index, a__txt="cat")
    put(index, a__txt="dog")
    assert index.search("cat", EVERYTHING, 5) == []
    assert paths(index.search("dog", EVERYTHING, 5)) == ["a.txt"]


def test_a_file_that_is_removed_is_not_found(index: ChunkIndex) -> None:
    put(index, a__txt="cat", b__txt="cat")
    index.remove(["a.txt", "never.txt"])
    assert paths(index.search("cat", EVERYTHING, 5)) == ["b.txt"]


def test_a_failed_replacement_is_rolled_back(index: ChunkIndex) -> None:
    put(index, a__txt="cat")

    def failing() -> Iterator[tuple[str, list[RagChunk]]]:
        yield "a.txt", []
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        index.replace(failing())
    assert paths(index.search("cat", EVERYTHING, 5)) == ["a.txt"]


def test_an_index_in_a_file_is_there_again(tmp_path: Path) -> None:
    for _ in range(2):
        index = ChunkIndex(str(tmp_path / "index.db"))
        index.replace([("a.txt", cut("a.txt", "cat"))])
        index.close()
    again = ChunkIndex(str(tmp_path / "index.db"))
    assert paths(again.search("cat", EVERYTHING, 5)) == ["a.txt"]
    again.close()
