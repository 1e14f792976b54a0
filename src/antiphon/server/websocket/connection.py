"""One open socket: passes frames to their streams, and ends in order.

It ends when the client leaves (running turns are cancelled), when it is too old, or when the server drains.
In the last two cases no further turn begins, running ones are finished, and then the socket is closed.
"""

import asyncio
from dataclasses import dataclass

from antiphon.errors import AntiphonError, InvalidRequest, TooManyRequests, Unavailable, drop_tracebacks
from antiphon.protocol.frames import CREATE, Frame, FrameWriter, read_frame, unsupported_event
from antiphon.server.websocket.stream import Shared, SocketStream

GOING_AWAY = 1001
NORMAL = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class WebSocketLimits:
    """The limits of one connection."""

    responses: int = 16
    """Responses that are made at a time; further ones wait."""
    streams: int = 32
    """Different `stream_id`s."""
    seconds: float = 60 * 60
    """The lifetime of a connection."""
    waiting: int = 64
    """Frames that wait for their turn."""
    waiting_bytes: int = 64 * 1024 * 1024
    """Their size together."""
    server_bytes: int = 64 * 1024 * 1024
    """The size of the large frames of all connections whose turns have not ended."""
    history_bytes: int = 256 * 1024 * 1024
    """The size of the histories that all connections remember."""


class Connection:
    """One open socket."""

    def __init__(self, shared: Shared, limits: WebSocketLimits) -> None:
        self._shared = shared
        self._limits = limits
        self._streams: dict[str | None, SocketStream] = {None: SocketStream(shared, None)}

    async def serve(self) -> None:
        """Serve the socket until it ends."""
        reading = asyncio.create_task(self._read())
        draining = asyncio.create_task(self._shared.lifetimes.drain_begins())
        try:
            await asyncio.wait(
                {reading, draining}, timeout=self._limits.seconds, return_when=asyncio.FIRST_COMPLETED
            )
            if reading.done():
                await reading
            elif draining.done():
                await self._finish(reading, Unavailable())
                await self._shared.channel.close(GOING_AWAY, "The server is shutting down.")
            else:
                error = _too_old(self._limits.seconds)
                await self._finish(reading, error)
                await self._shared.channel.send(FrameWriter(None).error(error))
                await self._shared.channel.close(NORMAL, "The connection was open long enough.")
        finally:
            await _cancel({reading, draining, *self._working()})
            self._shared.frames.release_all()

    async def _finish(self, reading: asyncio.Task[None], error: AntiphonError) -> None:
        """Begin no further turn, and wait until none is running. Raises `ClientGone`."""
        self._shared.ending = error
        while working := self._working():
            await asyncio.wait({reading, *working}, return_when=asyncio.FIRST_COMPLETED)
            if reading.done():
                await reading

    async def _read(self) -> None:
        while True:
            await self._take(await self._shared.channel.receive())

    async def _take(self, message: str | bytes) -> None:
        """Pass a frame to its stream; reject an invalid one at once."""
        stream_id: str | None = None
        try:
            frame = read_frame(message)
            stream_id = frame.stream_id
            if frame.type != CREATE:
                raise unsupported_event(frame.type)
            self._check_stream(stream_id)
            self._check_room(frame)
            self._stream(stream_id).add(frame)
        except AntiphonError as error:
            await self._shared.channel.send(FrameWriter(stream_id).error(error))

    def _check_stream(self, stream_id: str | None) -> None:
        if stream_id not in self._streams and len(self._streams) > self._limits.streams:
            raise InvalidRequest(
                f"This connection has {self._limits.streams} streams already. Use one of them again, or "
                "open another connection.",
                param="stream_id",
                code="websocket_stream_limit_reached",
            )

    def _check_room(self, frame: Frame) -> None:
        """Frames are held in memory until their turns have ended, so there are limits."""
        sizes = [len(waiting.body) for stream in self._streams.values() for waiting in stream.waiting]
        full = len(sizes) >= self._limits.waiting or sum(sizes) + len(frame.body) > self._limits.waiting_bytes
        if full or not self._shared.frames.charge(frame):
            raise TooManyRequests(
                "Too many requests wait on this connection, or too many large ones on this server. Send the "
                "next one when an answer has ended.",
                code="websocket_queue_limit_reached",
            )

    def _stream(self, stream_id: str | None) -> SocketStream:
        stream = self._streams.get(stream_id)
        if stream is None:
            stream = self._streams[stream_id] = SocketStream(self._shared, stream_id)
        return stream

    def _working(self) -> set[asyncio.Task[None]]:
        return {stream.task for stream in self._streams.values() if stream.task is not None}


def _too_old(seconds: float) -> InvalidRequest:
    return InvalidRequest(
        f"A connection lasts {seconds / 60:g} minutes at most. Open another one to continue.",
        code="websocket_connection_limit_reached",
    )


async def _cancel(tasks: set[asyncio.Task[None]]) -> None:
    """Cancel these tasks and wait until they have ended."""
    for task in tasks:
        task.cancel()
    for result in await asyncio.gather(*tasks, return_exceptions=True):
        if result is not None:
            drop_tracebacks(result)
