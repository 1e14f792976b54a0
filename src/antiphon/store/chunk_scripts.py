"""Scripts of chunks: portions that are saved together, and what is erased of them.

A portion has consecutive slots of its set of chunks, so that its chunks are one range of numbers.

Upkeep erases the chunks of removed files and of sets that nothing refers to: to erase thousands in one
transaction would delay all other writes for seconds. Whoever removes a file adds a job for that (`ERASURE`),
which no worker claims, in the same transaction. Nobody finds the chunks from then on: a search goes by the
rows of completed files.
"""

import struct
from collections.abc import Sequence

from antiphon.store.chunk_words import chunk_tokens
from antiphon.store.database import Row, Script, Statement
from antiphon.store.vector_stores import Chunk

ERASURE = "erasure"
"""The kind of the jobs that upkeep does. Their ids are those of `erasure_id`."""
SET_CHUNKS = 2**32
"""The numbers of one set of chunks: each is the number of the set, times this, and a slot."""
MAX_ERASED_CHUNKS = 200
"""The chunks after which one script of upkeep stops. It takes about 0.3 ms to erase one."""
_MAX_ERASED_PORTIONS = 50
_MAX_ERASED_FILES = 50


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


def erasure_id(chunk_set: int, file_number: int) -> str:
    """The id of the job that erases the chunks of a file."""
    return f"{chunk_set}/{file_number}"


def leave_files(tenant: str, chunk_set: int, file_numbers: Sequence[int]) -> Script[None]:
    """Have upkeep erase the chunks of files that are removed or emptied in this transaction."""
    rows = [(ERASURE, tenant, erasure_id(chunk_set, each), 0.0, None, None, 0) for each in file_numbers]
    if rows:
        yield Statement("add_job", rows, many=True)


def files_left(tenant: str, chunk_set: int) -> Script[list[int]]:
    """The numbers of the files of a set whose chunks upkeep will erase."""
    prefix = erasure_id(chunk_set, 0)[:-1]
    rows = yield Statement("ids_of_jobs", (ERASURE, tenant, prefix, len(prefix)))
    return [int(job_id[len(prefix) :]) for (job_id,) in rows]


def sweep() -> Script[int]:
    """Erase some chunks of removed files, or of a set that nothing refers to; how many, and what ended."""
    return (yield from _sweep_files()) or (yield from _sweep_set())


def _sweep_files() -> Script[int]:
    erased, chosen, done = 0, list[Row](), list[Row]()
    for tenant, job_id in (yield Statement("first_jobs", (ERASURE, _MAX_ERASED_FILES))):
        chunk_set, file_number = map(int, job_id.split("/"))
        portions = yield Statement("portions_of_file", (chunk_set, file_number, _MAX_ERASED_PORTIONS))
        part = _part(chunk_set, portions, MAX_ERASED_CHUNKS - erased)
        erased += sum(count for _, _, count in part)
        chosen += part
        if len(part) < len(portions) or len(portions) == _MAX_ERASED_PORTIONS:
            break
        done.append((ERASURE, tenant, job_id))
    yield from _erase(chosen)
    if done:
        yield Statement("delete_job", sorted(done), many=True)
    return erased + len(done)


def _sweep_set() -> Script[int]:
    sets = yield Statement("chunk_sets_to_erase", (1,))
    if not sets:
        return 0
    [[chunk_set]] = sets
    portions = yield Statement("first_portions", (chunk_set, _MAX_ERASED_PORTIONS))
    chosen = _part(chunk_set, portions, MAX_ERASED_CHUNKS)
    yield from _erase(chosen)
    if not chosen:
        yield Statement("delete_chunk_set", (chunk_set,))
    return sum(count for _, _, count in chosen) + 1


def _part(chunk_set: int, portions: Sequence[Row], room: int) -> list[Row]:
    """The first portions, up to the one with which there are `room` chunks."""
    part: list[Row] = []
    for first, count in portions:
        if room <= 0:
            break
        part.append((chunk_set, first, count))
        room -= count
    return part


def _erase(portions: Sequence[Row]) -> Script[None]:
    """Erase portions, in one order: two processes that do it never wait for each other in a circle."""
    if not portions:
        return
    portions = sorted(map(tuple, portions))
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
