"""``GET /v1/responses`` as a WebSocket: who is let in, and what a connection is made of."""

import asyncio
import logging
from typing import NamedTuple

from antiphon.errors import Unavailable
from antiphon.protocol.profile import Profile
from antiphon.server.lifetime import ClientGone, Lifetimes
from antiphon.server.types import Receive, Scope, Send
from antiphon.server.websocket.channel import Channel, refuse
from antiphon.server.websocket.connection import Connection, WebSocketLimits
from antiphon.server.websocket.stream import Admit, Shared
from antiphon.service.responses.create import Creator
from antiphon.service.responses.session import ConnectionMemory

logger = logging.getLogger(__name__)


class SocketClient(NamedTuple):
    """Who comes in: how it is admitted to each turn, and how it wants to be spoken to."""

    admit: Admit
    profile: Profile
    request_id: str


class WebSocketEndpoint:
    """Serves sockets whose key, Host and Origin were checked already."""

    def __init__(self, creator: Creator, lifetimes: Lifetimes, *, limits: WebSocketLimits) -> None:
        self._creator = creator
        self._lifetimes = lifetimes
        self._limits = limits

    async def serve(self, scope: Scope, receive: Receive, send: Send, guest: SocketClient) -> None:
        """One connection, from its handshake to its end."""
        if self._lifetimes.draining:
            await refuse(scope, send, Unavailable(), guest.request_id)
            return
        channel = Channel(receive, send)
        await channel.accept(guest.request_id)
        shared = Shared(
            creator=self._creator,
            lifetimes=self._lifetimes,
            channel=channel,
            memory=ConnectionMemory(),
            turns=asyncio.Semaphore(self._limits.responses),
            admit=guest.admit,
            profile=guest.profile,
            request_id=guest.request_id,
        )
        try:
            await Connection(shared, self._limits).serve()
        except ClientGone:
            logger.info("request %s: the client left", guest.request_id)
