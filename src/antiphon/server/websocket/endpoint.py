"""``GET /v1/responses`` as a WebSocket: accepts connections and serves them."""

import asyncio
import logging
from typing import NamedTuple

from antiphon.errors import Unavailable
from antiphon.protocol.profile import Profile
from antiphon.server.lifetime import ClientGone, Lifetimes
from antiphon.server.start_queue import StartQueue
from antiphon.server.types import Receive, Scope, Send
from antiphon.server.websocket.channel import Channel, refuse
from antiphon.server.websocket.connection import Connection, WebSocketLimits
from antiphon.server.websocket.stream import Admit, HeldFrames, Shared
from antiphon.service.responses.create import Creator
from antiphon.service.responses.session import ConnectionMemory
from antiphon.tenant_budget import TenantBudget

logger = logging.getLogger(__name__)


class SocketClient(NamedTuple):
    """The client of a socket: `admit` checks its key for each turn."""

    admit: Admit
    profile: Profile
    request_id: str
    tenant: str


class WebSocketEndpoint:
    """Serves sockets whose key, Host and Origin were checked before."""

    def __init__(
        self, creator: Creator, lifetimes: Lifetimes, starts: StartQueue, *, limits: WebSocketLimits
    ) -> None:
        self._creator = creator
        self._lifetimes = lifetimes
        self._starts = starts
        self._limits = limits
        self._frames = TenantBudget(limits.server_bytes)
        self._histories = TenantBudget(limits.history_bytes)

    async def serve(self, scope: Scope, receive: Receive, send: Send, client: SocketClient) -> None:
        """One connection, from its handshake to its end."""
        if self._lifetimes.draining:
            await refuse(scope, send, Unavailable(), client.request_id)
            return
        channel = Channel(receive, send)
        await channel.accept(client.request_id)
        shared = Shared(
            creator=self._creator,
            lifetimes=self._lifetimes,
            channel=channel,
            memory=ConnectionMemory(self._histories, client.tenant),
            frames=HeldFrames(self._frames, client.tenant),
            starts=self._starts,
            turns=asyncio.Semaphore(self._limits.responses),
            admit=client.admit,
            profile=client.profile,
            request_id=client.request_id,
        )
        try:
            await Connection(shared, self._limits).serve()
        except ClientGone:
            logger.info("request %s: the client disconnected", client.request_id)
        finally:
            shared.memory.clear()
