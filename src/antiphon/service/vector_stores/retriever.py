"""Retrieval for the agent from a vector store that is kept in step with its folders."""

import asyncio
import hashlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from antiphon.errors import BackendError
from antiphon.retrieval.base import RagChunk
from antiphon.retrieval.chunking import language_of
from antiphon.retrieval.index import metadata_of
from antiphon.retrieval.scope import Scope
from antiphon.service.vector_stores.folder_sync import FolderSync
from antiphon.service.vector_stores.local_files import PATH_ATTRIBUTE
from antiphon.service.vector_stores.passages import HybridWeights, Passage, PassageQuery, PassageSearch

MAX_PASSAGES = 100
"""Of one search; the scope is applied to them."""
FIRST_WAIT_SECONDS = 30.0
"""How long the first questions wait until the files are in the store."""
DIGEST_DIGITS = 10
WORDS_ALONE = HybridWeights(0.0, 1.0)
MAX_LOCATED_BYTES = 2_000_000


@dataclass(frozen=True, slots=True)
class StoreRetriever:
    """Finds passages in the vector store of `sync`, whose paths are relative to `root`."""

    search: PassageSearch
    sync: FolderSync
    root: Path

    async def retrieve(self, query: str, *, scope: Scope, limit: int) -> Sequence[RagChunk]:
        """The best passages within the scope, best first. By words alone if the embedding model fails."""
        with suppress(TimeoutError):
            async with asyncio.timeout(FIRST_WAIT_SECONDS):
                await self.sync.settled.wait()
        wanted = PassageQuery(queries=(query,), limit=MAX_PASSAGES)
        stores, tenant = [await self.sync.store_id()], self.sync.caller.tenant
        try:
            found = await self.search.search(tenant, stores, wanted)
        except BackendError:
            by_words = PassageQuery(queries=(query,), limit=MAX_PASSAGES, weights=WORDS_ALONE)
            found = await self.search.search(tenant, stores, by_words)
        chunks = await asyncio.to_thread(lambda: [self._chunk(each) for each in found])
        return [chunk for chunk in chunks if scope.admits(metadata_of(chunk))][:limit]

    def _chunk(self, passage: Passage) -> RagChunk:
        path = str(passage.attributes.get(PATH_ATTRIBUTE, passage.filename))
        digest = hashlib.sha256(passage.text.encode()).hexdigest()[:DIGEST_DIGITS]
        start, end = self._lines(path, passage.text)
        return RagChunk(
            id=f"{path}#{digest}",
            path=path,
            start_line=start,
            end_line=end,
            language=language_of(path),
            text=passage.text,
            symbol=passage.label,
            symbol_type=_symbol_type(passage.label),
            score=passage.score,
        )

    def _lines(self, path: str, text: str) -> tuple[int, int]:
        """The lines of a passage in its file; those of the passage itself if the file is not the plain text.

        The path is an attribute, which clients set too: only files that were found in the folders are opened.
        """
        found = self.sync.file_at(path)
        content = "" if found is None else _content(found.place, self.root)
        start = content.find(text)
        first = content.count("\n", 0, start) + 1 if start >= 0 else 1
        return first, first + text.count("\n")


def _symbol_type(label: str) -> str:
    """`page 3` is a page; other labels are headings."""
    kind = label.partition(" ")[0]
    return kind if kind in ("page", "slide", "sheet", "attachment") else "section" if label else ""


def _content(place: Path, root: Path) -> str:
    """The text of a regular file below the root, empty if it is too large: it may have been replaced since it
    was found."""
    try:
        is_below = place.resolve().is_relative_to(root.resolve())
        if not is_below or not place.is_file() or place.stat().st_size > MAX_LOCATED_BYTES:
            return ""
        return place.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""
