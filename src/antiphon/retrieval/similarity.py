"""Exact search over vectors that are held in memory, with numpy (`antiphon[retrieval]`)."""

import importlib
from collections.abc import Mapping
from typing import Any

from antiphon.embeddings.base import Vector


class SimilarityIndex:
    """Vectors by key. The first import of numpy holds the event loop, so make an index before it serves.

    It may be used by one thread at a time.
    """

    def __init__(self) -> None:
        self._numpy: Any = importlib.import_module("numpy")
        self._vectors: dict[str, Vector] = {}
        self._matrix: Any = None
        """The vectors as rows of length 1; None: it has to be made again."""

    def __contains__(self, key: str) -> bool:
        return key in self._vectors

    def change(self, added: Mapping[str, Vector], removed: set[str] | frozenset[str] = frozenset()) -> None:
        for key in removed:
            self._vectors.pop(key, None)
        self._vectors.update(added)
        self._matrix = None

    def similarities(self, vector: Vector) -> dict[str, float]:
        """The cosine of the angle between this vector and each other. Other lengths have none."""
        numpy = self._numpy
        if not self._vectors:
            return {}
        if self._matrix is None:
            if len(set(map(len, self._vectors.values()))) > 1:
                return {}
            rows = numpy.frombuffer(b"".join(self._vectors.values()), "<f4").reshape(len(self._vectors), -1)
            self._matrix = rows / numpy.maximum(numpy.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
        query = numpy.frombuffer(vector, "<f4")
        if query.shape[0] != self._matrix.shape[1]:
            return {}
        found = self._matrix @ (query / max(float(numpy.linalg.norm(query)), 1e-12))
        return dict(zip(self._vectors, found.tolist(), strict=True))
