"""`VectorCache`: vectors by model and text, in a file, so that no text is embedded twice."""

import logging
import sqlite3
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from pathlib import Path

from antiphon.embeddings.base import Vector

logger = logging.getLogger(__name__)

MAX_VECTORS = 100_000
"""About 200 MB; the oldest are removed first."""
BUSY_SECONDS = 5.0
_SCHEMA = """
CREATE TABLE IF NOT EXISTS vector (
    number INTEGER PRIMARY KEY, model TEXT NOT NULL, digest BLOB NOT NULL, vector BLOB NOT NULL,
    UNIQUE (model, digest)
)
"""
_INSERT = "INSERT OR IGNORE INTO vector (model, digest, vector) VALUES (?, ?, ?)"
_SELECT = "SELECT vector FROM vector WHERE model = ? AND digest = ?"
_TRIM = "DELETE FROM vector WHERE number <= (SELECT max(number) FROM vector) - ?"


class VectorCache:
    """Many processes may use one file. A file that cannot be used is reported, and then nothing is cached.

    Its methods block. It may be used by one thread at a time.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._database: sqlite3.Connection | None = None

    def open(self) -> None:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            database = sqlite3.connect(self._path, timeout=BUSY_SECONDS, check_same_thread=False)
            database.execute("PRAGMA journal_mode = WAL")
            database.execute("PRAGMA synchronous = OFF")  # what is lost can be computed again
            database.execute(_SCHEMA)
        except (OSError, sqlite3.Error) as error:
            logger.warning("vectors are not cached: %s cannot be used: %s", self._path, error)
            return
        self._database = database

    def close(self) -> None:
        if self._database is not None:
            self._database.close()
            self._database = None

    def get(self, model: str, texts: Mapping[str, str]) -> dict[str, Vector]:
        """The known vectors of these texts, by the texts' keys."""
        if self._database is None:
            return {}
        found: dict[str, Vector] = {}
        try:
            for key, text in texts.items():
                row = self._database.execute(_SELECT, (model, _digest(text))).fetchone()
                if row is not None:
                    found[key] = row[0]
        except sqlite3.Error as error:
            logger.warning("vectors cannot be read from %s: %s", self._path, error)
        return found

    def put(self, model: str, texts: Sequence[str], vectors: Sequence[Vector]) -> None:
        if self._database is None:
            return
        rows = [(model, _digest(text), vector) for text, vector in zip(texts, vectors, strict=True)]
        try:
            with self._database:
                self._database.executemany(_INSERT, rows)
                self._database.execute(_TRIM, (MAX_VECTORS,))
        except sqlite3.Error as error:
            logger.warning("vectors cannot be written to %s: %s", self._path, error)


def _digest(text: str) -> bytes:
    return blake2b(text.encode("utf-8", "replace"), digest_size=20).digest()
