"""`HashedEmbedder`: vectors without a model, for tests. Texts that share words are near each other."""

import re
from array import array
from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b

from antiphon.embeddings.base import Embedded, Input, Vector
from antiphon.embeddings.vectors import from_floats, normalized
from antiphon.errors import InvalidRequest

_WORD = re.compile(r"\w+|[^\w\s]")


class HashedEmbedder:
    """Adds up a fixed pseudo-random vector for each word. The same text has the same vector everywhere."""

    def __init__(self, model: str = "hashed", dimensions: int = 64) -> None:
        self._model = model
        self._dimensions = dimensions

    @property
    def model(self) -> str:
        return self._model

    async def embed(
        self, inputs: Sequence[Input], *, dimensions: int | None = None, tenant: str = ""
    ) -> Embedded:
        if dimensions is not None and dimensions > self._dimensions:
            message = (
                f"The model '{self._model}' has {self._dimensions} dimensions; 'dimensions' asks for more."
            )
            raise InvalidRequest(message, param="dimensions")
        words = [_words(one) for one in inputs]
        vectors = [self._vector(found, dimensions or self._dimensions) for found in words]
        return Embedded(vectors, sum(map(len, words)))

    async def aclose(self) -> None:
        """Nothing to release."""

    def _vector(self, words: Sequence[str], dimensions: int) -> Vector:
        total = [0.0] * self._dimensions
        for word in words:
            total = [
                one + other for one, other in zip(total, _direction(word, self._dimensions), strict=True)
            ]
        return from_floats(normalized(total[:dimensions]))


def _words(one: Input) -> list[str]:
    return _WORD.findall(one.lower()) if isinstance(one, str) else [f"#{token}" for token in one]


@lru_cache(maxsize=10_000)
def _direction(word: str, dimensions: int) -> Sequence[float]:
    """Numbers between -1 and 1 that follow from the word alone."""
    digest = b"".join(
        blake2b(word.encode("utf-8", "replace"), salt=number.to_bytes(2, "little")).digest()
        for number in range(dimensions * 2 // 64 + 1)
    )
    return [number / 32768 for number in array("h", digest[: dimensions * 2])]
