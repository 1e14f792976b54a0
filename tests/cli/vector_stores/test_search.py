"""`antiphon vector-stores search`: hits with score, file, page and highlighted words."""

import json
from pathlib import Path
from typing import Any

import pytest

from antiphon.cli.vector_stores.search import highlighted
from antiphon.retrieval.terms import text_query_terms
from tests.cli.conftest import Run
from tests.cli.vector_stores.conftest import EmbeddingModel


@pytest.fixture
def handbook(run: Run, model: EmbeddingModel, docs: Path) -> None:
    run("vector-stores", "add", "docs/holidays.md", "--store", "handbook", "--attribute", "year=2026")
    run("vector-stores", "add", "docs/money", "--store", "handbook", "--attribute", "year=2025")


def search(run: Run, *arguments: str) -> list[dict[str, Any]]:
    result = run("vector-stores", "search", "handbook", *arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


@pytest.mark.usefixtures("handbook")
def test_hits_are_printed_with_score_file_and_section(run: Run) -> None:
    printed = run("vector-stores", "search", "handbook", "days of leave", "--limit", "1").stdout
    heading, text = printed.splitlines()
    score, where = heading.split("  ")
    assert 0 < float(score) <= 1
    assert where == "docs/holidays.md, Holidays"
    assert "28 days of leave" in text


@pytest.mark.usefixtures("handbook")
def test_filters_choose_files(run: Run) -> None:
    def found(*filters: str) -> set[str]:
        options = [part for each in filters for part in ("--filter", each)]
        return {hit["filename"] for hit in search(run, "holidays trains", *options)}

    assert found() == {"holidays.md", "expenses.md"}
    assert found("year=2026") == {"holidays.md"}
    assert found("path=docs/money/expenses.md") == {"expenses.md"}
    assert found('{"type": "lt", "key": "year", "value": 2026}') == {"expenses.md"}
    assert found("year=2026", "path=docs/money/expenses.md") == set()


@pytest.mark.usefixtures("handbook")
def test_nothing_found_is_said(run: Run) -> None:
    result = run("vector-stores", "search", "handbook", "x", "--filter", "year=1999")
    assert (result.exit_code, result.stdout) == (0, "Nothing was found.\n")


@pytest.mark.usefixtures("handbook")
def test_bad_input_is_wrong_usage(run: Run) -> None:
    for arguments in (
        ("nobody", "question"),
        ("handbook", " "),
        ("handbook", "x", "--limit", "0"),
        ("handbook", "x", "--limit", "51"),
        ("handbook", "x", "--filter", "year"),
        ("handbook", "x", "--filter", "{"),
        ("handbook", "x", "--filter", '{"type": "near", "key": "a", "value": 1}'),
    ):
        assert run("vector-stores", "search", *arguments).exit_code == 2, arguments


@pytest.mark.usefixtures("handbook")
def test_an_embedding_model_that_is_down_is_an_error(run: Run, model: EmbeddingModel) -> None:
    model.may_answer.clear()
    result = run("vector-stores", "search", "handbook", "days")
    assert result.exit_code == 1
    assert "theirs" in result.stderr


def marked(text: str, question: str) -> list[str]:
    shown = highlighted(text, frozenset(text_query_terms(question)))
    return [shown.plain[span.start : span.end] for span in shown.spans]


@pytest.mark.parametrize(
    ("text", "question", "words"),
    [
        ("Days of leave, or a holiday.", "How many holidays?", ["holiday"]),
        ("Trains are second class.", "the train", ["Trains"]),
        ("The café is closed.", "cafe", ["café"]),
        ("請假需要提前申請。", "請假", ["請假"]),
        ("Nothing of it.", "elephant", []),
    ],
)
def test_words_are_highlighted_in_all_their_forms(text: str, question: str, words: list[str]) -> None:
    assert marked(text, question) == words


def test_a_long_text_is_shown_around_the_first_word() -> None:
    shown = highlighted(f"{'before ' * 200}holiday {'after ' * 200}", {"holidai", "holiday"}).plain
    assert "holiday" in shown
    assert shown.startswith("…before")
    assert shown.endswith("…")
    assert len(shown) < 410
