"""Vectors on PostgreSQL: a row per chunk, with length 1, in a column of the extension `vector` (pgvector).

Stores for which there is room are searched exactly, over matrices in memory. For the others the database
searches. What a large store has beyond its first vectors is in the graph of an index (HNSW), which holds
the vectors of all stores with the same dimensions; the first ones are compared one by one, and so are all in
a search with a filter. Small stores do not pay for the graph: it takes longer to add a vector to it than to
save it.
"""

import asyncio
import math
import struct
from collections.abc import Mapping, Sequence

from antiphon.embeddings.base import Vector
from antiphon.errors import Unavailable
from antiphon.store import chunk_scripts, vector_store_scripts
from antiphon.store.chunk_index import Array, Block, ChunkIndex, Portion, load_numpy, unit_rows
from antiphon.store.chunk_scripts import SET_CHUNKS, chunk_number
from antiphon.store.database import Database, Row, Script, Statement
from antiphon.store.ingestion_scripts import COMPONENT_BYTES
from antiphon.store.statements import INDEXED_DIMENSIONS
from antiphon.store.vector_blocks import best_similarities, in_memory, load_blocks
from antiphon.store.vector_search import SimilarityQuery, Snapshot

MIN_GRAPH_BYTES = 32 * 1024 * 1024
"""The vectors of a store that are not in the graph: to compare a query with all of them takes about 15 ms."""
MIN_GRAPH_CANDIDATES = 200
"""How many candidates a search of the graph keeps: more find more of the nearest ones, and take longer."""
NEEDS_EXTENSION = (
    "Vector stores on PostgreSQL need its extension 'vector' (pgvector), which this database does not have. "
    "Install it on the database server, run `CREATE EXTENSION vector` in this database as a superuser, and "
    "restart Antiphon."
)


class PostgresVectors:
    """See `VectorSearch`."""

    searches_large_stores = True

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
        dimensions = len(vectors[0]) // COMPONENT_BYTES
        in_graph = dimensions in INDEXED_DIMENSIONS and first * len(vectors[0]) >= MIN_GRAPH_BYTES
        rows = [
            (chunk_number(chunk_set, slot), file_number, _components(vector), in_graph)
            for slot, vector in enumerate(vectors, first)
        ]
        yield Statement("add_vectors", rows, many=True)

    async def blocks(
        self, snapshot: Snapshot, former: Sequence[Block], *, cached: bool
    ) -> list[Block] | None:
        """Take over the vectors of former blocks, and read the others."""
        return await load_blocks(snapshot, former, self._matrix, cached=cached)

    async def similarities(self, index: ChunkIndex, wanted: SimilarityQuery) -> Mapping[int, float] | None:
        """Compare the query with every vector in memory, or search in the database."""
        if in_memory(index):
            return await asyncio.to_thread(best_similarities, index, wanted)
        files = None if wanted.query.filter is None else await asyncio.to_thread(_admitted, index, wanted)
        found = await self._db.read(_search(index, wanted, files))
        return None if found is None else _by_row(index, found)

    async def _matrix(self, chunk_set: int, portions: Sequence[Portion]) -> Array:
        data = await self._db.read(_read(chunk_set, portions))
        whole = [vectors for vectors in data if vectors is not None]
        return None if len(whole) < len(data) else await asyncio.to_thread(_unit_rows, portions, whole)


def _read(chunk_set: int, portions: Sequence[Portion]) -> Script[list[bytes | None]]:
    """The vectors of portions, with the components in the byte order of the network; None for erased ones."""
    firsts = [chunk_number(chunk_set, portion.first) for portion in portions]
    rows = yield Statement("vectors_of_portions", (firsts, [portion.count for portion in portions]))
    return [data for (data,) in rows]


def _unit_rows(portions: Sequence[Portion], data: Sequence[bytes]) -> Array:
    numpy = load_numpy()
    little_endian = numpy.frombuffer(b"".join(data), ">f4").astype("<f4")
    return unit_rows(numpy, little_endian, sum(portion.count for portion in portions))


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

    None: the store has another set of chunks.
    """
    row = yield from vector_store_scripts.find(wanted.tenant, wanted.store_id, vector_store_scripts.NEVER)
    if row.chunk_set != index.chunk_set:
        return None
    limit, query = wanted.query.limit, _components(wanted.vector)
    yield Statement("set_vector_search", (str(max(limit, MIN_GRAPH_CANDIDATES)),))
    numbers = [chunk_number(index.chunk_set, slot) for slot in index.slots[wanted.rows].tolist()]
    found = list((yield Statement("similarities_of_chunks", (query, numbers))))
    bounds = (chunk_number(index.chunk_set, 0), chunk_number(index.chunk_set + 1, 0))
    if files is not None:
        return [*found, *(yield Statement("nearest_in_files", (*bounds, query, files, limit)))]
    hidden_rows = yield Statement("hidden_files", (wanted.tenant, wanted.store_id))
    hidden = [number for (number,) in hidden_rows]
    hidden += yield from chunk_scripts.files_left(wanted.tenant, index.chunk_set)
    args = (*bounds, query, hidden, limit)
    dimensions = len(wanted.vector) // COMPONENT_BYTES
    nearest: Sequence[Row] = ()
    if dimensions in INDEXED_DIMENSIONS and index.rows * len(wanted.vector) >= MIN_GRAPH_BYTES:
        outside = yield Statement("nearest_outside_graph", args)
        yield Statement("set_graph_search")
        nearest = [*outside, *(yield Statement(f"nearest_by_graph_{dimensions}", args))]
        nearest = sorted(nearest, key=_similarity, reverse=True)[:limit]
    if len(nearest) < min(limit, index.rows):
        nearest = yield Statement("nearest", args)
    return [*found, *nearest]


def _similarity(row: Row) -> float:
    return row[1]


def _components(vector: Vector) -> list[float]:
    """The components of a vector with length 1; one without a direction stays as it is."""
    components = struct.unpack(f"<{len(vector) // COMPONENT_BYTES}f", vector)
    length = math.hypot(*components) or 1.0
    return [component / length for component in components]
