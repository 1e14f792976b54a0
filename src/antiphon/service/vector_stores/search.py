"""Finds passages: candidates of every store and query, scored by words and vectors, the neighbours joined."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from msgspec import Struct

from antiphon.embeddings.base import Vector
from antiphon.errors import BackendError, EmbeddingUnavailable, RerankingUnavailable
from antiphon.protocol.vector_stores import Search
from antiphon.retrieval.fusion import SIMILARITY_WEIGHT, Score, fuse
from antiphon.retrieval.reranking import Reranker
from antiphon.retrieval.terms import text_query_terms, without_stop_words
from antiphon.service.embeddings import Embeddings
from antiphon.service.vector_stores.models import check_dimensions, model_of
from antiphon.service.vector_stores.passages import Passage, PassageQuery
from antiphon.store.vector_stores import (
    CandidateQuery,
    FoundChunk,
    VectorStore,
    VectorStores,
    store_expired,
)

MAX_QUERY_CHARACTERS = 4000
"""Of a query that are embedded; the rest counts by its words."""
CANDIDATES = 100
"""By words, and by similarity, of each store and query."""
MAX_JOINED_CHUNKS = 3
MAX_RERANKED_CHUNKS = 50
MIN_OVERLAP_CHARACTERS = 8
"""A shorter equal end and beginning of two chunks may be a coincidence."""

Place = tuple[str, str, int]
"""Store, file and ordinal of a chunk."""


class _Range(Struct):
    """Adjacent chunks of a file that become one passage."""

    store_id: str
    file_id: str
    first: int
    last: int
    score: Score


def passage_query(search: Search) -> PassageQuery:
    """The search of a client. A rewritten query consists of the words that carry its meaning."""
    rewrite = without_stop_words if search.rewrite_query else str
    return PassageQuery(
        queries=tuple(map(rewrite, search.queries)),
        filter=search.filter,
        limit=search.max_num_results,
        ranker=search.ranking.ranker,
        score_threshold=search.ranking.score_threshold,
    )


@dataclass(frozen=True, slots=True)
class Passages:
    """The search over vector stores."""

    store: VectorStores
    embeddings: Embeddings
    reranker: Reranker | None = None

    async def check(self, tenant: str, store_ids: Sequence[str]) -> None:
        """Raise `NotFound` for a store that does not exist, and `InvalidRequest` for one that has expired."""
        await self._stores(tenant, store_ids)

    async def search(self, tenant: str, store_ids: Sequence[str], query: PassageQuery) -> Sequence[Passage]:
        """The best passages of these stores. Raises the same, and `BackendError` if the embedding fails."""
        stores = await self._stores(tenant, store_ids)
        for store in stores:
            await self.store.use_store(tenant, store.id)
        scores = await self._scores(tenant, stores, query)
        ranked = _best_first(scores)
        if self.reranker is not None and query.ranker != "none" and ranked:
            ranked = await self._reranked(
                self.reranker, tenant, ranked[:MAX_RERANKED_CHUNKS], query.queries[0]
            )
        passing = ((place, score) for place, score in ranked if score.mixed >= query.score_threshold)
        ranges = _join_neighbours(passing, query.limit)
        return await self._passages(tenant, ranges)

    async def _reranked(
        self, reranker: Reranker, tenant: str, ranked: Sequence[tuple[Place, Score]], query: str
    ) -> list[tuple[Place, Score]]:
        """The best chunks, in the order of the reranker, which reads the first query."""
        chunks = await self._chunks(tenant, [place for place, _ in ranked])
        try:
            scores = await reranker.scores(query, [chunk.text for chunk in chunks.values()])
        except BackendError as error:
            raise RerankingUnavailable(error) from error
        before = dict(ranked)
        return _best_first(
            {place: before[place]._replace(mixed=score) for place, score in zip(chunks, scores, strict=True)}
        )

    async def _stores(self, tenant: str, store_ids: Sequence[str]) -> list[VectorStore]:
        """The stores, each once."""
        found = [await self.store.store(tenant, store_id) for store_id in dict.fromkeys(store_ids)]
        for store in found:
            if store.is_expired:
                raise store_expired(store.id)
        return found

    async def _scores(
        self, tenant: str, stores: Sequence[VectorStore], query: PassageQuery
    ) -> dict[Place, Score]:
        """The best score of each chunk for any of the queries."""
        weight = SIMILARITY_WEIGHT
        if query.weights is not None:
            weight = query.weights.embedding / (query.weights.embedding + query.weights.text)
        vectors: Mapping[str, Sequence[Vector]] = {}
        if weight > 0:
            vectors = await self._vectors(tenant, stores, query.queries)
        best: dict[Place, Score] = {}
        for number, text in enumerate(query.queries):
            terms = text_query_terms(text) if weight < 1 else ()
            lexical: dict[Place, float] = {}
            similarities: dict[Place, float] = {}
            for store in stores:
                vector = vectors[store.id][number] if store.id in vectors else None
                wanted = CandidateQuery(terms=terms, vector=vector, filter=query.filter, limit=CANDIDATES)
                for found in await self.store.candidates(tenant, store.id, wanted):
                    place = (store.id, found.file_id, found.ordinal)
                    similarities[place] = found.similarity
                    if found.lexical > 0:
                        lexical[place] = found.lexical
            for place, score in fuse(lexical, similarities, weight).items():
                best[place] = max(score, best.get(place, score))
        return best

    async def _vectors(
        self, tenant: str, stores: Sequence[VectorStore], queries: Sequence[str]
    ) -> Mapping[str, Sequence[Vector]]:
        """The vectors of the queries by store: one call per model. Stores without vectors have none."""
        texts = [query[:MAX_QUERY_CHARACTERS] for query in queries]
        by_model: dict[str, Sequence[Vector]] = {}
        by_store: dict[str, Sequence[Vector]] = {}
        for store in stores:
            if not store.dimensions:
                continue
            if store.model not in by_model:
                embedder = model_of(self.embeddings, store.model, store.id)
                try:
                    by_model[store.model] = (await embedder.embed(texts, tenant=tenant)).vectors
                except BackendError as error:
                    raise EmbeddingUnavailable(store.model, error) from error
            found = by_model[store.model]
            check_dimensions(len(found[0]) // 4, store.dimensions, store.model, store.id)
            by_store[store.id] = found
        return by_store

    async def _passages(self, tenant: str, ranges: Sequence[_Range]) -> list[Passage]:
        places = [
            (each.store_id, each.file_id, ordinal)
            for each in ranges
            for ordinal in range(each.first, each.last + 1)
        ]
        return list(_rendered(ranges, await self._chunks(tenant, places)))

    async def _chunks(self, tenant: str, places: Sequence[Place]) -> dict[Place, FoundChunk]:
        """The chunks at these places; those that were deleted meanwhile are left out."""
        wanted: dict[str, list[tuple[str, int]]] = {}
        for store_id, file_id, ordinal in places:
            wanted.setdefault(store_id, []).append((file_id, ordinal))
        found = await asyncio.gather(
            *(self.store.chunks(tenant, store_id, listed) for store_id, listed in wanted.items())
        )
        return {
            (store_id, chunk.file_id, chunk.ordinal): chunk
            for store_id, listed in zip(wanted, found, strict=True)
            for chunk in listed
        }


def _best_first(scores: Mapping[Place, Score]) -> list[tuple[Place, Score]]:
    return sorted(scores.items(), key=lambda scored: (-scored[1].mixed, scored[0]))


def _join_neighbours(ranked: Iterator[tuple[Place, Score]], limit: int) -> list[_Range]:
    """The best chunks, best first. A chunk beside a better one extends it, within bounds."""
    ranges: list[_Range] = []
    edges: dict[Place, _Range] = {}
    """The ranges by the chunks before and after them."""
    for (store_id, file_id, ordinal), score in ranked:
        beside = edges.pop((store_id, file_id, ordinal), None)
        if beside is not None and beside.last - beside.first + 1 < MAX_JOINED_CHUNKS:
            beside.first, beside.last = min(beside.first, ordinal), max(beside.last, ordinal)
        elif len(ranges) == limit:
            break
        else:
            beside = _Range(store_id, file_id, ordinal, ordinal, score)
            ranges.append(beside)
        edges[store_id, file_id, beside.first - 1] = beside
        edges[store_id, file_id, beside.last + 1] = beside
    return ranges


def _rendered(ranges: Sequence[_Range], chunks: Mapping[Place, FoundChunk]) -> Iterator[Passage]:
    """The passages; chunks that were deleted meanwhile are left out."""
    for each in ranges:
        ordinals = range(each.first, each.last + 1)
        found = [chunks.get((each.store_id, each.file_id, ordinal)) for ordinal in ordinals]
        joined = [chunk for chunk in found if chunk is not None]
        if not joined:
            continue
        first = joined[0]
        yield Passage(
            store_id=each.store_id,
            file_id=each.file_id,
            filename=first.filename,
            attributes=first.attributes,
            score=min(1.0, each.score.mixed),
            text_score=each.score.text,
            vector_score=each.score.vector,
            text=_joined_text([chunk.text for chunk in joined]),
            ordinal=first.ordinal,
            label=first.label,
        )


def _joined_text(texts: Sequence[str]) -> str:
    """Adjacent chunks as one text, without what one repeats of the one before."""
    joined, *rest = texts
    for text in rest:
        overlap = _overlap(joined, text)
        joined += text[overlap:] if overlap else f"\n\n{text}"
    return joined


def _overlap(one: str, other: str) -> int:
    """The characters at the end of one text that the other begins with."""
    beginning = other[:MIN_OVERLAP_CHARACTERS]
    place = one.find(beginning, max(0, len(one) - len(other)))
    while place >= 0:
        if other.startswith(one[place:]):
            return len(one) - place
        place = one.find(beginning, place + 1)
    return 0
