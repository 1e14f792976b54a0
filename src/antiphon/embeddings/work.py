"""The work of a child process: count the tokens of texts, and embed them. Blocking."""

from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec
from msgspec import Struct

from antiphon.embeddings.base import Vector
from antiphon.embeddings.minilm import WINDOW_TOKENS, ModelFiles, load
from antiphon.embeddings.vectors import from_floats, normalized, to_floats


class Work(Struct, frozen=True, array_like=True):
    """Texts to embed, or only to count the tokens of."""

    files: ModelFiles
    threads: int
    texts: Sequence[str]
    counts_only: bool = False


class Result(Struct, frozen=True, array_like=True):
    """By text: the number of its tokens, and its vector."""

    tokens: Sequence[int]
    vectors: Sequence[Vector]


class Model(Protocol):
    """A loaded model."""

    def tokenize(self, texts: Sequence[str]) -> list[list[int]]: ...

    def embed(self, window: Sequence[int]) -> Vector: ...


def run(payload: bytes) -> bytes:
    """Work for the bundled model, encoded."""
    return run_with(payload, load)


def run_with(payload: bytes, load_model: Callable[[ModelFiles, int], Model]) -> bytes:
    work = msgspec.msgpack.decode(payload, type=Work)
    model = load_model(work.files, work.threads)
    tokens = model.tokenize(work.texts)
    vectors = [] if work.counts_only else [_vector(model, ids) for ids in tokens]
    return msgspec.msgpack.encode(Result([len(ids) for ids in tokens], vectors))


def _vector(model: Model, ids: Sequence[int]) -> Vector:
    """The mean of the vectors of the text's windows, so that nothing of a long text is cut off."""
    windows = [ids[start : start + WINDOW_TOKENS] for start in range(0, len(ids), WINDOW_TOKENS)] or [ids]
    if len(windows) == 1:
        return model.embed(ids)
    rows = [[number * len(window) for number in to_floats(model.embed(window))] for window in windows]
    return from_floats(normalized([sum(column) for column in zip(*rows, strict=True)]))
