"""Stored responses: retrieved, followed, cancelled, deleted."""

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from antiphon.caller import Caller
from antiphon.protocol.response import Response
from antiphon.store.approvals import OpenApproval
from antiphon.store.base import UNFINISHED, ItemPage, Page
from antiphon.store.ports import ResponseStore
from antiphon.store.working import ShieldedTasks

CANCEL_SECONDS = 0.5
"""How long an answer to a cancellation waits for the end to be stored."""


class BackgroundRuns(Protocol):
    """Operations on a response that is made in the background."""

    def follow(self, caller: Caller, response_id: str, after: int = -1) -> AsyncGenerator[bytes, None]:
        """Its events with numbers above `after`, rendered. Refusals are raised at the first step."""
        ...

    async def cancel(self, caller: Caller, response_id: str) -> Response:
        """End it; returns the response as it is now."""
        ...

    def unfinished(self, caller: Caller, response_id: str) -> Response | None:
        """It as it is stored until its end, if this process is making it."""
        ...


@dataclass(frozen=True, slots=True)
class StoredResponses:
    """The operations on existing responses."""

    store: ResponseStore
    background: BackgroundRuns
    _cancelling: ShieldedTasks = field(default_factory=ShieldedTasks)

    async def open_approvals(self, caller: Caller, limit: int) -> Sequence[OpenApproval]:
        """Approval requests of MCP tools that wait for a person."""
        return await self.store.open_approvals(caller.tenant, limit)

    async def retrieve(self, caller: Caller, response_id: str) -> Response:
        """The response; one that is still being made as far as it is done."""
        return await self.store.response(caller.tenant, response_id)

    async def input_items(self, caller: Caller, response_id: str, page: Page) -> ItemPage:
        """A page of its input."""
        return await self.store.input_items(caller.tenant, response_id, page)

    def follow(self, caller: Caller, response_id: str, after: int = -1) -> AsyncGenerator[bytes, None]:
        """The rendered events of a background response with numbers above `after`."""
        return self.background.follow(caller, response_id, after)

    async def cancel(self, caller: Caller, response_id: str) -> Response:
        """End a background response; returns it as it is now. To store the end of a large one may take
        seconds if others are stored: then it is returned unfinished, and is cancelled without the client. To
        read it would wait for others, too."""
        unfinished = self.background.unfinished(caller, response_id)
        try:
            return await self._cancelling.run_for(self.background.cancel(caller, response_id), CANCEL_SECONDS)
        except TimeoutError:
            return unfinished or await self.store.response(caller.tenant, response_id)

    async def delete(self, caller: Caller, response_id: str) -> None:
        """Delete a response; one that is still being made is cancelled first."""
        response = await self.store.response(caller.tenant, response_id)
        if response.status in UNFINISHED:
            await self.background.cancel(caller, response_id)
        await self.store.delete(caller.tenant, response_id)
