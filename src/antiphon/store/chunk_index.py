"""What a search needs of one vector store, in memory: its files, its chunks, and, where there is room, their
vectors.

An index stands for one version of its store and is never changed; a newer one takes over the blocks of
vectors that are still needed. The lists of chunks of common words are kept, within a bound. All calls block:
they run in threads, and numpy (`antiphon[retrieval]`) releases the interpreter's lock in the expensive ones.
"""

import importlib
import sys
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from antiphon.embeddings.base import Vector
from antiphon.errors import Unavailable
from antiphon.extras import install_command
from antiphon.protocol.attribute_filters import Attribute, Filter, matcher
from antiphon.store.chunk_words import COUNT_LEVELS

K1, B = 1.2, 0.75
"""The parameters of BM25: how fast repetitions lose weight, and how much long chunks lose."""
MAX_KEPT_SCORE_BYTES = 32 * 1024 * 1024
"""Of the scores of terms of one store."""
_MAX_KEPT_FILTERS = 16
_ROW_BYTES = 40
"""What a chunk needs in memory beside its vector."""
_FILE_BYTES = 1000
_ARRAY_HEADER, _ARRAY_STEP = 6, 2
"""Of PostgreSQL's arrays, in words of 4 bytes: where the first element is, and how far it is to the next."""

Array = Any
"""An array of numpy."""


class Portion(Struct, frozen=True):
    """Chunks of one file with consecutive slots. `lengths` are their numbers of terms, in 4 bytes each."""

    first: int
    count: int
    file: int
    ordinal: int
    lengths: bytes


class SearchedFile(Struct, frozen=True):
    """A file whose chunks are found. Its attributes are JSON: to decode those of many files takes long."""

    number: int
    id: str
    attributes: str

    @property
    def memory_bytes(self) -> int:
        """About what it needs in an index. No character of an attribute needs more than those of the text."""
        return _FILE_BYTES + sys.getsizeof(self.attributes)


class Block(Struct, frozen=True):
    """Portions, and their vectors as rows of length 1; None: they are not in memory."""

    portions: tuple[Portion, ...]
    matrix: Array = None

    @property
    def rows(self) -> int:
        """The number of chunks."""
        return sum(portion.count for portion in self.portions)

    @property
    def memory_bytes(self) -> int:
        """Of the vectors."""
        return 0 if self.matrix is None else self.matrix.nbytes


class TermScores(Struct, frozen=True):
    """What a term adds to the scores of chunks: of those in `rows`, or of all, if so many have it."""

    rows: Array
    scores: Array

    @property
    def memory_bytes(self) -> int:
        """Of the arrays."""
        return self.scores.nbytes + (0 if self.rows is None else self.rows.nbytes)


def load_numpy() -> Any:
    """The module; its first import takes a while. Raises `Unavailable`."""
    try:
        return importlib.import_module("numpy")
    except ImportError:
        message = f"The search in vector stores needs its packages: run {install_command('retrieval')}."
        raise Unavailable(message, code="retrieval_not_installed") from None


def index_bytes(rows: int, file_bytes: int) -> int:
    """About what an index of so many chunks needs beside the vectors, with all that it may keep."""
    return min(MAX_KEPT_SCORE_BYTES, rows * _ROW_BYTES) + rows * _ROW_BYTES + file_bytes


class ChunkIndex:
    """One version of a store. Rows are numbers of its chunks, from 0, in the order of the blocks."""

    def __init__(
        self, version: int, chunk_set: int, files: Sequence[SearchedFile], blocks: Sequence[Block]
    ) -> None:
        self._numpy = numpy = load_numpy()
        self.version = version
        self.chunk_set = chunk_set
        self._file_bytes = sum(file.memory_bytes for file in files)  # decoding adds to the size of the text
        self._file_ids = [file.id for file in files]
        self._file_numbers = [file.number for file in files]
        self._attributes: list[Mapping[str, Attribute]] = [
            msgspec.json.decode(file.attributes) for file in files
        ]
        self.blocks = blocks
        portions = [portion for block in blocks for portion in block.portions]
        self.rows = sum(portion.count for portion in portions)
        counts = numpy.array([portion.count for portion in portions], dtype=numpy.int64)
        starts = numpy.cumsum(counts) - counts
        within = numpy.arange(self.rows) - numpy.repeat(starts, counts)
        self.slots: Array = self._spread([portion.first for portion in portions], counts) + within
        self._ordinals = self._spread([portion.ordinal for portion in portions], counts) + within
        places = {file.number: place for place, file in enumerate(files)}
        self._places = self._spread([places[portion.file] for portion in portions], counts)
        lengths = numpy.frombuffer(b"".join(portion.lengths for portion in portions), "<u4")
        mean = float(lengths.mean()) if self.rows else 1.0
        self._norms = (K1 * (1 - B + B * lengths / max(mean, 1.0))).astype(numpy.float32)
        self._order = numpy.argsort(self.slots)
        self._sorted_slots = self.slots[self._order]
        self._keeping = threading.Lock()
        self._scores: dict[str, TermScores] = {}
        self._score_bytes = 0
        self._masks: dict[bytes, Array] = {}
        """By filters as JSON: as keys, 1 and True would be the same."""

    @property
    def memory_bytes(self) -> int:
        """About what it needs in memory, with all that it may keep."""
        return index_bytes(self.rows, self._file_bytes) + sum(block.memory_bytes for block in self.blocks)

    def place(self, row: int) -> tuple[str, int]:
        """The file and the ordinal of a chunk."""
        return self._file_ids[int(self._places[row])], int(self._ordinals[row])

    def rows_of(self, slots: Array) -> Array:
        """The rows of those slots that are here."""
        if not self.rows:
            return self._order
        found = self._numpy.minimum(self._numpy.searchsorted(self._sorted_slots, slots), self.rows - 1)
        return self._order[found[self._sorted_slots[found] == slots]]

    def row_of(self, slot: int) -> int | None:
        """The row of a slot; None if it is not here."""
        rows = self.rows_of(self._numpy.array([slot]))
        return int(rows[0]) if len(rows) else None

    def kept_scores(self, terms: Iterable[str]) -> dict[str, TermScores]:
        """Those that need not be computed."""
        return {term: kept for term in terms if (kept := self._scores.get(term)) is not None}

    def term_scores(self, term: str, levels: Sequence[str | bytes | None]) -> TermScores:
        """What BM25 gives for a term, with the frequencies of this store alone.

        `levels` are the slots that were read for each of `COUNT_LEVELS`. The result is kept.
        """
        numpy = self._numpy
        listed = [self.rows_of(self._read_slots(slots)) for slots in levels]
        rows = numpy.concatenate(listed)
        counts = numpy.repeat(numpy.array(COUNT_LEVELS, numpy.float32), [len(each) for each in listed])
        weight = float(numpy.log1p((self.rows - len(rows) + 0.5) / (len(rows) + 0.5)))
        scores = (weight * counts * (K1 + 1) / (counts + self._norms[rows])).astype(numpy.float32)
        found = TermScores(rows.astype(numpy.int32), scores)
        if 2 * len(rows) > self.rows:
            dense = numpy.zeros(self.rows, numpy.float32)
            dense[rows] = scores
            found = TermScores(None, dense)
        self._keep(term, found)
        return found

    def _read_slots(self, slots: str | bytes | None) -> Array:
        """Slots as SQLite has joined them to a text, or PostgreSQL to an array in its binary form."""
        if slots is None:
            return self._numpy.zeros(0, self._numpy.int64)
        if isinstance(slots, str):
            return self._numpy.fromstring(slots, dtype=self._numpy.int64, sep=",")
        return self._numpy.frombuffer(slots, ">u4")[_ARRAY_HEADER::_ARRAY_STEP].astype(self._numpy.int64)

    def _keep(self, term: str, scores: TermScores) -> None:
        """Keep these scores in place of the oldest ones. Threads may be here at the same time."""
        size = scores.memory_bytes
        if size > MAX_KEPT_SCORE_BYTES:
            return
        with self._keeping:
            if term in self._scores:
                return
            self._scores[term] = scores
            self._score_bytes += size
            while self._score_bytes > MAX_KEPT_SCORE_BYTES:
                self._score_bytes -= self._scores.pop(next(iter(self._scores))).memory_bytes

    def lexical(self, terms: Iterable[TermScores]) -> Array:
        """The BM25 score of every chunk."""
        scores = self._numpy.zeros(self.rows, self._numpy.float32)
        for each in terms:
            if each.rows is None:
                scores += each.scores
            else:
                scores[each.rows] += each.scores
        return scores

    def mask(self, wanted: Filter | None) -> Array:
        """Which chunks a filter admits; None: all."""
        if wanted is None:
            return None
        key = msgspec.json.encode(wanted)
        mask = self._masks.get(key)
        if mask is None:
            matches = matcher(wanted)
            admitted = [matches(attributes) for attributes in self._attributes]
            mask = self._numpy.array(admitted, dtype=bool)[self._places]
            if len(self._masks) >= _MAX_KEPT_FILTERS:
                self._masks.clear()
            self._masks[key] = mask
        return mask

    def admitted_files(self, mask: Array) -> list[int]:
        """The numbers of the files of chunks that a filter admits."""
        places: list[int] = self._numpy.unique(self._places[mask]).tolist()
        return [self._file_numbers[place] for place in places]

    def best(self, scores: Array, mask: Array, limit: int, least: float) -> Array:
        """The rows with the highest scores above `least`. The others are left out first: many equal scores
        would make the partition slow."""
        numpy = self._numpy
        rows = numpy.flatnonzero(scores > least if mask is None else (scores > least) & mask)
        if len(rows) <= limit:
            return rows
        return rows[numpy.argpartition(scores[rows], -limit)[-limit:]]

    def similarities(self, vector: Vector) -> Array:
        """The cosine for every chunk, where the vectors are in memory."""
        numpy = self._numpy
        query = unit_rows(numpy, vector, 1)[0]
        found = numpy.empty(self.rows, numpy.float32)
        start = 0
        for block in self.blocks:
            compare(numpy, block.matrix, query, found[start : start + block.rows])
            start += block.rows
        return found

    def _spread(self, values: Sequence[int], counts: Array) -> Array:
        return self._numpy.repeat(self._numpy.array(values, dtype=self._numpy.int64), counts)


def compare(numpy: Any, matrix: Array, query: Array, found: Array) -> None:
    """Multiply every row with the query. As fast as `numpy.dot`, but in this thread alone: threads of a
    linear-algebra library would wait for each other on a busy machine."""
    numpy.vecdot(matrix, query, out=found)


def unit_rows(numpy: Any, data: bytes | Array, rows: int) -> Array:
    """Vectors as rows of a matrix, each with length 1."""
    matrix = numpy.frombuffer(data, "<f4").reshape(rows, -1)
    lengths = numpy.linalg.norm(matrix, axis=1, keepdims=True)
    return numpy.ascontiguousarray(matrix / numpy.maximum(lengths, 1e-12), dtype=numpy.float32)
