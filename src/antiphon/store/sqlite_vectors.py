"""Vectors on SQLite: a row per portion, and exact search over matrices in memory."""

import asyncio
from collections.abc import Mapping, Sequence

import msgspec

from antiphon.embeddings.base import Vector
from antiphon.store.chunk_index import Array, Block, ChunkIndex, Portion, compare, load_numpy, unit_rows
from antiphon.store.chunk_scripts import chunk_number
from antiphon.store.database import Database, Script, Statement
from antiphon.store.vector_blocks import best_similarities, in_memory, load_blocks
from antiphon.store.vector_search import SimilarityQuery, Snapshot


class SqliteVectors:
    """See `VectorSearch`."""

    searches_large_stores = False

    def __init__(self, database: Database) -> None:
        self._db = database

    async def prepare(self) -> None:
        """There is nothing to prepare."""

    def add(self, chunk_set: int, file_number: int, first: int, vectors: Sequence[Vector]) -> Script[None]:
        """Save the vectors of a portion in one row."""
        del file_number
        yield Statement("add_vectors", (chunk_number(chunk_set, first), b"".join(vectors)))

    async def blocks(
        self, snapshot: Snapshot, former: Sequence[Block], *, cached: bool
    ) -> list[Block] | None:
        """Take over the vectors of former blocks, and read the others."""
        return await load_blocks(snapshot, former, self._matrix, cached=cached)

    async def similarities(self, index: ChunkIndex, wanted: SimilarityQuery) -> Mapping[int, float] | None:
        """Compare the query with every vector."""
        if in_memory(index):
            return await asyncio.to_thread(best_similarities, index, wanted)
        parts: list[Array] = []
        for block in index.blocks:
            matrix = await self._matrix(index.chunk_set, block.portions)
            if matrix is None:
                return None
            parts.append(await asyncio.to_thread(_compare, matrix, wanted.vector))
        return await asyncio.to_thread(best_similarities, index, wanted, parts)

    async def _matrix(self, chunk_set: int, portions: Sequence[Portion]) -> Array:
        data = await self._db.read(_read(chunk_set, portions))
        return None if data is None else await asyncio.to_thread(_unit_rows, portions, data)


def _read(chunk_set: int, portions: Sequence[Portion]) -> Script[list[bytes] | None]:
    """The vectors of portions; None: some are erased."""
    numbers = [chunk_number(chunk_set, portion.first) for portion in portions]
    rows = yield Statement("vectors_of_portions", (msgspec.json.encode(numbers).decode(),))
    vectors: dict[int, bytes] = {number: data for number, data in rows}  # noqa: C416
    return [vectors[number] for number in numbers] if len(vectors) == len(numbers) else None


def _unit_rows(portions: Sequence[Portion], data: Sequence[bytes]) -> Array:
    return unit_rows(load_numpy(), b"".join(data), sum(portion.count for portion in portions))


def _compare(matrix: Array, vector: Vector) -> Array:
    numpy = load_numpy()
    found = numpy.empty(len(matrix), numpy.float32)
    compare(numpy, matrix, unit_rows(numpy, vector, 1)[0], found)
    return found
