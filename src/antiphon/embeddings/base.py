"""The port of embedding models, and its result."""

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from antiphon.errors import Unsupported

Vector = bytes
"""The components as little-endian 32-bit floats, one after another: as they are stored and sent."""
Input = str | Sequence[int]
"""A text, or the ids of its tokens."""


class Embedded(Struct, frozen=True):
    """The vectors of inputs, in their order."""

    vectors: Sequence[Vector]
    tokens: int
    """Tokens of all inputs together."""


class Embedder(Protocol):
    """One embedding model. It serves many calls at once, and holds the event loop in none of them."""

    @property
    def model(self) -> str:
        """The name for clients. Vectors of two models cannot be compared."""
        ...

    async def embed(
        self, inputs: Sequence[Input], *, dimensions: int | None = None, tenant: str = ""
    ) -> Embedded:
        """The vectors. That of a text does not depend on the other inputs.

        `dimensions`: how many components they have; None: the model's own number. Raises `InvalidRequest` for
        inputs and dimensions that the model does not take, and `BackendError`. Tenants take turns where the
        model is busy.
        """
        ...

    async def aclose(self) -> None:
        """Release connections, threads and weights."""
        ...


def texts_of(inputs: Sequence[Input], model: str) -> list[str]:
    """The inputs, if all are texts; raises `Unsupported` for token ids."""
    texts = [text for text in inputs if isinstance(text, str)]
    if len(texts) < len(inputs):
        raise Unsupported(
            f"The model '{model}' takes texts, not arrays of token ids: such ids belong to the tokenizer of "
            "another model. Send strings; with LangChain's OpenAIEmbeddings, set "
            "check_embedding_ctx_length=False.",
            param="input",
        )
    return texts
