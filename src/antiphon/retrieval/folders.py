"""Retrieval from folders: files are indexed at the first query, and the index is updated from then on."""

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from math import inf
from pathlib import Path
from threading import Event
from typing import NamedTuple

from antiphon.documents.reader import BlockingReader
from antiphon.errors import SettingsError
from antiphon.retrieval.base import RagChunk
from antiphon.retrieval.chunk_vectors import ChunkVectors, FindEmbedder
from antiphon.retrieval.chunking import cut_document
from antiphon.retrieval.files import FileFinder, FoundFile
from antiphon.retrieval.index import ChunkIndex
from antiphon.retrieval.scope import Scope
from antiphon.retrieval.vector_cache import VectorCache

SCAN_INTERVAL_SECONDS = 2.0
"""Minimum time between two scans of the folders."""


class VectorSource(NamedTuple):
    """Where the vectors of chunks come from: the embedding model, if there is one now, and a file."""

    find_embedder: FindEmbedder
    cache: Path


class FolderRetriever:
    """Finds chunks in the files of folders. One thread of its own reads and searches files.

    A folder is absolute or relative to the root, and lies within it. The index is in memory. With `vectors`,
    the ranking is hybrid.
    """

    def __init__(
        self,
        folders: Sequence[Path],
        *,
        root: Path,
        monotonic: Callable[[], float] = time.monotonic,
        vectors: VectorSource | None = None,
    ) -> None:
        root = root.resolve()
        self._finder = FileFinder([checked_folder(folder, root) for folder in folders], root)
        self._monotonic = monotonic
        self._index = ChunkIndex()
        self._indexed: dict[str, FoundFile] = {}
        self._scan_at = -inf
        self._closing = Event()
        # One thread, so that a query during a scan waits for it instead of scanning again.
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="antiphon-retrieval")
        self._chunk_ids: dict[str, set[str]] = {}
        """By path; with vectors only."""
        self._vectors = (
            ChunkVectors(vectors.find_embedder, VectorCache(vectors.cache), self._executor)
            if vectors
            else None
        )

    async def retrieve(self, query: str, *, scope: Scope, limit: int) -> Sequence[RagChunk]:
        """The best chunks within the scope, best first. The first call waits until all files are read."""
        loop = asyncio.get_running_loop()
        similarities: dict[str, float] | None = None
        if self._vectors is not None:
            await loop.run_in_executor(self._executor, self._refresh)
            similarities = await self._vectors.similarities(query)
        return await loop.run_in_executor(self._executor, self._search, query, scope, limit, similarities)

    async def aclose(self) -> None:
        """Stop reading and end the thread."""
        if not self._closing.is_set():
            self._closing.set()
            if self._vectors is not None:
                await self._vectors.aclose()
            await asyncio.get_running_loop().run_in_executor(self._executor, self._index.close)
            self._executor.shutdown(wait=False)

    def _search(
        self, query: str, scope: Scope, limit: int, similarities: dict[str, float] | None
    ) -> list[RagChunk]:
        self._refresh()
        return self._index.search(query, scope, limit, similarities)

    def _refresh(self) -> None:
        if self._monotonic() >= self._scan_at:
            self._scan()
            self._scan_at = self._monotonic() + SCAN_INTERVAL_SECONDS

    def _scan(self) -> None:
        """Update the index to the present files."""
        found = self._finder.find()
        for path in self._indexed.keys() - found.keys():
            self._index.remove((path,))
            self._note(path, [])
        changed = [file for path, file in found.items() if self._indexed.get(path) != file]
        self._index.replace(self._cut(changed))
        self._indexed = found

    def _cut(self, files: Iterable[FoundFile]) -> Iterator[tuple[str, list[RagChunk]]]:
        with BlockingReader() as reader:
            for file in files:
                if self._closing.is_set():
                    return
                document = self._finder.read(file, reader)
                chunks = cut_document(file.path, document) if document is not None else []
                self._note(file.path, chunks)
                yield file.path, chunks

    def _note(self, path: str, chunks: Sequence[RagChunk]) -> None:
        """Tell the vectors which chunks a file has now."""
        if self._vectors is None:
            return
        before = self._chunk_ids.pop(path, set())
        now = {chunk.id for chunk in chunks}
        self._vectors.update([chunk for chunk in chunks if chunk.id not in before], before - now)
        if now:
            self._chunk_ids[path] = now


def checked_folder(folder: Path, root: Path) -> Path:
    """The folder, if it exists within the root. Raises `SettingsError`."""
    place = (root / folder).resolve()
    if not place.is_dir():
        raise SettingsError(f"The folder '{folder}' does not exist. Correct `agent.documents`.")
    if not place.is_relative_to(root):
        raise SettingsError(f"The folder '{folder}' is not within '{root}'.")
    return place
