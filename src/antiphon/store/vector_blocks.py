"""Vectors of a store in memory: matrices of unit rows in blocks, and the exact search in them.

How the vectors of portions are read depends on the database (`VectorReader`); all else is the same.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any

from antiphon.store.chunk_index import Array, Block, ChunkIndex, Portion, load_numpy
from antiphon.store.ingestion_scripts import COMPONENT_BYTES
from antiphon.store.vector_search import SimilarityQuery, Snapshot

BLOCK_BYTES = 8 * 1024 * 1024
"""The most vectors that are read at once: other reads wait for it about 10 ms."""
_ALL = -2.0
"""Below every cosine."""

VectorReader = Callable[[int, Sequence[Portion]], Awaitable[Array]]
"""Reads the vectors of portions of a set of chunks, as rows of length 1. None: some are erased."""


async def load_blocks(
    snapshot: Snapshot, former: Sequence[Block], read: VectorReader, *, cached: bool
) -> list[Block] | None:
    """Take over the vectors of former blocks, and read the others; without vectors unless `cached`."""
    block_rows = max(BLOCK_BYTES // (max(snapshot.row.store.dimensions, 1) * COMPONENT_BYTES), 1)
    if not cached:
        return [Block(portions) for portions in _groups(snapshot.portions, block_rows)]
    needed = {portion.first for portion in snapshot.portions}
    blocks = [kept for block in former if (kept := _kept(block, needed)) is not None]
    held = {portion.first for block in blocks for portion in block.portions}
    unread = [portion for portion in snapshot.portions if portion.first not in held]
    for portions in _groups(unread, block_rows):
        matrix = await read(snapshot.row.chunk_set, portions)
        if matrix is None:
            return None
        blocks.append(Block(portions, matrix))
    return await asyncio.to_thread(_join_small, blocks, block_rows)


def best_similarities(
    index: ChunkIndex, wanted: SimilarityQuery, parts: Sequence[Array] | None = None
) -> dict[int, float]:
    """The similarities of the wanted rows and of the nearest ones. `parts`: those of all rows, by block, if
    they are known."""
    found = index.similarities(wanted.vector) if parts is None else load_numpy().concatenate(parts)
    best = index.best(found, wanted.mask, wanted.query.limit, _ALL)
    rows = dict.fromkeys([*wanted.rows.tolist(), *best.tolist()])
    return {row: float(found[row]) for row in rows}


def in_memory(index: ChunkIndex) -> bool:
    """Whether an index has all vectors."""
    return all(block.matrix is not None for block in index.blocks)


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
