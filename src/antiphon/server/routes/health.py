"""``GET /healthz``: the process runs. ``GET /readyz``: it accepts requests."""

from typing import ClassVar

from antiphon.errors import Unavailable
from antiphon.server.exchange import Exchange
from antiphon.server.lifetime import Lifetimes
from antiphon.server.routing import Route

_OK = b'{"status":"ok","service":"antiphon"}'


class HealthRoutes:
    """For load balancers and supervisors, without a key."""

    def __init__(self, lifetimes: Lifetimes) -> None:
        self._lifetimes = lifetimes

    async def alive(self, exchange: Exchange) -> None:
        """Always 200."""
        await exchange.send_json(_OK)

    async def ready(self, exchange: Exchange) -> None:
        """503 from SIGTERM on."""
        if self._lifetimes.draining:
            raise Unavailable
        await exchange.send_json(_OK)

    ROUTES: ClassVar = (
        Route("GET /healthz", alive, keyless=True),
        Route("GET /readyz", ready, keyless=True),
    )
