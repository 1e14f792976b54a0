"""A scripted search for passages, in place of vector stores."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from antiphon.errors import AntiphonError, InvalidRequest, NotFound
from antiphon.service.vector_stores.passages import Passage, PassageQuery


def passage(text: str, *, name: str = "sky.pdf", ordinal: int = 0, label: str = "page 3") -> Passage:
    return Passage(
        store_id="vs_1",
        file_id=f"file_{name}",
        filename=name,
        attributes={"year": 2024.0},
        score=0.87654321,
        text=text,
        ordinal=ordinal,
        label=label,
    )


BLUE = passage("The sky is blue.")
GREEN = passage("Grass is green.", name="grass.md", ordinal=4, label="")


@dataclass
class ScriptedPassages:
    """Vector stores of the tenant `t`, which always find the same."""

    found: Sequence[Passage] | AntiphonError = (BLUE, GREEN)
    stores: Mapping[str, str] = field(default_factory=lambda: {"vs_1": "completed", "vs_2": "completed"})
    queries: list[PassageQuery] = field(default_factory=list[PassageQuery])
    checked: list[Sequence[str]] = field(default_factory=list[Sequence[str]])
    gate: asyncio.Event | None = None
    """Searches wait for it."""
    searched: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the first search has begun."""
    running: int = 0
    most_running: int = 0

    async def check(self, tenant: str, store_ids: Sequence[str]) -> None:
        self.checked.append(store_ids)
        for store_id in store_ids:
            if tenant != "t" or store_id not in self.stores:
                raise NotFound(f"Vector store '{store_id}' was not found.", param="vector_store_id")
            if self.stores[store_id] == "expired":
                raise InvalidRequest(f"Vector store '{store_id}' has expired.", code="vector_store_expired")

    async def search(self, tenant: str, store_ids: Sequence[str], query: PassageQuery) -> Sequence[Passage]:
        self.queries.append(query)
        self.searched.set()
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        try:
            if self.gate is not None:
                await self.gate.wait()
            await asyncio.sleep(0)
            if isinstance(self.found, AntiphonError):
                raise self.found
            return self.found[: query.limit]
        finally:
            self.running -= 1
