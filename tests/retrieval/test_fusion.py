"""Hybrid scores."""

from collections.abc import Mapping

from antiphon.retrieval.fusion import MIN_SIMILARITY, SIMILARITY_WEIGHT, Score, fuse


def mixed(scores: Mapping[str, Score]) -> dict[str, float]:
    return {key: score.mixed for key, score in scores.items()}


def test_the_best_of_both_has_one_and_each_alone_has_its_weight() -> None:
    scores = fuse({"both": 8.0, "words": 8.0}, {"both": 1.0, "similar": 1.0})
    assert mixed(scores) == {"both": 1.0, "words": 1 - SIMILARITY_WEIGHT, "similar": SIMILARITY_WEIGHT}


def test_lexical_scores_count_in_relation_to_the_best() -> None:
    scores = fuse({"a": 2.0, "b": 1.0}, {})
    assert scores["b"].mixed == scores["a"].mixed / 2


def test_what_is_neither_similar_nor_shares_a_word_is_left_out() -> None:
    assert fuse({}, {"a": MIN_SIMILARITY - 0.01, "b": -1.0, "c": MIN_SIMILARITY}).keys() == {"c"}
    assert fuse({}, {}) == {}


def test_opposite_vectors_do_not_lower_a_score_and_no_words_are_no_division_by_zero() -> None:
    assert mixed(fuse({"a": 1.0}, {"a": -0.5})) == {"a": 1 - SIMILARITY_WEIGHT}
    assert mixed(fuse({"a": 0.0}, {"a": 0.0})) == {"a": 0.0}


def test_a_weight_of_zero_counts_words_alone() -> None:
    scores = fuse({"a": 2.0, "b": 1.0}, {"a": 0.3, "c": 0.9}, 0.0)
    assert mixed(scores) == {"a": 1.0, "b": 0.5}


def test_a_weight_of_one_counts_similarity_alone() -> None:
    scores = fuse({"a": 2.0, "b": 1.0}, {"a": 0.3, "b": 0.1, "c": 0.9}, 1.0)
    assert mixed(scores) == {"a": 0.3, "c": 0.9}


def test_both_parts_of_a_score_are_known() -> None:
    scores = fuse({"a": 2.0, "b": 1.0}, {"a": 0.5, "c": 0.9})
    assert [scores[key][1:] for key in "abc"] == [(1.0, 0.5), (0.5, 0.0), (0.0, 0.9)]
