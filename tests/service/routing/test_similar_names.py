"""Names that are nearly the same."""

import pytest

from antiphon.service.routing.names import most_similar, similarity


@pytest.mark.parametrize(
    ("one", "other", "share"),
    [
        ("gpt-5-codex", "gpt-5.1-codex", 0.70),
        ("gpt-4", "gpt-4o", 0.75),
        ("gpt-5", "gpt-5-mini", 0.43),
        ("claude-opus-4-6", "claude-opus-4.6", 1.0),
        ("claude-opus-4-6", "claude-opus-4.6-1m", 0.846),
        ("llama-3", "gpt-4o", 0.0),
        ("", "gpt-4o", 0.0),
        ("é", "ü", 0.0),
    ],
)
def test_similarity_is_the_share_of_common_pairs(one: str, other: str, share: float) -> None:
    assert similarity(one, other) == pytest.approx(share, abs=0.005)
    assert similarity(other, one) == similarity(one, other)


def test_names_that_share_less_than_three_of_ten_pairs_are_not_similar() -> None:
    assert similarity("abcdefgh", "abcd1234") == pytest.approx(3 / 11)
    assert most_similar("abcdefgh", ["abcd1234"]) is None
    assert similarity("abcdefg", "abcd123") == pytest.approx(3 / 9)
    assert most_similar("abcdefg", ["abcd123"]) == "abcd123"


def test_the_most_similar_name_wins_if_it_is_similar_enough() -> None:
    assert most_similar("gpt-4", ["llama-3", "gpt-4o", "gpt-4o-mini"]) == "gpt-4o"
    assert most_similar("qwen", ["llama-3", "gpt-4o"]) is None
    assert most_similar("gpt-4", []) is None
