"""A model in place of the bundled one: a token per word, fast, and without any package.

Its words can do more: `sleep` takes a while, `crash` ends the process, `break` raises.
"""

import os
import time
from collections.abc import Sequence
from hashlib import blake2b

from antiphon.embeddings.base import Vector
from antiphon.embeddings.local import LocalEmbedder
from antiphon.embeddings.minilm import DIMENSIONS, ModelFiles
from antiphon.embeddings.vectors import from_floats, normalized
from antiphon.embeddings.work import run_with

RUN = "tests.embeddings.word_model:run"
NO_FILES = ModelFiles("", "")
SLEEP_SECONDS = 0.05


def _number(word: str) -> int:
    return int.from_bytes(blake2b(word.encode(), digest_size=4).digest())


SLEEP, CRASH, BREAK = map(_number, ("sleep", "crash", "break"))


class WordModel:
    def __init__(self, _files: ModelFiles = NO_FILES, _threads: int = 1) -> None:
        self.windows: list[int] = []
        """The number of tokens of each window."""

    def tokenize(self, texts: Sequence[str]) -> list[list[int]]:
        return [[_number(word) for word in text.split()] for text in texts]

    def embed(self, window: Sequence[int]) -> Vector:
        if SLEEP in window:
            time.sleep(SLEEP_SECONDS)
        if CRASH in window:
            os.abort()
        if BREAK in window:
            raise RuntimeError("broken")
        self.windows.append(len(window))
        numbers = [0.001] * DIMENSIONS
        for token in window:
            numbers[token % DIMENSIONS] += 1.0
            numbers[token // DIMENSIONS % DIMENSIONS] += 1.0
        return from_floats(normalized(numbers))


def run(payload: bytes) -> bytes:
    """In the child process."""
    return run_with(payload, WordModel)


def word_embedder() -> LocalEmbedder:
    return LocalEmbedder(lambda: NO_FILES, run=RUN)
