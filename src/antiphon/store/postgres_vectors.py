"""Vectors on PostgreSQL: a row per chunk, with length 1, searched by the extension `vector` (pgvector).

Small stores and searches with a filter are exact. In a large store the graph of an index (HNSW) is searched,
which holds the vectors of all stores with the same dimensions: if it finds too few of this store, the search
is exact.
"""

import asyncio
import math
import struct
from collections.abc import Mapping, Sequence

from antiphon.embeddings.base import Vector
from antiphon.errors import Unavailable
from antiphon.store import vector_store_scripts
from antiphon.store.chunk_index import Block, ChunkIndex
from antiphon.store.chunk_scripts import SET_CHUNKS, chunk_number
from antiphon.store.database import Database, Row, Script, Statement
from antiphon.store.ingestion_scripts import COMPONENT_BYTES
from antiphon.store.statements import INDEXED_DIMENSIONS
from antiphon.store.vector_search import SimilarityQuery, Snapshot

MIN_GRAPH_CHUNKS = 10_000
"""Stores with fewer chunks are searched exactly."""
MIN_GRAPH_CANDIDATES = 200
"""How many candidates a search of the graph keeps: more find more of the nearest ones, and take longer."""
NEEDS_EXTENSION = (
    "Vector stores on PostgreSQL need its extension 'vector' (pgvector), which this database does not have. "
    "Install it on the database server, run `CREATE EXTENSION vector` in this database as a superuser, and "
    "restart Antiphon."
)


class PostgresVectors:
    """See `VectorSearch`."""

    def __init__(self, database: Database) -> None:
        self._db = database
        self._is_prepared = False

    async def prepare(self) -> None:
        """Raise `Unavailable` if the extension is missing."""
        if self._is_prepared:
            return
        if not await self._db.read(_vectors_are_kept()):
            raise Unavailable(NEEDS_EXTENSION, code="vector_extension_missing")
        self._is_prepared = True

    def add(self, chunk_set: int, file_number: int, first: int, vectors: Sequence[Vector]) -> Script[None]:
        """Save the vectors of a portion, each in its row."""
        rows = [
            (chunk_number(chunk_set, slot), file_number, _components(vector))
            for slot, vector in enumerate(vectors, first)
        ]
        yield Statement("add_vectors", rows, many=True)

    async def blocks(
        self, snapshot: Snapshot, former: Sequence[Block], *, cached: bool
    ) -> list[Block] | None:
        """One block: the vectors stay in the database."""
        del former, cached
        return [Block(tuple(snapshot.portions))]

    async def similarities(self, index: ChunkIndex, wanted: SimilarityQuery) -> Mapping[int, float] | None:
        """Search in the database."""
        files = None if wanted.query.filter is None else await asyncio.to_thread(_admitted, index, wanted)
        found = await self._db.read(_search(index, wanted, files))
        return None if found is None else _by_row(index, found)


def _admitted(index: ChunkIndex, wanted: SimilarityQuery) -> list[int]:
    return index.admitted_files(wanted.mask)


def _by_row(index: ChunkIndex, found: Sequence[Row]) -> dict[int, float]:
    places = ((index.row_of(number % SET_CHUNKS), similarity) for number, similarity in found)
    return {row: similarity for row, similarity in places if row is not None}


def _vectors_are_kept() -> Script[bool]:
    [[kept]] = yield Statement("vectors_are_kept")
    return kept


def _search(index: ChunkIndex, wanted: SimilarityQuery, files: list[int] | None) -> Script[list[Row] | None]:
    """The numbers of chunks with their similarities: of those in `wanted.rows`, and of the nearest ones.

    None: the store has another version.
    """
    row = yield from vector_store_scripts.find(wanted.tenant, wanted.store_id, vector_store_scripts.NEVER)
    if (row.version, row.chunk_set) != (index.version, index.chunk_set):
        return None
    limit, query = wanted.query.limit, _components(wanted.vector)
    yield Statement("set_vector_search", (str(max(limit, MIN_GRAPH_CANDIDATES)),))
    numbers = [chunk_number(index.chunk_set, slot) for slot in index.slots[wanted.rows].tolist()]
    found = list((yield Statement("similarities_of_chunks", (query, numbers))))
    bounds = (chunk_number(index.chunk_set, 0), chunk_number(index.chunk_set + 1, 0))
    if files is not None:
        return [*found, *(yield Statement("nearest_in_files", (*bounds, query, files, limit)))]
    hidden_rows = yield Statement("hidden_files", (wanted.tenant, wanted.store_id))
    args = (*bounds, query, [number for (number,) in hidden_rows], limit)
    dimensions = len(wanted.vector) // COMPONENT_BYTES
    nearest: Sequence[Row] = ()
    if index.rows >= MIN_GRAPH_CHUNKS and dimensions in INDEXED_DIMENSIONS:
        yield Statement("set_graph_search")
        nearest = yield Statement(f"nearest_by_graph_{dimensions}", args)
    if len(nearest) < min(limit, index.rows):
        nearest = yield Statement("nearest", args)
    return [*found, *nearest]


def _components(vector: Vector) -> list[float]:
    """The components of a vector with length 1; one without a direction stays as it is."""
    components = struct.unpack(f"<{len(vector) // COMPONENT_BYTES}f", vector)
    length = math.hypot(*components) or 1.0
    return [component / length for component in components]
