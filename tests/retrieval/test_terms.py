"""Terms of a query, and the parts of names."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.retrieval.terms import MAX_TERMS, name_parts, parts_of, query_terms


def test_stop_words_are_omitted() -> None:
    assert query_terms("How do I cancel the response?") == ["cancel", "response"]


@pytest.mark.parametrize("query", ["", "  ", "?!", "how do I", "\0", "__", "\ud800"])
def test_a_query_without_words_has_no_terms(query: str) -> None:
    assert query_terms(query) == []


def test_a_name_is_a_term_and_so_are_its_parts() -> None:
    assert query_terms("previous_response_id") == ["previous_response_id", "previous", "response", "id"]
    assert query_terms("parseScope") == ["parsescope", "parse", "scope"]


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("HTTPServer", ["HTTP", "Server"]),
        ("parse_scopeFilter", ["parse", "scope", "Filter"]),
        ("plain", []),
        ("PLAIN", []),
        ("utf8Text", ["utf8", "Text"]),
    ],
)
def test_a_name_is_parted_where_its_case_changes(name: str, parts: list[str]) -> None:
    assert parts_of(name) == parts


def test_the_parts_of_names_in_a_text_are_listed_once() -> None:
    assert name_parts("call parseScope, then parseText or parse_it") == "parse Scope Text"


@given(st.text(max_size=400))
def test_terms_are_distinct_words_and_not_too_many(query: str) -> None:
    terms = query_terms(query + " word" * 10)
    assert len(terms) == len(set(terms)) <= MAX_TERMS
    assert all(term.strip() and '"' not in term for term in terms)


def test_a_question_as_long_as_a_book_has_as_many_terms_as_are_searched() -> None:
    assert len(query_terms(" ".join(f"word{number}" for number in range(10_000)))) == MAX_TERMS
