"""``GET /healthz``: the process lives. ``GET /readyz``: it takes requests."""

from antiphon.errors import Unavailable
from antiphon.server.exchange import Exchange
from antiphon.server.lifetime import Lifetimes

_OK = b'{"status":"ok"}'


class HealthRoutes:
    """For load balancers and supervisors; no key is asked for."""

    def __init__(self, lifetimes: Lifetimes) -> None:
        self._lifetimes = lifetimes

    async def alive(self, exchange: Exchange) -> None:
        """Always yes, while there is a process to say so."""
        await exchange.send_json(_OK)

    async def ready(self, exchange: Exchange) -> None:
        """No from the moment of SIGTERM."""
        if self._lifetimes.draining:
            raise Unavailable
        await exchange.send_json(_OK)
