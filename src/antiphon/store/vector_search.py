"""The search for candidates in a vector store: by words and by similarity, over an index in memory.

Indexes of the stores that were searched last are kept, within a bound. A search checks in its transaction
that its index stands for the present version of the store, whichever process has changed it, and loads a
newer one if not. It uses that one even if the store has changed again: files may arrive all the time.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol
from weakref import WeakValueDictionary

import msgspec
from msgspec import Struct

from antiphon.embeddings.base import Vector
from antiphon.errors import NotFound, StoreUnavailable
from antiphon.protocol.ids import Clock
from antiphon.store import vector_store_scripts
from antiphon.store.chunk_index import (
    Array,
    Block,
    ChunkIndex,
    Portion,
    SearchedFile,
    TermScores,
    index_bytes,
    load_numpy,
)
from antiphon.store.chunk_words import term_tokens
from antiphon.store.database import Database, Script, Statement
from antiphon.store.index_cache import IndexCache, StoreKey
from antiphon.store.ingestion_scripts import COMPONENT_BYTES, VectorWriter, wrong_dimensions
from antiphon.store.vector_store_scripts import StoreRow
from antiphon.store.vector_stores import Candidate, CandidateQuery

MAX_CACHED_VECTOR_BYTES = 256 * 1024 * 1024
"""The most memory for the indexes of all stores. The vectors of a store without room are read in
blocks for every search on SQLite, and searched by the database on PostgreSQL."""
SMALL_STORE_PART = 8
"""A store that takes at most this part of it displaces others that were not used for longer."""
MAX_QUERY_TERMS = 64
"""The terms of a query that are searched for; the rest is ignored."""
MAX_READ_POSTINGS = 100_000
"""Of one read, if every chunk had its terms: on SQLite, other reads wait for it about 15 ms."""
MAX_SEARCHES_AT_ONCE = 4
"""Of one tenant."""
_MAX_ATTEMPTS = 10
"""How often a search begins again because its store was indexed anew, or vectors were erased, meanwhile."""


class Snapshot(Struct, frozen=True):
    """What an index is made of."""

    row: StoreRow
    files: Sequence[SearchedFile]
    portions: Sequence[Portion]

    @property
    def vector_bytes(self) -> int:
        """Of all vectors."""
        return self._rows * self.row.store.dimensions * COMPONENT_BYTES

    @property
    def other_bytes(self) -> int:
        """About what the index needs beside the vectors."""
        return index_bytes(self._rows, sum(file.memory_bytes for file in self.files))

    @property
    def _rows(self) -> int:
        return sum(portion.count for portion in self.portions)


class SimilarityQuery(Struct, frozen=True):
    """What is asked of the vectors of one store: the rows with the best similarities, and those of `rows`."""

    tenant: str
    store_id: str
    vector: Vector
    mask: Array
    query: CandidateQuery
    rows: Array


class VectorSearch(VectorWriter, Protocol):
    """The vectors of a database. None as a result: some are erased."""

    searches_large_stores: bool
    """Whether the database has an index for stores whose vectors are not in memory."""

    async def prepare(self) -> None:
        """Raise `Unavailable` if the database cannot hold vectors."""
        ...

    async def blocks(
        self, snapshot: Snapshot, former: Sequence[Block], *, cached: bool
    ) -> list[Block] | None:
        """The portions in blocks, with the vectors that are kept in memory."""
        ...

    async def similarities(self, index: ChunkIndex, wanted: SimilarityQuery) -> Mapping[int, float] | None:
        """The similarities by rows. The `rows` of the query are ordered before the best ones."""
        ...


class CandidateSearch:
    """Searches all stores of a database."""

    def __init__(
        self,
        database: Database,
        vectors: VectorSearch,
        clock: Clock,
        max_bytes: int = MAX_CACHED_VECTOR_BYTES,
    ) -> None:
        self._db = database
        self._vectors = vectors
        self._clock = clock
        self._indexes = IndexCache(max_bytes)
        self._loads: WeakValueDictionary[StoreKey, asyncio.Lock] = WeakValueDictionary()
        self._slots: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
        """By tenant: searches compute in threads, of which there are few."""

    @property
    def memory_bytes(self) -> int:
        """About what the kept indexes need."""
        return self._indexes.memory_bytes

    async def candidates(self, tenant: str, store_id: str, query: CandidateQuery) -> Sequence[Candidate]:
        """See `VectorStores`. Further searches of a tenant wait."""
        slot = self._slots.setdefault(tenant, asyncio.Semaphore(MAX_SEARCHES_AT_ONCE))
        async with slot:
            return await self._candidates(tenant, store_id, query)

    async def _candidates(self, tenant: str, store_id: str, query: CandidateQuery) -> Sequence[Candidate]:
        key = (tenant, store_id)
        index, must_be_current = self._indexes.get(key), True
        if index is None:
            await asyncio.to_thread(load_numpy)  # the first import would hold the event loop
        try:
            for _ in range(_MAX_ATTEMPTS):
                if index is not None:
                    found = await self._search(key, index, query, must_be_current=must_be_current)
                    if found is not None:
                        return found
                index = None  # one that is displaced takes no memory while another is loaded
                index, must_be_current = await self._load(key), False
        except NotFound:
            self._indexes.drop(key)
            raise
        raise StoreUnavailable(f"Vector store '{store_id}' changes too often to be searched now. Try again.")

    async def _search(
        self, key: StoreKey, index: ChunkIndex, query: CandidateQuery, *, must_be_current: bool
    ) -> Sequence[Candidate] | None:
        """None: the index is not of the present version, if it must be, or its chunks are gone."""
        read = await self._scores(key, index, query.terms, must_be_current=must_be_current)
        if read is None:
            return None
        row, scores_by_term = read
        vector = query.vector if row.store.dimensions else None
        if vector is not None and len(vector) != row.store.dimensions * COMPONENT_BYTES:
            raise wrong_dimensions(row.store.id, row.store.dimensions)
        if not index.rows or query.limit < 1:
            return []
        scores, mask, rows = await asyncio.to_thread(_by_words, index, query, scores_by_term)
        similar: Mapping[int, float] = dict.fromkeys(rows.tolist(), 0.0)
        if vector is not None:
            wanted = SimilarityQuery(*key, vector, mask, query, rows)
            found = await self._vectors.similarities(index, wanted)
            if found is None:
                return None
            similar = found
        return [
            Candidate(file_id=file_id, ordinal=ordinal, lexical=float(scores[chunk]), similarity=similarity)
            for chunk, similarity in similar.items()
            for file_id, ordinal in [index.place(chunk)]
        ]

    async def _scores(
        self, key: StoreKey, index: ChunkIndex, query_terms: Sequence[str], *, must_be_current: bool
    ) -> tuple[StoreRow, dict[str, TermScores]] | None:
        """What the terms add to the scores. A few terms are read at a time: other reads get their turn."""
        terms = list(dict.fromkeys(query_terms))[:MAX_QUERY_TERMS]
        scores = index.kept_scores(terms)
        missing = [term for term in terms if term not in scores] if index.rows else []
        step = max(MAX_READ_POSTINGS // max(index.rows, 1), 1)
        now = int(self._clock())
        version = index.version if must_be_current else None
        row = None
        for start in range(0, max(len(missing), 1), step):
            script = read_postings(key, version, index.chunk_set, missing[start : start + step], now)
            read = await self._db.read(script)
            if read is None:
                return None
            row, lists = read
            if lists:
                scores |= await asyncio.to_thread(_term_scores, index, lists)
            version = None  # it was current during this search
        assert row is not None
        return row, scores

    async def _load(self, key: StoreKey) -> ChunkIndex | None:
        """The index of the present version, which one search loads for all. None: vectors are erased."""
        lock = self._loads.setdefault(key, asyncio.Lock())
        async with lock:
            snapshot = await self._db.read(read_snapshot(*key, int(self._clock())))
            former = self._former(key, snapshot.row)
            if former is not None and former.version == snapshot.row.version:
                return former
            former = None  # it may be displaced while this waits
            size = snapshot.other_bytes
            cached = self._has_room(key, size + snapshot.vector_bytes)
            size += snapshot.vector_bytes if cached else 0
            async with self._indexes.room(key, size):
                index = await self._read_index(key, snapshot, cached=cached)
                if index is not None:
                    self._indexes.keep(key, index)
            return index

    async def _read_index(self, key: StoreKey, snapshot: Snapshot, *, cached: bool) -> ChunkIndex | None:
        row, former = snapshot.row, self._former(key, snapshot.row)
        blocks = await self._vectors.blocks(snapshot, former.blocks if former else (), cached=cached)
        if blocks is None:
            return None
        return await asyncio.to_thread(ChunkIndex, row.version, row.chunk_set, snapshot.files, blocks)

    def _former(self, key: StoreKey, row: StoreRow) -> ChunkIndex | None:
        """The index of the store that is kept, if its chunks are of the present set."""
        former = self._indexes.get(key)
        return former if former is not None and former.chunk_set == row.chunk_set else None

    def _has_room(self, key: StoreKey, needed: int) -> bool:
        """Whether the vectors of a store are to be kept in memory. A large store displaces others only if the
        database cannot search it."""
        most = self._indexes.max_bytes
        if not self._vectors.searches_large_stores or needed <= most // SMALL_STORE_PART:
            return needed <= most
        return self._indexes.has_room_beside_others(key, needed)


def _term_scores(
    index: ChunkIndex, lists: Mapping[str, Sequence[str | bytes | None]]
) -> dict[str, TermScores]:
    return {term: index.term_scores(term, levels) for term, levels in lists.items()}


def _by_words(
    index: ChunkIndex, query: CandidateQuery, terms: Mapping[str, TermScores]
) -> tuple[Array, Array, Array]:
    """The lexical score of every chunk, which chunks the filter admits, and the rows of the best chunks."""
    scores = index.lexical(each for _, each in sorted(terms.items()))
    mask = index.mask(query.filter)
    return scores, mask, index.best(scores, mask, query.limit, 0.0)


def read_snapshot(tenant: str, store_id: str, now: int) -> Script[Snapshot]:
    """What an index of a store is made of."""
    row = yield from _searchable(tenant, store_id, now)
    files = [
        SearchedFile(number, file_id, attributes)
        for number, file_id, attributes in (yield Statement("searched_files", (tenant, store_id)))
    ]
    portions = yield Statement("searched_portions", (tenant, store_id, row.chunk_set))
    return Snapshot(
        row,
        files,
        [
            Portion(first, count, file, ordinal, bytes(lengths))
            for first, count, file, ordinal, lengths in portions
        ],
    )


def read_postings(
    key: StoreKey, version: int | None, chunk_set: int, terms: Sequence[str], now: int
) -> Script[tuple[StoreRow, dict[str, list[str | bytes | None]]] | None]:
    """The slots of the chunks with each term, by how often it occurs.

    None: the store has another set of chunks, or is not of this version.
    """
    row = yield from _searchable(*key, now)
    if row.chunk_set != chunk_set or version not in (None, row.version):
        return None
    tokens = {term: term_tokens(chunk_set, term) for term in terms}
    slots: dict[str, str | bytes | None] = {}
    if tokens:
        rows = yield Statement("postings", (_json_list(tokens.values()),))
        slots = {token: found for token, found in rows}  # noqa: C416
    return row, {term: [slots[token] for token in names] for term, names in tokens.items()}


def _searchable(tenant: str, store_id: str, now: int) -> Script[StoreRow]:
    row = yield from vector_store_scripts.find(tenant, store_id, now)
    vector_store_scripts.check_not_expired(row.store)
    return row


def _json_list(tokens: Iterable[Sequence[str]]) -> str:
    return msgspec.json.encode([token for names in tokens for token in names]).decode()
