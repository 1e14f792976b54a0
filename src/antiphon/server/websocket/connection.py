"""One open socket: frames go to their lanes, and the end comes in good order.

It ends when the client leaves (what runs is cancelled), when it is too old, or when the server drains. In the
last two cases no turn is begun any more, those under way are finished, and then the socket is closed.
"""

import asyncio
from dataclasses import dataclass

from antiphon.errors import AntiphonError, InvalidRequest, TooManyRequests, Unavailable
from antiphon.protocol.frames import CREATE, Frame, FrameWriter, read_frame, unsupported_event
from antiphon.server.websocket.stream import Shared, SocketStream

GOING_AWAY = 1001
NORMAL = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class WebSocketLimits:
    """What one connection may do."""

    responses: int = 16
    """Responses that are made at a time; further ones wait."""
    lanes: int = 32
    """Different `stream_id`s."""
    seconds: float = 60 * 60
    """How long a connection lasts."""
    waiting: int = 64
    """Frames that wait for their turn."""
    waiting_bytes: int = 64 * 1024 * 1024
    """Their size together."""


class Connection:
    """One open socket."""

    def __init__(self, shared: Shared, limits: WebSocketLimits) -> None:
        self._shared = shared
        self._limits = limits
        self._lanes: dict[str | None, SocketStream] = {None: SocketStream(shared, None)}

    async def serve(self) -> None:
        """Until the end."""
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

    async def _finish(self, reading: asyncio.Task[None], error: AntiphonError) -> None:
        """Begin no turn any more, and wait until none is under way. Raises `ClientGone`."""
        self._shared.ending = error
        while working := self._working():
            await asyncio.wait({reading, *working}, return_when=asyncio.FIRST_COMPLETED)
            if reading.done():
                await reading

    async def _read(self) -> None:
        while True:
            await self._take(await self._shared.channel.receive())

    async def _take(self, message: str | bytes) -> None:
        """Give a frame to its lane. What cannot be given to one is refused at once."""
        stream_id: str | None = None
        try:
            frame = read_frame(message)
            stream_id = frame.stream_id
            if frame.type != CREATE:
                raise unsupported_event(frame.type)
            self._check_room(frame)
            self._lane(stream_id).add(frame)
        except AntiphonError as error:
            await self._shared.channel.send(FrameWriter(stream_id).error(error))

    def _lane(self, stream_id: str | None) -> SocketStream:
        lane = self._lanes.get(stream_id)
        if lane is None:
            if len(self._lanes) > self._limits.lanes:
                raise InvalidRequest(
                    f"This connection has {self._limits.lanes} lanes already. Use one of them again, or "
                    "open another connection.",
                    param="stream_id",
                    code="websocket_stream_limit_reached",
                )
            lane = self._lanes[stream_id] = SocketStream(self._shared, stream_id)
        return lane

    def _check_room(self, frame: Frame) -> None:
        """What waits is held in memory, so there is a limit to it."""
        sizes = [len(waiting.body) for lane in self._lanes.values() for waiting in lane.waiting]
        if len(sizes) >= self._limits.waiting or sum(sizes) + len(frame.body) > self._limits.waiting_bytes:
            raise TooManyRequests(
                "Too many requests wait on this connection. Send the next one when an answer has ended.",
                code="websocket_queue_limit_reached",
            )

    def _working(self) -> set[asyncio.Task[None]]:
        return {lane.task for lane in self._lanes.values() if lane.task is not None}


def _too_old(seconds: float) -> InvalidRequest:
    return InvalidRequest(
        f"A connection lasts {seconds / 60:g} minutes at most. Open another one to go on.",
        code="websocket_connection_limit_reached",
    )


async def _cancel(tasks: set[asyncio.Task[None]]) -> None:
    """Stop these and wait until they have let go of everything."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
