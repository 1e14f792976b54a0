"""Words of chunks, as tokens of a full-text index that finds chunks by token and knows nothing else.

A token names the set of chunks, the term and how often it occurs. So the chunks of a term in one set are
one list, whatever other sets hold, and how often it occurs in each is known without a look at the chunk.
The term is hashed: every text is one token of the same form, in the index of every database. Counts are
rounded to a few levels, so that one term has few lists; BM25 differs little between large counts.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b

COUNT_LEVELS = (1, 2, 3, 4, 6, 9, 15)
"""How often a term occurs, rounded down."""
_HASH_BYTES = 8


def chunk_tokens(chunk_set: int, terms: Sequence[str]) -> str:
    """The tokens of a chunk, separated by spaces."""
    counts = Counter(terms)
    return " ".join(_token(chunk_set, term, _level(count)) for term, count in counts.items())


def term_tokens(chunk_set: int, term: str) -> list[str]:
    """The tokens that a term can have, in the order of `COUNT_LEVELS`."""
    return [_token(chunk_set, term, level) for level in range(len(COUNT_LEVELS))]


def _level(count: int) -> int:
    return bisect_right(COUNT_LEVELS, count) - 1


def _token(chunk_set: int, term: str, level: int) -> str:
    return f"{chunk_set:x}g{_hash(term)}{level}"


@lru_cache(maxsize=16_384)
def _hash(term: str) -> str:
    return blake2b(term.encode("utf-8", "surrogatepass"), digest_size=_HASH_BYTES).hexdigest()
