"""Builds the embedding models that the settings describe."""

import asyncio
import os
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from typing import NamedTuple

from antiphon.backends.chat_completions.errors import ERRORS
from antiphon.backends.registry import Endpoint
from antiphon.embeddings.base import Embedder
from antiphon.embeddings.local import LocalEmbedder
from antiphon.embeddings.minilm import (
    MODEL_FILE,
    MODEL_NAME,
    TOKENIZER_FILE,
    ModelFiles,
    how_to_install,
    is_installed,
)
from antiphon.embeddings.upstream import UpstreamEmbedder
from antiphon.errors import SettingsError
from antiphon.http.client import JSON, HttpClient
from antiphon.service.embeddings import Embeddings
from antiphon.settings import EmbeddingModelRow, Settings
from antiphon.weights.pinned import Progress, fetch
from antiphon.wiring.backends import make_endpoint
from antiphon.wiring.folders import models_folder

CLOSE_DELAY_SECONDS = 60.0
"""A removed model stays open for this long: requests may use it."""


class BuiltEmbedder(NamedTuple):
    """An embedding model, and the settings that it was made from."""

    source: object
    embedder: Embedder


class EmbedderSet:
    """The embedding models of the settings. A reload opens and closes only those that differ."""

    def __init__(self, settings: Settings) -> None:
        self._made: list[BuiltEmbedder] = []
        self._closing: set[asyncio.Task[None]] = set()
        self.embeddings = Embeddings()
        self._apply(settings)

    def find_default(self) -> Embedder | None:
        """The model that `auto` means, if there is one now."""
        name = self.embeddings.default
        return self.embeddings.find(name) if name else None

    def find_bundled(self) -> Embedder | None:
        """The bundled model, if it is served now."""
        return next((one.embedder for one in self._made if isinstance(one.embedder, LocalEmbedder)), None)

    def change(self, settings: Settings) -> None:
        """Serve the models of these settings; raises `SettingsError` before anything has changed."""
        for embedder in self._apply(settings):
            task = asyncio.get_running_loop().create_task(_close_later(embedder))
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    def _apply(self, settings: Settings) -> list[Embedder]:
        """The models that are no longer served."""
        made = [self._take(source, make) for source, make in _wanted(settings)]
        served: dict[str, Embedder] = {}
        for built in made:
            served.setdefault(built.embedder.model, built.embedder)
        default = settings.embeddings.model
        if default and default not in served:
            known = ", ".join(served) or "none"
            raise SettingsError(
                f"embeddings.model: nothing serves the embedding model '{default}'. Served: {known}."
            )
        removed = [built.embedder for built in self._made if built not in made]
        self._made = made
        self.embeddings.change(served.values(), default, _advice(settings))
        return removed

    def _take(self, source: object, make: Callable[[], Embedder]) -> BuiltEmbedder:
        same = next((built for built in self._made if built.source == source), None)
        return same or BuiltEmbedder(source, make())

    async def aclose(self) -> None:
        for task in self._closing:
            task.cancel()
        for built in self._made:
            await built.embedder.aclose()


@asynccontextmanager
async def open_embedders(settings: Settings) -> AsyncGenerator[EmbedderSet, None]:
    """The embedding models, for as long as the context lasts."""
    embedders = EmbedderSet(settings)
    try:
        yield embedders
    finally:
        await embedders.aclose()


def _wanted(settings: Settings) -> Iterator[tuple[object, Callable[[], Embedder]]]:
    """What each is made from, and how; those of upstreams first."""
    for row in settings.upstreams:
        for model in row.embedding_models:
            named = EmbeddingModelRow(model) if isinstance(model, str) else model
            endpoint = make_endpoint(row, settings.server.heartbeat)
            yield (endpoint, named), partial(make_upstream_embedder, endpoint, named)
    if serves_bundled_model(settings):
        yield (MODEL_NAME, settings.embeddings.threads), partial(make_local_embedder, settings)


def serves_bundled_model(settings: Settings) -> bool:
    """Whether the bundled model is served. Raises `SettingsError` if it should be, and is not installed."""
    local = settings.embeddings.local
    if local and not is_installed():
        raise SettingsError(f"embeddings.local is true. {how_to_install()}")
    return is_installed() if local is None else local


def make_upstream_embedder(endpoint: Endpoint, row: EmbeddingModelRow) -> UpstreamEmbedder:
    return UpstreamEmbedder(make_json_client(endpoint), row.name, row.upstream)


def make_json_client(endpoint: Endpoint) -> HttpClient:
    """A client of the routes of an upstream beside that for answers."""
    headers = {"content-type": JSON}
    if endpoint.api_key:
        headers["authorization"] = f"Bearer {endpoint.api_key}"
    return HttpClient(endpoint.target(headers), partial(ERRORS.refusal, endpoint))


def make_local_embedder(settings: Settings) -> LocalEmbedder:
    """The bundled model; its files are fetched and it is loaded by its first call."""
    threads = settings.embeddings.threads or max(1, (os.cpu_count() or 1) - 1)
    return LocalEmbedder(lambda: fetch_bundled_model(_no_progress), threads=threads)


def fetch_bundled_model(progress: Progress) -> ModelFiles:
    """The files of the bundled model, downloaded if they are missing. Blocks."""
    folder = models_folder()
    model, tokenizer = (fetch(file, folder, progress) for file in (MODEL_FILE, TOKENIZER_FILE))
    return ModelFiles(str(model), str(tokenizer))


def _advice(settings: Settings) -> str:
    if settings.embeddings.local is False:
        return "Set embeddings.local to true, or embedding_models of an upstream."
    return f"{how_to_install()} Or set embedding_models of an upstream."


def _no_progress(_done: int, _total: int, _label: str, /) -> None:
    pass


async def _close_later(embedder: Embedder) -> None:
    await asyncio.sleep(CLOSE_DELAY_SECONDS)
    await embedder.aclose()
