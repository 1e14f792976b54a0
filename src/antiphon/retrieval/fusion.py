"""Hybrid scores: the similarity of vectors and the match of words, in one number from 0 to 1. Sans-IO.

A similarity is a cosine. A lexical score is divided by the best one of the search. So neither depends on how
many chunks were candidates, unlike ranks and scores that are stretched between the least and the greatest.
"""

from collections.abc import Mapping
from typing import NamedTuple, TypeVar

SIMILARITY_WEIGHT = 0.7
"""Of the similarity, unless the search has weights; the rest is that of the words."""
MIN_SIMILARITY = 0.25
"""A chunk without any word of the query must be more similar than this: every vector has some similarity."""

Key = TypeVar("Key")


class Score(NamedTuple):
    """How well a chunk matches, from 0 to 1: by both together, by its words, and by its meaning."""

    mixed: float
    text: float = 0.0
    vector: float = 0.0


def fuse(
    lexical: Mapping[Key, float],
    similarities: Mapping[Key, float],
    similarity_weight: float = SIMILARITY_WEIGHT,
) -> dict[Key, Score]:
    """The scores of all keys of both, without those that are neither similar nor share a word.

    With a weight of 0, only words count, and with 1 only similarities.
    """
    best = max(lexical.values(), default=0.0)
    scores: dict[Key, Score] = {}
    for key in {**lexical, **similarities}:
        similarity = max(0.0, similarities.get(key, 0.0))
        words = max(0.0, lexical.get(key, 0.0)) / best if best > 0 else 0.0
        is_match = key in lexical and similarity_weight < 1
        if is_match or (similarity >= MIN_SIMILARITY and similarity_weight > 0):
            mixed = similarity_weight * similarity + (1 - similarity_weight) * words
            scores[key] = Score(mixed, words, similarity)
    return scores
