"""``POST /v1/messages/count_tokens``: how much of the context a request takes."""

import msgspec

from antiphon.errors import AntiphonError
from antiphon.server.compat.messages.conversation import OpenEnvelope
from antiphon.server.compat.messages.request import read_count
from antiphon.server.exchange import Bodies, Exchange
from antiphon.server.routes.input_tokens import COUNTED_BY
from antiphon.service.responses.input_tokens import TokenCount


class CountRoute:
    """Counts; the model is not run."""

    def __init__(self, tokens: TokenCount, bodies: Bodies, open_envelope: OpenEnvelope) -> None:
        self._tokens = tokens
        self._bodies = bodies
        self._open_envelope = open_envelope

    async def count(self, exchange: Exchange) -> None:
        """The number, and in a header who counted."""
        question = read_count(await self._bodies.read(exchange), self._open_envelope)
        try:
            count = await self._tokens.count(exchange.tenant, question.request)
        except AntiphonError as error:
            question.blame(error)
            raise
        headers = ((COUNTED_BY, count.by.encode()), *exchange.errors.headers(exchange.request_id))
        await exchange.send_json(msgspec.json.encode({"input_tokens": count.tokens}), headers=headers)
