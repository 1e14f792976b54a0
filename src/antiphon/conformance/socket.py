"""A WebSocket to the server under test: one JSON object per frame; a turn ends with its terminal event."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import msgspec
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidHandshake, InvalidStatus, WebSocketException

from antiphon.conformance.order import kind_of
from antiphon.conformance.probe import Probe
from antiphon.conformance.results import Failed, Skipped
from antiphon.conformance.target import Unanswered
from antiphon.protocol.content import JsonObject

ENDS = frozenset({"completed", "incomplete", "failed", "error"})
MAX_FRAME_BYTES = 64 * 1024 * 1024


class Socket:
    def __init__(self, connection: ClientConnection, probe: Probe) -> None:
        self._connection = connection
        self._probe = probe

    async def turn(self, **parameters: object) -> list[JsonObject]:
        """The events of one `response.create`, up to the terminal one or an error."""
        body = {"type": "response.create", **self._probe.defaults, **parameters}
        return await self.exchange(msgspec.json.encode(body).decode())

    async def exchange(self, frame: str) -> list[JsonObject]:
        """Send a frame and receive events until a turn ends."""
        probe = self._probe
        probe.target.requests += 1
        probe.note(f"→ {frame}")
        events: list[JsonObject] = []
        try:
            async with asyncio.timeout(probe.target.timeout):
                await self._connection.send(frame)
                while not events or kind_of(events[-1]) not in ENDS:
                    events.append(self._read(await self._connection.recv()))
        except TimeoutError:
            raise Unanswered(f"the turn did not end within {probe.target.timeout:g} s") from None
        except WebSocketException as error:
            raise Unanswered(f"the connection broke: {probe.safe(str(error))}") from None
        finally:
            probe.note(f"← {msgspec.json.encode(events[-1]).decode() if events else 'no event'}")
        return events

    def _read(self, frame: str | bytes) -> JsonObject:
        try:
            return msgspec.json.decode(frame, type=JsonObject)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise Failed("a frame is not a JSON object", [self._probe.safe(str(frame))]) from None


@asynccontextmanager
async def connected(probe: Probe) -> AsyncGenerator[Socket, None]:
    """An open connection; skips the check if the server refuses WebSockets."""
    opened = await open_socket(probe)
    if isinstance(opened, int):
        raise Skipped(f"not offered: a WebSocket is refused with status {opened}")
    try:
        yield Socket(opened, probe)
    finally:
        await opened.close()


async def open_socket(probe: Probe) -> ClientConnection | int:
    """An open connection, or the status with which it was refused."""
    target = probe.target
    target.requests += 1
    probe.note(f"→ WebSocket {target.socket_url}")
    try:
        return await connect(
            target.socket_url,
            additional_headers=target.authorization,
            open_timeout=target.timeout,
            close_timeout=5,
            max_size=MAX_FRAME_BYTES,
            proxy=None,
        )
    except InvalidStatus as refusal:
        probe.note(f"← {refusal.response.status_code}")
        return refusal.response.status_code
    except (InvalidHandshake, OSError, TimeoutError) as error:
        raise Unanswered(f"the handshake failed: {probe.safe(str(error) or type(error).__name__)}") from None
