"""Finds documents by what is said in them."""

from collections.abc import Sequence
from contextlib import closing

from msgspec import Struct

from antiphon.orchestrator.documents.entry import Entry
from antiphon.retrieval.base import RagChunk
from antiphon.retrieval.chunking import cut
from antiphon.retrieval.index import ChunkIndex
from antiphon.retrieval.scope import Scope


class Hit(Struct, frozen=True, kw_only=True):
    """A document that was found, and what of it fits best."""

    entry: Entry
    section: str
    excerpt: str


def search_documents(entries: Sequence[Entry], query: str, limit: int) -> list[Hit]:
    """The documents that fit best, each once, best first."""
    by_name = {entry.name: entry for entry in entries}
    files = [(entry.name, cut(entry.name, entry.text)) for entry in entries]
    with closing(ChunkIndex()) as index:
        index.replace(files)
        chunks = index.search(query, Scope(), sum(len(chunks) for _, chunks in files))
    hits: dict[str, Hit] = {}
    for chunk in chunks:
        entry = by_name[chunk.path]
        hits.setdefault(entry.name, Hit(entry=entry, section=_section(entry, chunk), excerpt=chunk.text))
    return list(hits.values())[:limit]


def _section(entry: Entry, chunk: RagChunk) -> str:
    """The headings above the chunk, without that of the document and without their stars."""
    headings = [heading.strip("* ") for heading in chunk.symbol.split(" > ")]
    return " > ".join(heading for heading in headings if not heading.startswith(entry.id))
