"""An ASGI WebSocket as text frames, with a client that may leave at any time."""

import msgspec

from antiphon.errors import AntiphonError
from antiphon.server.error_shapes import challenge
from antiphon.server.lifetime import ClientGone
from antiphon.server.types import Receive, Scope, Send


class Channel:
    """An accepted socket."""

    __slots__ = ("_receive", "_send")

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive = receive
        self._send = send

    async def accept(self, request_id: str) -> None:
        """Answer the handshake."""
        await self._receive()  # websocket.connect
        headers = [(b"x-request-id", request_id.encode())]
        await self._send({"type": "websocket.accept", "headers": headers})

    async def receive(self) -> str | bytes:
        """The next message: text, or bytes if it was binary. Raises `ClientGone`."""
        message = await self._receive()
        if message["type"] == "websocket.disconnect":
            raise ClientGone
        text: str | None = message.get("text")
        return message["bytes"] if text is None else text

    async def send(self, text: str) -> None:
        """One text frame; waits while the client reads too slowly. Raises `ClientGone`."""
        try:
            await self._send({"type": "websocket.send", "text": text})
        except (OSError, RuntimeError):  # the client left, or the server closed the socket first
            raise ClientGone from None

    async def close(self, code: int, reason: str) -> None:
        """Close the socket. Raises `ClientGone` if the client closed it first."""
        try:
            await self._send({"type": "websocket.close", "code": code, "reason": reason})
        except (OSError, RuntimeError):
            raise ClientGone from None


async def refuse(scope: Scope, send: Send, error: AntiphonError, request_id: str) -> None:
    """Answer a handshake with an error object, as HTTP; where the server cannot do that, with a plain 403."""
    if "websocket.http.response" not in scope.get("extensions", {}):
        await send({"type": "websocket.close", "code": 1008})
        return
    body = msgspec.json.encode({"error": error.to_wire()})
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", b"%d" % len(body)),
        (b"x-request-id", request_id.encode()),
        *challenge(error.status),
    ]
    if error.retry_after is not None:
        headers.append((b"retry-after", b"%d" % max(1, round(error.retry_after))))
    await send({"type": "websocket.http.response.start", "status": error.status, "headers": headers})
    await send({"type": "websocket.http.response.body", "body": body})
