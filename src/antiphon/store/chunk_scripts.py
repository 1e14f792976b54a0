"""Scripts of chunks: portions that are saved together, and what is erased of them.

A portion has consecutive slots of its set of chunks, so that its chunks are one range of numbers.
"""

import struct
from collections.abc import Sequence

from antiphon.store.chunk_words import chunk_tokens
from antiphon.store.database import Row, Script, Statement
from antiphon.store.vector_stores import Chunk

SET_CHUNKS = 2**32
"""The numbers of one set of chunks: each is the number of the set, times this, and a slot."""
MAX_ERASED_CHUNKS = 200
"""The chunks after which one script of upkeep stops. It takes about 0.3 ms to erase one."""
_MAX_ERASED_PORTIONS = 50


def chunk_number(chunk_set: int, slot: int) -> int:
    """The number of a chunk."""
    return chunk_set * SET_CHUNKS + slot


def add(chunk_set: int, file_number: int, chunks: Sequence[Chunk]) -> Script[int]:
    """Save a portion without its vectors; the first slot."""
    [[end]] = yield Statement("take_slots", (chunk_set, len(chunks)))
    first = end - len(chunks)
    lengths = struct.pack(f"<{len(chunks)}I", *(len(chunk.terms) for chunk in chunks))
    portion = (chunk_set, first, len(chunks), file_number, chunks[0].ordinal, lengths)
    yield Statement("add_portion", portion)
    rows = [
        (
            *(chunk_number(chunk_set, slot), chunk_set, file_number, chunk.ordinal),
            *(_valid(chunk.text), _valid(chunk.label)),
            chunk_tokens(chunk_set, chunk.terms),
        )
        for slot, chunk in enumerate(chunks, first)
    ]
    yield Statement("add_chunk", rows, many=True)
    return first


def erase_file(chunk_set: int, file_number: int) -> Script[None]:
    """Erase the chunks of a file."""
    portions = yield Statement("portions_of_file", (chunk_set, file_number))
    yield from _erase([(chunk_set, first, count) for first, count in portions])


def erase_part(chunk_set: int, file_number: int) -> Script[bool]:
    """Erase some chunks of a file; whether there are more."""
    portions = yield Statement("portions_of_file", (chunk_set, file_number))
    erased, chosen = 0, list[Row]()
    for first, count in portions:
        if erased < MAX_ERASED_CHUNKS:
            chosen.append((chunk_set, first, count))
            erased += count
    yield from _erase(chosen)
    return len(chosen) < len(portions)


def sweep() -> Script[int]:
    """Erase some chunks of a set that nothing refers to; how many."""
    sets = yield Statement("chunk_sets_to_erase", (1,))
    if not sets:
        return 0
    [[chunk_set]] = sets
    erased, chosen = 0, list[Row]()
    for first, count in (yield Statement("first_portions", (chunk_set, _MAX_ERASED_PORTIONS))):
        if erased < MAX_ERASED_CHUNKS:
            chosen.append((chunk_set, first, count))
            erased += count
    yield from _erase(chosen)
    if not chosen:
        yield Statement("delete_chunk_set", (chunk_set,))
    return erased + 1


def _erase(portions: Sequence[Row]) -> Script[None]:
    if not portions:
        return
    ranges = [
        (chunk_number(chunk_set, first), chunk_number(chunk_set, first + count))
        for chunk_set, first, count in portions
    ]
    yield Statement("erase_chunks", ranges, many=True)
    yield Statement("erase_vectors", ranges, many=True)
    yield Statement("erase_portion", [(chunk_set, first) for chunk_set, first, _ in portions], many=True)


def _valid(text: str) -> str:
    """Replace lone surrogates, which databases refuse."""
    return text.encode("utf-8", "replace").decode()
