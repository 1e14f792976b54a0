"""``POST /v1/responses/compact``."""

import msgspec

from antiphon.server.exchange import Exchange
from antiphon.server.lifetime import Lifetimes
from antiphon.service.responses.compaction import Compactor


class CompactRoutes:
    """The route that makes a conversation short."""

    def __init__(
        self, compactor: Compactor, lifetimes: Lifetimes, *, max_body: int, body_timeout: float
    ) -> None:
        self._compactor = compactor
        self._lifetimes = lifetimes
        self._max_body = max_body
        self._body_timeout = body_timeout

    async def compact(self, exchange: Exchange) -> None:
        """Summarise what was sent; the client goes on with the answer's output as its input."""
        with self._lifetimes.lease(exchange.receive) as lease:
            lease.expect_body(self._body_timeout)
            body = await exchange.body(self._max_body)
            lease.expect_disconnect()
            compacted = await self._compactor.compact(body, exchange.tenant)
        await exchange.send_json(msgspec.json.encode(compacted))
