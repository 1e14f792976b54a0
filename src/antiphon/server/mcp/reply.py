"""The reply to one message: JSON, or a stream of events that begins with progress or after a long silence."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from antiphon.mcp.messages import encode_notification
from antiphon.protocol.sse import COMMENT
from antiphon.server.exchange import Exchange
from antiphon.server.heartbeats import heartbeats

PROGRESS_INTERVAL_SECONDS = 0.5
"""Between two notifications about the progress of a call; others are left out."""
_JSON = "application/json"
_EVENTS = "text/event-stream"


class Reply:
    """Sends the reply in a form that the client accepts."""

    def __init__(self, exchange: Exchange, heartbeat_seconds: float) -> None:
        self._exchange = exchange
        self._heartbeat = heartbeat_seconds
        accepted = _accepted(exchange)
        self._takes_json = accepted is None or bool(accepted & {_JSON, "application/*", "*/*"})
        self._takes_events = accepted is not None and _EVENTS in accepted
        self._sending = asyncio.Lock()
        self._sent_at = asyncio.get_running_loop().time()
        self._progress = 0
        self._progress_at = 0.0

    async def report(self, token: int | str, message: str) -> None:
        """Notify the client of progress, if it accepts a stream, and not too often."""
        now = asyncio.get_running_loop().time()
        if not self._takes_events or (self._progress and now - self._progress_at < PROGRESS_INTERVAL_SECONDS):
            return
        self._progress += 1
        self._progress_at = now
        params: dict[str, Any] = {"progressToken": token, "progress": self._progress, "message": message}
        await self._send_events(_event(encode_notification("notifications/progress", params)))

    async def finish(self, payload: bytes, status: int = 200) -> None:
        """Send the reply itself."""
        async with self._sending:
            exchange = self._exchange
            if exchange.phase == "streaming":
                await exchange.end_stream(_event(payload))
            elif self._takes_events and not self._takes_json and status == 200:
                await exchange.start_stream()
                await exchange.end_stream(_event(payload))
            else:
                await exchange.send_json(payload, status)

    @asynccontextmanager
    async def alive(self) -> AsyncGenerator[None, None]:
        """Send comments during silence, so that no proxy closes the connection. The first one begins the
        stream."""
        if not self._takes_events:
            yield
            return
        async with heartbeats(self._heartbeat, lambda: self._sent_at, partial(self._send_events, COMMENT)):
            yield

    async def _send_events(self, payload: bytes) -> None:
        async with self._sending:
            self._sent_at = asyncio.get_running_loop().time()
            if not self._exchange.started:
                await self._exchange.start_stream()
            await self._exchange.send_events(payload)


def _accepted(exchange: Exchange) -> set[str] | None:
    """The media types of the `Accept` header; None: any."""
    values = exchange.header_values("accept")
    if not values:
        return None
    return {part.partition(";")[0].strip().lower() for value in values for part in value.split(",")}


def _event(message: bytes) -> bytes:
    return b"event: message\ndata: %b\n\n" % message
