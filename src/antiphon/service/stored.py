"""Responses that are there already: read, followed, cancelled, deleted."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Protocol

from antiphon.protocol.response import Response
from antiphon.store.base import UNFINISHED
from antiphon.store.ports import ResponseStore


class BackgroundRuns(Protocol):
    """What can be done from outside with a response that is made in the background."""

    def follow(self, tenant: str, response_id: str, after: int = -1) -> AsyncGenerator[bytes, None]:
        """Its events with numbers above `after`, rendered. What is refused is raised at the first step."""
        ...

    async def cancel(self, tenant: str, response_id: str) -> Response:
        """End it; the response as it is now."""
        ...


@dataclass(frozen=True, slots=True)
class StoredResponses:
    """The life of a response after it was created."""

    store: ResponseStore
    background: BackgroundRuns

    async def retrieve(self, tenant: str, response_id: str) -> Response:
        """What the creator was told, or how far it has come."""
        return await self.store.response(tenant, response_id)

    async def delete(self, tenant: str, response_id: str) -> None:
        """Forget a response; one that is still being made is cancelled first."""
        response = await self.store.response(tenant, response_id)
        if response.status in UNFINISHED:
            await self.background.cancel(tenant, response_id)
        await self.store.delete(tenant, response_id)
