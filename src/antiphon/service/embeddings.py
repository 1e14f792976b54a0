"""Embeddings for clients: the models by name, and the one that `auto` means."""

from collections.abc import Iterable

from antiphon.backends.base import ModelInfo
from antiphon.caller import Caller
from antiphon.embeddings.base import Embedded, Embedder
from antiphon.errors import ModelNotFound
from antiphon.protocol.embeddings import EmbeddingsRequest

AUTO = "auto"


class Embeddings:
    """The embedding models of a server. Without any, requests are answered with `advice`."""

    def __init__(self, embedders: Iterable[Embedder] = (), default: str = "", advice: str = "") -> None:
        self.change(embedders, default, advice)

    def change(self, embedders: Iterable[Embedder], default: str = "", advice: str = "") -> None:
        """Replace the models. `default` is what `auto` means; empty: the first one."""
        self._embedders = {embedder.model: embedder for embedder in embedders}
        self._default = default or next(iter(self._embedders), "")
        self._advice = advice

    @property
    def default(self) -> str:
        """The model that `auto` means; empty if there is none."""
        return self._default

    def models(self) -> list[ModelInfo]:
        return [ModelInfo(name) for name in self._embedders]

    def model(self, name: str) -> ModelInfo | None:
        return ModelInfo(name) if name in self._embedders else None

    def find(self, name: str) -> Embedder:
        """The model of this name; raises `ModelNotFound`."""
        found = self._embedders.get(self._default if name == AUTO else name)
        if found is not None:
            return found
        if not self._embedders:
            raise ModelNotFound(f"This server has no embedding model. {self._advice}".rstrip())
        known = ", ".join(f"'{model}'" for model in self._embedders)
        raise ModelNotFound(
            f"There is no embedding model '{name[:200]}' here. Use 'auto' or one of: {known}."
        )

    async def create(self, request: EmbeddingsRequest, caller: Caller) -> tuple[str, Embedded]:
        """The name of the model that was used, and the vectors."""
        embedder = self.find(request.model)
        found = await embedder.embed(request.inputs, dimensions=request.dimensions, tenant=caller.tenant)
        return embedder.model, found
