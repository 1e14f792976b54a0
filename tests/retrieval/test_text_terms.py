"""Terms of texts and queries of vector stores."""

from collections import Counter

import pytest

from antiphon.retrieval.terms import (
    MAX_QUERY_CHARS,
    MAX_TERMS,
    text_query_terms,
    text_terms,
    without_stop_words,
)


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("The engines were running.", "running engine"),
        ("Crème brûlée", "creme brulee"),
        ("CREME BRULEE", "crème brûlée"),
        ("Ｗｉｄｅ ｌｅｔｔｅｒｓ", "wide letters"),
        ("def parseScope(self)", "parse scope"),
        ("def parse_scope(self)", "parseScope"),
        ("HTTPServer", "http server"),
        ("東京都庁は新宿にある", "新宿"),
        ("東京都庁は新宿にある", "庁"),
        ("这家公司成立于一九九八年", "公司"),
        ("ภาษาไทยไม่มีช่องว่าง", "ไทย"),
        ("ສະບາຍດີຊາວໂລກ", "ຊາວ"),
        ("안녕하세요 세계", "세계"),
        ("Привет, мир!", "мир"),
        ("Order number A-4711/x9", "4711"),
    ],
)
def test_a_query_shares_its_terms_with_the_text(text: str, query: str) -> None:
    wanted = text_query_terms(query)
    assert wanted
    assert set(wanted) <= set(text_terms(text))


def test_terms_are_repeated_as_often_as_they_occur() -> None:
    counts = Counter(text_terms("Cat, cats and a cat-like dog"))
    assert (counts["cat"], counts["dog"]) == (3, 1)


def test_unspaced_text_does_not_match_by_single_characters_of_longer_queries() -> None:
    assert text_query_terms("東京") == ["東京"]


def test_stop_words_of_a_query_count_only_alone() -> None:
    assert text_query_terms("What is the weather?") == ["weather"]
    assert text_query_terms("to be or not to be") == ["to", "be", "or", "not"]
    assert text_query_terms("?!") == []


def test_a_query_has_a_limited_number_of_distinct_terms() -> None:
    terms = text_query_terms(" ".join(f"word{number}" for number in range(500)))
    assert len(terms) == len(set(terms)) == MAX_TERMS


@pytest.mark.parametrize("text", ["x" * 10_000, "_" * 1000, "\ud800", "\x00", "a\u0301" * 100])
def test_terms_are_short_and_without_spaces(text: str) -> None:
    assert all(1 <= len(term) <= 64 and not any(map(str.isspace, term)) for term in text_terms(text))


def test_rewriting_drops_words_without_meaning() -> None:
    assert without_stop_words("What is the weather like in the woods?") == "weather like woods"
    assert without_stop_words("to be or not to be") == "to be or not to be"


def test_the_end_of_a_very_long_query_is_left_out() -> None:
    assert len(without_stop_words("word " * MAX_QUERY_CHARS)) <= MAX_QUERY_CHARS
