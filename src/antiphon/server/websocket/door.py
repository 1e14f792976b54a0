"""``GET /v1/responses`` as a WebSocket: who is let in, and what a connection is made of."""

import asyncio
import logging
from collections.abc import Iterable

from antiphon.errors import AntiphonError, Forbidden, Unavailable
from antiphon.server.lifetime import ClientGone, Lifetimes
from antiphon.server.types import Receive, Scope, Send
from antiphon.server.websocket.channel import Channel, refuse
from antiphon.server.websocket.connection import Connection, WebSocketLimits
from antiphon.server.websocket.lane import Admit, Shared
from antiphon.service.create import Creator
from antiphon.service.session import ConnectionMemory

logger = logging.getLogger(__name__)


class WebSocketDoor:
    """Serves sockets whose key and Host were checked already."""

    def __init__(self, creator: Creator, lifetimes: Lifetimes, *, limits: WebSocketLimits) -> None:
        self._creator = creator
        self._lifetimes = lifetimes
        self._limits = limits

    async def serve(self, scope: Scope, receive: Receive, send: Send, admit: Admit, request_id: str) -> None:
        """One connection, from its handshake to its end."""
        try:
            self._check(scope)
        except AntiphonError as error:
            await refuse(scope, send, error, request_id)
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

    def _check(self, scope: Scope) -> None:
        if self._lifetimes.draining:
            raise Unavailable
        check_origin(scope["headers"])


def check_origin(headers: Iterable[tuple[bytes, bytes]]) -> None:
    """Refuse web pages of other sites: browsers let every page open a socket to every server."""
    found = dict(headers)
    origin = found.get(b"origin")
    if origin is not None and origin.lower().partition(b"://")[2] != found[b"host"].lower():
        raise Forbidden(
            f"Web pages of '{origin.decode('latin-1')[:100]}' may not connect here, only those of this host.",
            code="forbidden_origin",
        )
