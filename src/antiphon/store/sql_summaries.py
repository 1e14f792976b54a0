"""The port of summaries on a SQL database."""

import asyncio
from collections.abc import Sequence

from msgspec.structs import replace

from antiphon.protocol.ids import Clock
from antiphon.store import summary_scripts as scripts
from antiphon.store import traces
from antiphon.store.base import Page
from antiphon.store.database import Database
from antiphon.store.summaries import (
    ConversationPage,
    ResponseFilter,
    StoredTrace,
    SummaryPage,
    Tree,
    UsageBucket,
    UsageQuery,
)
from antiphon.store.usage import UsageSums, add_slice


class SqlSummaries:
    """See `SummaryStore`."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._db = database
        self._clock = clock

    def _now(self) -> int:
        return int(self._clock())

    async def responses(self, tenant: str, wanted: ResponseFilter, page: Page) -> SummaryPage:
        """A page of responses."""
        return await self._db.read(scripts.responses(tenant, wanted, page, self._now()))

    async def tree(self, tenant: str, response_id: str) -> Tree:
        """The responses that share a history with this one."""
        return await self._db.read(scripts.tree(tenant, response_id, self._now()))

    async def conversations(self, tenant: str, page: Page) -> ConversationPage:
        """A page of conversations."""
        return await self._db.read(scripts.conversations(tenant, page))

    async def usage(self, tenant: str, query: UsageQuery) -> Sequence[UsageBucket]:
        """Sums of what is stored. Between its slices other reads have their turn."""
        sums, now = UsageSums(), self._now()
        while query.start < query.end:
            start = await self._db.read(add_slice(tenant, query, now, sums))
            query = replace(query, start=start)
        return await asyncio.to_thread(sums.buckets)

    async def of_request(self, tenant: str, request_id: str) -> str | None:
        """The response that a request has created."""
        return await self._db.read(scripts.of_request(tenant, request_id, self._now()))

    async def of_item(self, tenant: str, item_id: str) -> str | None:
        """The response of an item."""
        return await self._db.read(scripts.of_item(tenant, item_id))

    async def trace(self, tenant: str, response_id: str) -> StoredTrace:
        """The sealed trace of a response."""
        return await self._db.read(traces.find(tenant, response_id, self._now()))
