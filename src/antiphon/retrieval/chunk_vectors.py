"""`ChunkVectors`: the vectors of the chunks of an index, made in the background and cached.

A query does not wait for them for long: until all chunks have vectors, it is ranked by its words alone.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from itertools import islice
from typing import TypeVar

from antiphon.embeddings.base import Embedder
from antiphon.errors import AntiphonError
from antiphon.retrieval.base import RagChunk
from antiphon.retrieval.similarity import SimilarityIndex
from antiphon.retrieval.vector_cache import VectorCache

logger = logging.getLogger(__name__)

BATCH_CHUNKS = 32
WAIT_SECONDS = 2.0
"""How long the first query after a change waits for the vectors of new chunks."""
MAX_QUERY_CHARACTERS = 4000
"""Of a query that are embedded; the rest counts by its words."""
RETRY_SECONDS = 30.0
"""After a failure of the embedding model."""
TENANT = "agent documents"
"""The vectors of documents are made in turn with those that clients ask for."""

T = TypeVar("T")
FindEmbedder = Callable[[], Embedder | None]


class ChunkVectors:
    """`find_embedder` returns the current model, or None. Blocking work is done in the executor."""

    def __init__(self, find_embedder: FindEmbedder, cache: VectorCache, executor: Executor) -> None:
        self._find_embedder = find_embedder
        self._cache = cache
        self._executor = executor
        self._index = SimilarityIndex()
        self._model = ""
        self._chunks: dict[str, str] = {}
        """The texts of all chunks, by id."""
        self._missing: dict[str, str] = {}
        """Those without a vector."""
        self._working: asyncio.Task[None] | None = None
        self._retry_at = 0.0

    def update(self, added: Sequence[RagChunk], removed: set[str]) -> None:
        """Chunks have changed. To be called in the executor, before `similarities`."""
        for key in removed:
            self._chunks.pop(key, None)
            self._missing.pop(key, None)
        self._index.change({}, removed)
        new = {chunk.id: embedded_text(chunk) for chunk in added}
        self._chunks |= new
        self._missing |= new

    async def similarities(self, query: str) -> dict[str, float] | None:
        """The similarity of the query and each chunk, by id; None if vectors are missing."""
        embedder = self._find_embedder()
        loop = asyncio.get_running_loop()
        if embedder is None or loop.time() < self._retry_at or not query.strip():
            return None
        try:
            if not await self._is_complete(embedder):
                return None
            [vector] = (await embedder.embed([query[:MAX_QUERY_CHARACTERS]], tenant=TENANT)).vectors
        except AntiphonError as error:
            self._retry_at = loop.time() + RETRY_SECONDS
            logger.warning(
                "documents are ranked by words alone: the embedding model failed: %s", error.message
            )
            return None
        return await self._run(lambda: self._index.similarities(vector))

    async def aclose(self) -> None:
        if self._working is not None:
            self._working.cancel()
            await asyncio.gather(self._working, return_exceptions=True)
        await self._run(self._cache.close)

    async def _is_complete(self, embedder: Embedder) -> bool:
        """Whether all chunks have vectors. The query that begins the work waits a while for it. Raises the
        error of the work."""
        seconds = 0.0
        if self._working is None and (self._missing or self._model != embedder.model):
            self._working = asyncio.create_task(self._fill(embedder))
            seconds = WAIT_SECONDS
        if self._working is not None:
            done, _ = await asyncio.wait({self._working}, timeout=seconds)
            if not done:
                return False
            finished, self._working = self._working, None
            finished.result()
        return not self._missing

    async def _fill(self, embedder: Embedder) -> None:
        """Give vectors to all chunks that have none."""
        model = embedder.model
        await self._run(lambda: self._prepare(model))
        while batch := await self._run(lambda: dict(islice(self._missing.items(), BATCH_CHUNKS))):
            texts = list(batch.values())
            vectors = (await embedder.embed(texts, tenant=TENANT)).vectors
            found = dict(zip(batch, vectors, strict=True))
            await self._run(lambda texts=texts, vectors=vectors: self._cache.put(model, texts, vectors))
            await self._run(lambda found=found: self._add(found))

    def _prepare(self, model: str) -> None:
        """Take what is cached. With another model, all chunks are embedded again."""
        if not self._model:
            self._cache.open()
        if model != self._model:
            self._index.change({}, set(self._chunks))
            self._missing = dict(self._chunks)
            self._model = model
        self._add(self._cache.get(model, self._missing))

    def _add(self, found: dict[str, bytes]) -> None:
        current = {key: vector for key, vector in found.items() if key in self._chunks}
        self._index.change(current)
        for key in found:
            self._missing.pop(key, None)

    async def _run(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._executor, work)


def embedded_text(chunk: RagChunk) -> str:
    """The text of a chunk below the heading, class or function that it belongs to."""
    return f"{chunk.symbol}\n{chunk.text}" if chunk.symbol else chunk.text
