"""``/v1/responses/{id}``: retrieve, follow, delete, cancel, and what went in."""

from contextlib import aclosing

import msgspec

from antiphon.errors import InvalidRequest
from antiphon.protocol.item_lists import list_items
from antiphon.protocol.requests import StreamOptions
from antiphon.protocol.shape import Shape
from antiphon.protocol.sse import SseRenderer
from antiphon.server.exchange import Exchange
from antiphon.server.lifetime import Lifetimes
from antiphon.service.event_log import read_events
from antiphon.service.stored import StoredResponses


class StoredRoutes:
    """The routes of a response that was created before."""

    def __init__(self, stored: StoredResponses, lifetimes: Lifetimes) -> None:
        self._stored = stored
        self._lifetimes = lifetimes

    async def retrieve(self, exchange: Exchange, response_id: str) -> None:
        """The response as its creator was told, or its events from the log."""
        query = exchange.query()
        query.check_include()
        query.flag("include_obfuscation")  # nothing is obfuscated here: either value is served
        after = query.number("starting_after", least=0)
        if query.flag("stream"):
            with self._lifetimes.lease(exchange.receive) as lease:
                lease.expect_disconnect()
                await self.follow(exchange, response_id, -1 if after is None else after)
            return
        if after is not None:
            message = "'starting_after' is about a stream. Send 'stream=true' with it, or leave it out."
            raise InvalidRequest(message, param="starting_after")
        response = await self._stored.retrieve(exchange.tenant, response_id)
        await exchange.send_json(Shape(exchange.profile).encode(response))

    async def delete(self, exchange: Exchange, response_id: str) -> None:
        """Forget it; if it is still being made, it is cancelled first."""
        await self._stored.delete(exchange.tenant, response_id)
        deleted = {"id": response_id, "object": "response", "deleted": True}
        await exchange.send_json(msgspec.json.encode(deleted))

    async def cancel(self, exchange: Exchange, response_id: str) -> None:
        """End a response that is made in the background."""
        response = await self._stored.background.cancel(exchange.tenant, response_id)
        await exchange.send_json(Shape(exchange.profile).encode(response))

    async def input_items(self, exchange: Exchange, response_id: str) -> None:
        """A page of what went into a response."""
        page = exchange.query().page()
        found = await self._stored.store.input_items(exchange.tenant, response_id, page)
        await exchange.send_json(msgspec.json.encode(list_items(found.items, has_more=found.has_more)))

    async def follow(self, exchange: Exchange, response_id: str, after: int = -1) -> None:
        """Send events from the log and then as they come, within the lease of the caller.

        A stream that breaks off ends without `[DONE]`: the response goes on, and can be followed again.
        """
        shape = Shape(exchange.profile, StreamOptions())
        async with aclosing(self._stored.background.follow(exchange.tenant, response_id, after)) as pieces:
            async for piece in pieces:
                if not exchange.started:
                    await exchange.start_stream()
                await exchange.send_events(piece if shape.plain else _reshaped(piece, shape))
        if not exchange.started:
            await exchange.start_stream()
        await exchange.end_stream(exchange.profile.end)


def _reshaped(piece: bytes, shape: Shape) -> bytes:
    """Stored events in the form of another profile; a comment has no form."""
    return SseRenderer(shape).render(read_events(piece)) or piece
