"""``GET /v1/upstreams``: the upstreams of this process and their health."""

from typing import Any, ClassVar

import msgspec

from antiphon.caller import ADMIN, READ
from antiphon.server.exchange import Exchange
from antiphon.server.routing import Route
from antiphon.service.routing.router import Router
from antiphon.service.routing.upstreams import UpstreamState


class UpstreamRoutes:
    """Shows the upstreams."""

    def __init__(self, router: Router) -> None:
        self._router = router

    async def list(self, exchange: Exchange) -> None:
        """Every upstream. Addresses and errors are shown to keys with the scope `admin` only."""
        is_admin = ADMIN in exchange.caller.scopes
        data = [_wire(state, is_admin=is_admin) for state in self._router.upstreams()]
        payload = {"object": "list", "data": data, "first_id": None, "last_id": None, "has_more": False}
        await exchange.send_json(msgspec.json.encode(payload))

    ROUTES: ClassVar = (Route("GET /v1/upstreams", list, READ),)


def _wire(state: UpstreamState, *, is_admin: bool) -> dict[str, Any]:
    fields = msgspec.structs.asdict(state)
    p50, p95, p99 = state.first_token_ms
    shown = {} if is_admin else {"base_url": None, "last_error": None}
    return {
        "object": "upstream",
        **fields,
        "first_token_ms": {"p50": p50, "p95": p95, "p99": p99},
        **shown,
    }
