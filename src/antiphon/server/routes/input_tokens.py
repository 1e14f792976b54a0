"""``POST /v1/responses/input_tokens``: how much of the context a request takes."""

import msgspec

from antiphon.protocol.parse_count import parse_count
from antiphon.server.exchange import Bodies, Exchange
from antiphon.service.responses.input_tokens import TokenCount

COUNTED_BY = b"x-antiphon-count"
"""The header that says whether the model's tokenizer counted (`exact`) or we estimated (`estimate`)."""


class InputTokensRoutes:
    """The route of `/v1/responses/input_tokens`."""

    def __init__(self, tokens: TokenCount, bodies: Bodies) -> None:
        self._tokens = tokens
        self._bodies = bodies

    async def count(self, exchange: Exchange) -> None:
        """Count; the model is not run."""
        request = parse_count(await self._bodies.read(exchange))
        count = await self._tokens.count(exchange.tenant, request)
        payload = {"object": "response.input_tokens", "input_tokens": count.tokens}
        await exchange.send_json(msgspec.json.encode(payload), headers=((COUNTED_BY, count.by.encode()),))
