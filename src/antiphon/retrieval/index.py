"""An index of chunks on SQLite's full-text search, in memory or in a file.

Ranking is BM25: rare terms weigh more, and so do matches in a symbol or a path. Similarities of vectors, if
given, are a second score of the same ranking (`fusion.py`). An index may be used by one thread at a time.
"""

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from pathlib import PurePosixPath

from antiphon.retrieval.base import RagChunk
from antiphon.retrieval.fusion import fuse
from antiphon.retrieval.scope import Scope
from antiphon.retrieval.terms import name_parts, query_terms

_SCHEMA = """
CREATE TABLE IF NOT EXISTS chunk (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL, path TEXT NOT NULL, start_line INTEGER NOT NULL, end_line INTEGER NOT NULL,
    language TEXT NOT NULL, symbol TEXT NOT NULL, symbol_type TEXT NOT NULL,
    text TEXT NOT NULL, symbol_parts TEXT NOT NULL, path_parts TEXT NOT NULL, text_parts TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS chunk_of_path ON chunk (path);
CREATE VIRTUAL TABLE IF NOT EXISTS words USING fts5 (
    symbol, symbol_parts, path, path_parts, text, text_parts,
    content = 'chunk', content_rowid = 'number', tokenize = 'porter unicode61 remove_diacritics 2'
);
CREATE TRIGGER IF NOT EXISTS chunk_added AFTER INSERT ON chunk BEGIN
    INSERT INTO words (rowid, symbol, symbol_parts, path, path_parts, text, text_parts)
    VALUES (new.number, new.symbol, new.symbol_parts, new.path, new.path_parts, new.text, new.text_parts);
END;
CREATE TRIGGER IF NOT EXISTS chunk_removed AFTER DELETE ON chunk BEGIN
    INSERT INTO words (words, rowid, symbol, symbol_parts, path, path_parts, text, text_parts)
    VALUES (
        'delete', old.number,
        old.symbol, old.symbol_parts, old.path, old.path_parts, old.text, old.text_parts
    );
END;
"""

_INSERT = "INSERT INTO chunk VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"

# The text is fetched for the best rows only, so that sorting thousands of rows does not move it.
_HITS = """
SELECT number, -bm25(words, 3, 2, 2, 1, 1, 0.5) AS score,
       id, chunk.path, start_line, end_line, language, chunk.symbol, symbol_type
FROM words JOIN chunk ON number = words.rowid
WHERE words MATCH ? ORDER BY score DESC, number
"""
_ALL = """
SELECT number, 0.0, id, path, start_line, end_line, language, symbol, symbol_type FROM chunk ORDER BY number
"""

_Row = tuple[int, float, str, str, int, int, str, str, str]


class ChunkIndex:
    """A full-text index of chunks."""

    def __init__(self, database: str = ":memory:") -> None:
        # Created in one thread and used in another, but never in two at once.
        self._database = sqlite3.connect(database, check_same_thread=False)
        self._database.executescript(_SCHEMA)

    def close(self) -> None:
        self._database.close()

    def replace(self, files: Iterable[tuple[str, Sequence[RagChunk]]]) -> None:
        """Replace the chunks of files, by path, in one transaction."""
        with self._database:
            for path, chunks in files:
                self._database.execute("DELETE FROM chunk WHERE path = ?", (_valid(path),))
                self._database.executemany(_INSERT, map(_columns, chunks))

    def remove(self, paths: Iterable[str]) -> None:
        self.replace((path, ()) for path in paths)

    def search(
        self, query: str, scope: Scope, limit: int, similarities: Mapping[str, float] | None = None
    ) -> list[RagChunk]:
        """The best chunks within the scope, best first. Any query is valid; one without terms finds nothing,
        unless `similarities` of chunks are given, by id: then the ranking is hybrid, with scores up to 1.

        Of several chunks with the same path and symbol, only the best is returned. Rows are scored, filtered,
        made distinct, and only then limited, so a narrow scope still yields `limit` chunks.
        """
        terms = query_terms(query)
        if limit < 1:
            return []
        rows = self._admitted(terms, scope) if terms else iter(())
        if similarities:
            rows = self._fused(rows, scope, similarities)
        best = islice(_distinct(rows), limit)
        return [_chunk(row, self._text(row[0])) for row in list(best)]

    def _admitted(self, terms: Sequence[str], scope: Scope) -> Iterator[_Row]:
        # A quoted term is never an operator; several terms in one pair of quotes would form a phrase.
        match = " OR ".join(f'"{term}"' for term in terms)
        for row in self._database.execute(_HITS, (match,)):
            if scope.admits(metadata_of(_chunk(row, ""))):
                yield row

    def _fused(
        self, lexical: Iterable[_Row], scope: Scope, similarities: Mapping[str, float]
    ) -> Iterator[_Row]:
        """All rows within the scope that share a word with the query or are similar to it, best first."""
        scores = {row[0]: row[1] for row in lexical}
        admitted = {
            row[0]: row for row in self._database.execute(_ALL) if scope.admits(metadata_of(_chunk(row, "")))
        }
        similar = {number: similarities.get(row[2], 0.0) for number, row in admitted.items()}
        fused = {number: score.mixed for number, score in fuse(scores, similar).items()}
        for number in sorted(fused, key=lambda number: (-fused[number], number)):
            row = admitted[number]
            yield (row[0], fused[number], *row[2:])

    def _text(self, number: int) -> str:
        [text] = self._database.execute("SELECT text FROM chunk WHERE number = ?", (number,)).fetchone()
        return text


def _distinct(rows: Iterable[_Row]) -> Iterator[_Row]:
    """The first row per path and symbol. Chunks without a symbol are all distinct."""
    seen: set[tuple[str, str]] = set()
    for row in rows:
        identity, path, symbol = row[2], row[3], row[7]
        key = (path.casefold(), symbol.casefold()) if symbol else (identity, "")
        if key not in seen:
            seen.add(key)
            yield row


def metadata_of(chunk: RagChunk) -> dict[str, object]:
    """The metadata that a scope can filter by."""
    return {
        **_place(chunk.path),
        "id": chunk.id,
        "language": chunk.language,
        "symbol": chunk.symbol or None,
        "symbol_type": chunk.symbol_type or None,
        "start_line": chunk.start_line,
        "end_line": chunk.end_line,
    }


@lru_cache(maxsize=4096)
def _place(path: str) -> dict[str, object]:
    """The metadata of a path. An extension matches with and without its dot."""
    place = PurePosixPath(path)
    extension = place.suffix.lower()
    return {
        "path": path,
        "folder": [str(parent) for parent in place.parents if parent.name],
        "file_name": place.name,
        "extension": [extension, extension[1:]] if extension else [],
    }


def _columns(chunk: RagChunk) -> tuple[str | int, ...]:
    symbol, path, text = _valid(chunk.symbol), _valid(chunk.path), _valid(chunk.text)
    return (
        _valid(chunk.id),
        path,
        chunk.start_line,
        chunk.end_line,
        chunk.language,
        symbol,
        chunk.symbol_type,
        text,
        name_parts(symbol),
        name_parts(path),
        name_parts(text),
    )


def _valid(text: str) -> str:
    """Replace lone surrogates, which SQLite rejects."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _chunk(row: _Row, text: str) -> RagChunk:
    _, score, identity, path, start_line, end_line, language, symbol, symbol_type = row
    return RagChunk(identity, path, start_line, end_line, language, text, symbol, symbol_type, score)
