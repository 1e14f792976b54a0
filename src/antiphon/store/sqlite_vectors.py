"""Vectors on SQLite: a row per portion, and exact search over matrices in memory."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from antiphon.embeddings.base import Vector
from antiphon.store.chunk_index import Array, Block, ChunkIndex, Portion, compare, load_numpy, unit_rows
from antiphon.store.chunk_scripts import chunk_number
from antiphon.store.database import Database, Script, Statement
from antiphon.store.ingestion_scripts import COMPONENT_BYTES
from antiphon.store.vector_search import SimilarityQuery, Snapshot

BLOCK_BYTES = 8 * 1024 * 1024
"""The most vectors that are read at once: other reads wait for it about 10 ms."""
_ALL = -2.0
"""Below every cosine."""


class SqliteVectors:
    """See `VectorSearch`."""

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
        row_bytes = max(snapshot.row.store.dimensions, 1) * COMPONENT_BYTES
        block_rows = max(BLOCK_BYTES // row_bytes, 1)
        if not cached:
            return [Block(portions) for portions in _groups(snapshot.portions, block_rows)]
        needed = {portion.first for portion in snapshot.portions}
        blocks = [kept for block in former if (kept := _kept(block, needed)) is not None]
        held = {portion.first for block in blocks for portion in block.portions}
        unread = [portion for portion in snapshot.portions if portion.first not in held]
        for portions in _groups(unread, block_rows):
            data = await self._db.read(_read(snapshot.row.chunk_set, portions))
            if data is None:
                return None
            blocks.append(await asyncio.to_thread(_block, portions, data))
        return await asyncio.to_thread(_join_small, blocks, block_rows)

    async def similarities(self, index: ChunkIndex, wanted: SimilarityQuery) -> Mapping[int, float] | None:
        """Compare the query with every vector."""
        if all(block.matrix is not None for block in index.blocks):
            return await asyncio.to_thread(_best, index, wanted, None)
        parts: list[Array] = []
        for block in index.blocks:
            data = await self._db.read(_read(index.chunk_set, block.portions))
            if data is None:
                return None
            parts.append(await asyncio.to_thread(_compare, block.portions, data, wanted.vector))
        return await asyncio.to_thread(_best, index, wanted, parts)


def _read(chunk_set: int, portions: Sequence[Portion]) -> Script[list[bytes] | None]:
    """The vectors of portions; None: some are erased."""
    numbers = [chunk_number(chunk_set, portion.first) for portion in portions]
    rows = yield Statement("vectors_of_portions", (msgspec.json.encode(numbers).decode(),))
    vectors: dict[int, bytes] = {number: data for number, data in rows}  # noqa: C416
    return [vectors[number] for number in numbers] if len(vectors) == len(numbers) else None


def _groups(portions: Sequence[Portion], most_rows: int) -> Iterator[tuple[Portion, ...]]:
    """Portions in groups of so many rows; a larger portion is a group of its own."""
    group: list[Portion] = []
    rows = 0
    for portion in portions:
        if group and rows + portion.count > most_rows:
            yield tuple(group)
            group, rows = [], 0
        group.append(portion)
        rows += portion.count
    if group:
        yield tuple(group)


def _block(portions: tuple[Portion, ...], data: Sequence[bytes]) -> Block:
    rows = sum(portion.count for portion in portions)
    return Block(portions, unit_rows(load_numpy(), b"".join(data), rows))


def _compare(portions: tuple[Portion, ...], data: Sequence[bytes], vector: Vector) -> Array:
    numpy, matrix = load_numpy(), _block(portions, data).matrix
    found = numpy.empty(len(matrix), numpy.float32)
    compare(numpy, matrix, unit_rows(numpy, vector, 1)[0], found)
    return found


def _kept(block: Block, needed: set[int]) -> Block | None:
    """A block without the portions that are gone."""
    if block.matrix is None:
        return None
    kept = tuple(portion for portion in block.portions if portion.first in needed)
    if len(kept) == len(block.portions):
        return block
    numpy = load_numpy()
    counts = [portion.count for portion in block.portions]
    chosen = numpy.repeat([portion.first in needed for portion in block.portions], counts)
    return Block(kept, block.matrix[chosen]) if kept else None


def _join_small(blocks: Sequence[Block], block_rows: int) -> list[Block]:
    """Join neighbours that have room in one block."""
    numpy: Any = load_numpy()
    groups: list[list[Block]] = []
    rows = 0
    for block in blocks:
        if groups and rows + block.rows <= block_rows:
            groups[-1].append(block)
            rows += block.rows
        else:
            groups.append([block])
            rows = block.rows
    return [
        group[0]
        if len(group) == 1
        else Block(
            tuple(portion for block in group for portion in block.portions),
            numpy.concatenate([block.matrix for block in group]),
        )
        for group in groups
    ]


def _best(index: ChunkIndex, wanted: SimilarityQuery, parts: Sequence[Array] | None) -> dict[int, float]:
    found = index.similarities(wanted.vector) if parts is None else load_numpy().concatenate(parts)
    best = index.best(found, wanted.mask, wanted.query.limit, _ALL)
    rows = dict.fromkeys([*wanted.rows.tolist(), *best.tolist()])
    return {row: float(found[row]) for row in rows}
