"""``GET /v1/responses`` as a WebSocket: who is let in, and what a connection is made of."""

import asyncio
import logging

from antiphon.errors import Unavailable
from antiphon.server.lifetime import ClientGone, Lifetimes
from antiphon.server.types import Receive, Scope, Send
from antiphon.server.websocket.channel import Channel, refuse
from antiphon.server.websocket.connection import Connection, WebSocketLimits
from antiphon.server.websocket.lane import Admit, Shared
from antiphon.service.create import Creator
from antiphon.service.session import ConnectionMemory

logger = logging.getLogger(__name__)


class WebSocketDoor:
    """Serves sockets whose key, Host and Origin were checked already."""

    def __init__(self, creator: Creator, lifetimes: Lifetimes, *, limits: WebSocketLimits) -> None:
        self._creator = creator
        self._lifetimes = lifetimes
        self._limits = limits

    async def serve(self, scope: Scope, receive: Receive, send: Send, admit: Admit, request_id: str) -> None:
        """One connection, from its handshake to its end."""
        if self._lifetimes.draining:
            await refuse(scope, send, Unavailable(), request_id)
            return
        channel = Channel(receive, send)
        await channel.accept(request_id)
        shared = Shared(
            creator=self._creator,
            lifetimes=self._lifetimes,
            channel=channel,
            memory=ConnectionMemory(),
            turns=asyncio.Semaphore(self._limits.responses),
            admit=admit,
            request_id=request_id,
        )
        try:
            await Connection(shared, self._limits).serve()
        except ClientGone:
            logger.info("request %s: the client left", request_id)
