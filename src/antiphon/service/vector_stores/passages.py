"""The port of searches for passages, as `file_search`, the routes and the agent use it."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from antiphon.protocol.attribute_filters import Attribute, Filter
from antiphon.protocol.vector_stores import Ranker


class HybridWeights(Struct, frozen=True):
    """How much the similarity of vectors and the match of words count; at least one is above 0."""

    embedding: float
    text: float


class PassageQuery(Struct, frozen=True, kw_only=True):
    """A search: the results of all queries together, best first. Without weights, the defaults are used."""

    queries: tuple[str, ...]
    filter: Filter | None = None
    limit: int = 10
    ranker: Ranker = "auto"
    score_threshold: float = 0.0
    weights: HybridWeights | None = None


class Passage(Struct, frozen=True, kw_only=True):
    """A result. `ordinal` is the place of its first chunk in the file; `score` is from 0 to 1."""

    store_id: str
    file_id: str
    filename: str
    attributes: Mapping[str, Attribute]
    score: float
    text: str
    ordinal: int
    text_score: float = 0.0
    vector_score: float = 0.0
    """The match of words and of meaning, of which `score` is made."""
    label: str = ""
    """The section that it begins in, such as ``page 3``."""


class PassageSearch(Protocol):
    """Finds passages in the vector stores of a tenant."""

    async def check(self, tenant: str, store_ids: Sequence[str]) -> None:
        """Raise `NotFound` for a store that does not exist, and `InvalidRequest` for one that has expired."""
        ...

    async def search(self, tenant: str, store_ids: Sequence[str], query: PassageQuery) -> Sequence[Passage]:
        """The best passages of these stores. Raises the same, and `BackendError` if the embedding fails."""
        ...
