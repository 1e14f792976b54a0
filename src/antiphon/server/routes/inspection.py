"""Traces, stored events and lookups."""

from typing import Any, ClassVar

import msgspec

from antiphon.caller import READ
from antiphon.protocol.ids import RESPONSE_ID
from antiphon.server.exchange import Exchange
from antiphon.server.routing import Route
from antiphon.service.inspection import Inspection

MAX_EVENTS = 1000
DEFAULT_EVENTS = 100


class InspectionRoutes:
    """What was recorded of responses."""

    def __init__(self, inspection: Inspection) -> None:
        self._inspection = inspection

    async def trace(self, exchange: Exchange, response_id: str) -> None:
        """What was sent upstream for a response, and what came back."""
        await exchange.send_json(await self._inspection.trace(exchange.caller, response_id))

    async def events(self, exchange: Exchange, response_id: str) -> None:
        """The stored events of a response, from a number on."""
        query = exchange.query()
        after = query.number("after", least=0)
        limit = query.number("limit", least=1, most=MAX_EVENTS) or DEFAULT_EVENTS
        page = await self._inspection.events(
            exchange.caller, response_id, -1 if after is None else after, limit
        )
        numbers = [each.sequence_number for each in page.events]
        payload = {
            "object": "list",
            "data": page.events,
            "first_id": numbers[0] if numbers else None,
            "last_id": numbers[-1] if numbers else None,
            "has_more": page.has_more,
        }
        await exchange.send_json(msgspec.json.encode(payload))

    async def look_up(self, exchange: Exchange, wanted: str) -> None:
        """What an id names."""
        found = await self._inspection.look_up(exchange.caller, wanted)
        payload: dict[str, Any] = {"object": "lookup", "kind": found.kind, "id": wanted}
        if found.response_id is not None:
            payload["response_id"] = found.response_id
        await exchange.send_json(msgspec.json.encode(payload))

    ROUTES: ClassVar = (
        Route("GET /v1/responses/{id}/trace", trace, READ, stateful=True, id_form=RESPONSE_ID),
        Route("GET /v1/responses/{id}/events", events, READ, stateful=True, id_form=RESPONSE_ID),
        Route("GET /v1/lookup/{id}", look_up, READ, stateful=True),
    )
