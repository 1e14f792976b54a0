"""Cuts documents into chunks of at most so many tokens, of which the next one repeats some. Sans-IO.

Tokens are estimated, one per four bytes of UTF-8, so that no tokenizer is needed and the same file is always
cut in the same way. A chunk lies within one page, slide, sheet or attachment. It ends before a heading if it
can, else after a paragraph, a line, a sentence, a word. If it begins within a table, it repeats the header.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate

from msgspec import Struct

from antiphon.documents.document import Document
from antiphon.retrieval.outline import MAX_SYMBOL_CHARS, SEPARATOR, headings
from antiphon.retrieval.terms import text_terms

BYTES_PER_TOKEN = 4
MIN_ATOM_BYTES = 200
"""A line is cut into sentences if it is longer than this and than the overlap, so that some are repeated."""
MAX_HEADER_PART = 4
"""The header of a table is repeated if it takes at most this part of a chunk."""

_SENTENCE = re.compile(r".*?(?:[.!?][\"')\]]*\s+|[\u3002\uff01\uff1f]|$)", re.DOTALL)
_WORD = re.compile(r"\S+\s*|\s+")
_TABLE_RULE = re.compile(r"\s*\|?(?:\s*:?-+:?\s*\|)+(?:\s*:?-+:?)?\s*")

_WITHIN, _NEW_WORD, _NEW_SENTENCE, _NEW_LINE, _PARAGRAPH, _HEADING = range(6)
"""How good a place is to cut before it."""
_SEPARATORS = ("", "", "", "\n", "\n\n", "\n\n")
"""What stands before an atom of each quality."""


class TextChunk(Struct, frozen=True, array_like=True):
    """A piece of a document. `label` is the page or the like, or the headings that it is under."""

    text: str
    label: str = ""
    context: str = ""
    """Headings that apply to the chunk and are not in its text."""

    @property
    def embedded_text(self) -> str:
        """The text below its headings."""
        return f"{self.context}\n{self.text}" if self.context else self.text

    def terms(self) -> list[str]:
        """The words that it is found by."""
        return text_terms(self.embedded_text)


class _Atom(Struct, frozen=True):
    """A piece of text that is not cut."""

    text: str
    quality: int
    """How good the place before it is to cut."""
    header: str = ""
    """The header rows of the table that it continues."""
    trail: str = ""
    """The headings that it is under."""


def cut_document(document: Document, max_tokens: int, overlap_tokens: int) -> Iterator[TextChunk]:
    """The chunks of a document, in order. Every character that is not blank is in one of them."""
    max_bytes, overlap_bytes = max_tokens * BYTES_PER_TOKEN, overlap_tokens * BYTES_PER_TOKEN
    atom_bytes = min(max_bytes // 2, max(overlap_bytes, MIN_ATOM_BYTES)) if overlap_bytes else max_bytes // 2
    for section in document.sections:
        lines = section.text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        has_headings = document.is_markdown and not section.label
        atoms = [
            atom for line in _lines(lines, has_headings=has_headings) for atom in _split(line, atom_bytes)
        ]
        for chunk in _Cutter(atoms, max_bytes, overlap_bytes).chunks():
            yield TextChunk(chunk.text, section.label) if section.label else chunk


class _Cutter:
    def __init__(self, atoms: Sequence[_Atom], max_bytes: int, overlap_bytes: int) -> None:
        self._atoms = atoms
        self._max_bytes = max_bytes
        self._overlap_bytes = overlap_bytes
        sizes = (len(atom.text.encode()) + len(_SEPARATORS[atom.quality]) for atom in atoms)
        self._before = list(accumulate(sizes, initial=0))

    def chunks(self) -> Iterator[TextChunk]:
        atoms, before = self._atoms, self._before
        start = end = 0
        while end < len(atoms):
            header = self._repeated_header(start)
            room = self._max_bytes - len(header.encode())
            last = max(bisect_right(before, before[start] + room) - 1, end + 1)
            end = last if last >= len(atoms) else self._best_cut(end, last)
            first = atoms[start]
            context = first.trail.rpartition(SEPARATOR)[0] if first.quality == _HEADING else first.trail
            yield TextChunk(header + self._joined(start, end), first.trail, context)
            start = self._next_start(start, end)

    def _repeated_header(self, start: int) -> str:
        header = self._atoms[start].header
        is_short = len(header.encode()) <= self._max_bytes // MAX_HEADER_PART
        return f"{header}\n" if header and is_short else ""

    def _best_cut(self, done: int, last: int) -> int:
        """The best place to cut in the second half of a chunk, after what the chunk before has."""
        half = bisect_left(self._before, self._before[last] - self._max_bytes // 2)
        places = range(max(done + 1, half), last + 1)
        return max(places, key=lambda place: (self._atoms[place].quality, place))

    def _joined(self, start: int, end: int) -> str:
        first, *rest = self._atoms[start:end]
        return first.text + "".join(_SEPARATORS[atom.quality] + atom.text for atom in rest)

    def _next_start(self, start: int, end: int) -> int:
        """Where the next chunk begins: it repeats at most the overlap, from the start of a line if it can."""
        least = max(start + 1, bisect_left(self._before, self._before[end] - self._overlap_bytes))
        lines = (place for place in range(least, end) if self._atoms[place].quality >= _NEW_LINE)
        return next(lines, least)


def _lines(lines: Sequence[str], *, has_headings: bool) -> Iterator[_Atom]:
    """One atom per line that is not blank."""
    titles = {number: (level, title) for number, level, title in headings(lines)} if has_headings else {}
    trail: list[tuple[int, str]] = []
    under = header = before = ""
    quality = _PARAGRAPH
    for number, line in enumerate(lines, 1):
        if not line.strip():
            quality, header, before = _PARAGRAPH, "", ""
            continue
        if number in titles:
            level, title = titles[number]
            trail = [(depth, name) for depth, name in trail if depth < level] + [(level, title)]
            under = SEPARATOR.join(name for _, name in trail)[:MAX_SYMBOL_CHARS]
            quality = _HEADING
        if "|" not in line:
            header = ""
        yield _Atom(line.rstrip(), quality, header, under)
        if before and _TABLE_RULE.fullmatch(line):
            header = f"{before}\n{line.rstrip()}"
        quality, before = _NEW_LINE, line.rstrip() if "|" in line else ""


def _split(line: _Atom, max_bytes: int) -> Iterator[_Atom]:
    """The line; a long one in sentences, words or parts of words of at most so many bytes."""
    if _fits(line.text, max_bytes):
        yield line
        return
    quality = line.quality
    for sentence in _SENTENCE.findall(line.text):
        for piece, following in _pieces(sentence, max_bytes):
            yield _Atom(piece, quality, line.header, line.trail)
            quality = following


def _pieces(sentence: str, max_bytes: int) -> Iterator[tuple[str, int]]:
    """The sentence; a long one in pieces. With the quality of the place after each."""
    if sentence and _fits(sentence, max_bytes):
        yield sentence, _NEW_SENTENCE
    elif sentence:
        yield from _word_pieces(sentence, max_bytes)


def _word_pieces(sentence: str, max_bytes: int) -> Iterator[tuple[str, int]]:
    """Pieces of a long sentence, and the quality of the place after each."""
    for word in _WORD.findall(sentence):
        if _fits(word, max_bytes):
            yield word, _NEW_WORD
            continue
        step = max(1, max_bytes // 4)  # a character has at most four bytes
        for start in range(0, len(word), step):
            yield word[start : start + step], _NEW_WORD if start + step >= len(word) else _WITHIN


def _fits(text: str, max_bytes: int) -> bool:
    return len(text) * 4 <= max_bytes or len(text.encode()) <= max_bytes
