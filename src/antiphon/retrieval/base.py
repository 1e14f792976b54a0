"""The port of retrieval, and its result."""

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from antiphon.retrieval.scope import Scope


class RagChunk(Struct, frozen=True):
    """A piece of a file. Lines count from 1; the end is included."""

    id: str
    """Stable: the same piece of the same file has the same id in every search."""
    path: str
    """Relative to the root of the index, with forward slashes."""
    start_line: int
    end_line: int
    language: str
    text: str
    symbol: str = ""
    """The heading, class or function that it belongs to, if known."""
    symbol_type: str = ""
    score: float = 0.0
    """The higher the better; comparable within one search only."""


class Retriever(Protocol):
    async def retrieve(self, query: str, *, scope: Scope, limit: int) -> Sequence[RagChunk]:
        """The best chunks within the scope, best first; empty if nothing matches."""
        ...
