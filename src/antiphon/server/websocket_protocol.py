"""WebSockets: uvicorn's protocol, with bounds on what a client can make the server hold.

Received bytes are parsed in small pieces, and not beyond a complete message that the application has not
taken: so a connection inflates one message at a time, and many small frames do not hold the event loop. The
bytes of all connections together have a budget.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec
import uvicorn
from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from uvicorn.server import ServerState
from websockets.exceptions import InvalidState
from websockets.frames import CloseCode, Frame

from antiphon.errors import InvalidRequest
from antiphon.server.send_watch import CHECK_SECONDS, CLOSE_TIMEOUT_SECONDS, SEND_TIMEOUT_SECONDS, SendWatch

if TYPE_CHECKING:
    from uvicorn._types import ASGIReceiveEvent, ASGISendEvent

logger = logging.getLogger(__name__)

CLOSE_HANDSHAKE_SECONDS = 2.0
"""A client may take this long to answer a close frame."""
MIN_PARSED_BYTES = 1024
MAX_PARSED_BYTES = 8 * 1024
"""Parsed at a time: little where frames are small, because each costs the same time."""
MAX_PARSE_SECONDS = 0.0005
"""After this time everything else in the process has its turn. An answer needs several iterations of the
event loop, and a flood is parsed in each."""
MIN_SLOW_BYTES = 128
"""Parsed at a time where that takes long: a frame may have 6 bytes."""
DISCARD_PAUSE_SECONDS = 0.01
"""Between two reads of what is discarded: a client that sends as fast as it can does not hold the loop."""
MAX_FRAGMENTS = 16 * 1024
"""Of one message."""
MAX_CONTROL_FRAMES = 1000
"""Pings and pongs between two checks of the times."""
MAX_FRAME_BYTES = 256 * 1024
"""Larger messages are sent as fragments, each when the client has read most of the one before."""
MAX_UNSENT_BYTES = 1024 * 1024
"""A client that makes the server buffer more than this, by pings whose answers it does not read, is
disconnected."""
UNCHARGED_BYTES = 64 * 1024
"""Each connection may hold this much outside the budget, so that ordinary messages always fit."""


def _bad_handshake() -> bytes:
    """The complete HTTP response to an invalid handshake."""
    error = InvalidRequest(
        "This WebSocket handshake cannot be read. Send a GET with at most 128 headers of up to 8 kB.",
        code="invalid_handshake",
    )
    body = msgspec.json.encode({"error": error.to_wire()})
    head = (
        "HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\n"
        f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
    )
    return head.encode() + body


_BAD_HANDSHAKE = _bad_handshake()


class ReceiveLimits:
    """What the connections of a process share: the budget for messages that are being received, the time that
    one may take, and the queue of those who have more to parse."""

    def __init__(self, max_bytes: int = 64 * 1024 * 1024, message_seconds: float = 30.0) -> None:
        self.max_bytes = max_bytes
        self.message_seconds = message_seconds
        self.charged_bytes = 0
        self._parsers: deque[Callable[[], None]] = deque()

    @property
    def busy(self) -> bool:
        """Whether a connection waits for its turn to parse."""
        return bool(self._parsers)

    def parse_later(self, parse: Callable[[], None], loop: asyncio.AbstractEventLoop) -> None:
        """Call this when its turn has come: one connection in each iteration of the event loop."""
        self._parsers.append(parse)
        if len(self._parsers) == 1:
            loop.call_soon(self._parse_next, loop)

    def _parse_next(self, loop: asyncio.AbstractEventLoop) -> None:
        parse = self._parsers.popleft()
        if self._parsers:
            loop.call_soon(self._parse_next, loop)
        parse()


class WebSocketProtocol(WebSocketsSansIOProtocol):
    """One connection. A shutdown leaves open sockets to the application: uvicorn alone closes every socket at
    once, in the middle of an answer."""

    def __init__(
        self,
        config: uvicorn.Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        limits: ReceiveLimits,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._limits = limits
        self._charged_bytes = 0
        self._unparsed = bytearray()
        self._parses_later = False
        self._min_parsed_bytes = MIN_PARSED_BYTES
        self._discards = False
        """Whether the connection is closed, and only waits for the client to notice."""
        self._fragments = 0
        self._fragment_bytes = 0
        """Of the message whose end has not arrived."""
        self._queued_bytes = 0
        self._taken_bytes = 0
        """Of the message that the application reads at this moment."""
        self._incomplete_since: float | None = None
        self._control_frames = 0
        self._sending: asyncio.Future[None] | None = None
        """Set while a message is sent as fragments: no other one may be sent between them."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.close_timeout = CLOSE_HANDSHAKE_SECONDS
        self._send_watch = SendWatch(self.loop.time())
        self._timer = self.loop.call_later(CHECK_SECONDS, self._check_times)

    def connection_lost(self, exc: Exception | None) -> None:
        self._timer.cancel()
        super().connection_lost(exc)
        self._drop_received()

    def shutdown(self) -> None:
        """The server stops: the drain closes open sockets when their turns have ended."""
        if self.close_sent or not self.handshake_complete:
            super().shutdown()

    def keepalive_timeout(self) -> None:
        """The client does not answer pings, so do not wait until it has read the rest."""
        super().keepalive_timeout()
        self.transport.abort()

    def _check_times(self) -> None:
        self._timer = self.loop.call_later(CHECK_SECONDS, self._check_times)
        self._control_frames = 0
        now, unsent = self.loop.time(), self.transport.get_write_buffer_size()
        closing = self.close_sent or self.transport.is_closing()
        stalled = self._send_watch.stalled_seconds(unsent, unsent, now)
        if stalled >= (CLOSE_TIMEOUT_SECONDS if closing else SEND_TIMEOUT_SECONDS):
            logger.info("a WebSocket client does not read: disconnected")
            self.transport.abort()
        elif (
            self._incomplete_since is not None
            and now - self._incomplete_since >= self._limits.message_seconds
            and not closing
        ):
            self._refuse(CloseCode.POLICY_VIOLATION, "A message took too long to arrive.")

    # Receiving

    def data_received(self, data: bytes) -> None:
        if self._discards:
            self._pause_discarding()
            return
        self._unparsed += data
        if self._parses_later:
            return
        if self._limits.busy:
            self._parse_later()
            self._balance_reading()
        else:
            self._parse()

    def _pause_discarding(self) -> None:
        if self.transport.is_reading():
            self.transport.pause_reading()
            self.loop.call_later(DISCARD_PAUSE_SECONDS, self._discard_more)

    def _discard_more(self) -> None:
        if not self.transport.is_closing():
            self.transport.resume_reading()

    def _parse(self) -> None:
        """Parse up to the end of a message, for a short time; the rest later."""
        self._parses_later = False
        yield_at = self.loop.time() + MAX_PARSE_SECONDS
        while self._unparsed and not self.read_paused and not self._ending:
            size = min(max(self._min_parsed_bytes, len(self.conn.reader.buffer)), MAX_PARSED_BYTES)
            piece = bytes(self._unparsed[:size])
            del self._unparsed[:size]
            super().data_received(piece)
            self._check_received()
            if self._unparsed and self.loop.time() > yield_at:
                self._min_parsed_bytes = MIN_SLOW_BYTES
                self._parse_later()
                break
        else:
            self._min_parsed_bytes = MIN_PARSED_BYTES
        if not self._ending:
            self._balance_reading()
        elif not self._discards:
            self._drop_received()

    @property
    def _ending(self) -> bool:
        return self._discards or self.transport.is_closing()

    def _parse_later(self) -> None:
        self._parses_later = True
        self._limits.parse_later(self._parse, self.loop)

    def _balance_reading(self) -> None:
        """Receive only what can be parsed at once."""
        receives = not (self._unparsed or self.read_paused)
        if receives != self.transport.is_reading():
            (self.transport.resume_reading if receives else self.transport.pause_reading)()

    def _check_received(self) -> None:
        """Close a connection that holds too much, or answer a handshake that cannot be parsed, which uvicorn
        alone does not."""
        if self._ending:
            return
        if self.conn.handshake_exc is not None and not self.handshake_initiated:
            self.close_sent = True
            self.transport.write(_BAD_HANDSHAKE)
            self.transport.close()
        elif self._fragments > MAX_FRAGMENTS:
            self._refuse(CloseCode.MESSAGE_TOO_BIG, f"A message has at most {MAX_FRAGMENTS} fragments.")
        elif self._control_frames > MAX_CONTROL_FRAMES:
            self._refuse(CloseCode.POLICY_VIOLATION, "Too many pings.")
        elif not self._charge():
            self._refuse(CloseCode.TRY_AGAIN_LATER, "The server receives too many large messages.")
        elif self.transport.get_write_buffer_size() > MAX_UNSENT_BYTES:
            logger.info("a WebSocket client does not read the answers to its pings: disconnected")
            self.transport.abort()

    def _charge(self) -> bool:
        """Charge what this connection holds; returns whether it is within the budget."""
        incomplete = len(self.conn.reader.buffer) + self._fragment_bytes
        if self.read_paused or not (incomplete or self._fragments):
            self._incomplete_since = None
        elif self._incomplete_since is None:
            self._incomplete_since = self.loop.time()
        held = incomplete + self._queued_bytes + self._taken_bytes
        charged = max(0, held - UNCHARGED_BYTES)
        self._limits.charged_bytes += charged - self._charged_bytes
        self._charged_bytes = charged
        return not charged or self._limits.charged_bytes <= self._limits.max_bytes

    def _refuse(self, code: CloseCode, reason: str) -> None:
        """Close the connection with this code."""
        logger.info("a WebSocket was closed: %d %s", code, reason)
        self.conn.fail(code, reason)
        self.handle_parser_exception()

    def handle_parser_exception(self) -> None:
        """Send the close frame and discard what else arrives: closing at once, as uvicorn alone does, would
        reset the connection, and the client could lose the frame."""
        closed = self.conn.close_sent
        if closed is None:  # before the handshake is complete there is no close frame
            self.transport.abort()
            return
        self.queue.put_nowait({"type": "websocket.disconnect", "code": closed.code, "reason": closed.reason})
        self.transport.write(b"".join(self.conn.data_to_send()))
        self.close_sent = self._discards = True
        self._drop_received()
        self.read_paused = False
        self._balance_reading()
        self.close_timer = self.loop.call_later(CLOSE_HANDSHAKE_SECONDS, self.transport.close)

    def _drop_received(self) -> None:
        """Free what was received and can no longer be used."""
        self.conn.parser.close()  # it refers to the last frame, and is part of a reference cycle
        self._unparsed.clear()
        self.conn.reader.buffer.clear()
        self.frames = []
        self._fragments = self._fragment_bytes = self._queued_bytes = self._taken_bytes = 0
        self._limits.charged_bytes -= self._charged_bytes
        self._charged_bytes = 0
        self._incomplete_since = None

    def handle_text(self, event: Frame) -> None:
        self._count(event)
        super().handle_text(event)
        event.data = b""

    def handle_bytes(self, event: Frame) -> None:
        self._count(event)
        super().handle_bytes(event)
        event.data = b""

    def handle_cont(self, event: Frame) -> None:
        self._count(event)
        super().handle_cont(event)
        event.data = b""

    def handle_ping(self) -> None:
        self._control_frames += 1
        super().handle_ping()

    def handle_pong(self, event: Frame) -> None:
        self._control_frames += 1
        super().handle_pong(event)

    def _count(self, event: Frame) -> None:
        """Callers then empty the frame: the parser holds the last one until the next arrives."""
        self._fragments += 1
        self._fragment_bytes += len(event.data)

    def send_receive_event_to_app(self) -> None:
        self._queued_bytes += self._fragment_bytes
        self._fragments = self._fragment_bytes = 0
        try:
            super().send_receive_event_to_app()
        except InvalidState:  # a text that is not UTF-8, and a close frame right behind it
            self.transport.write(b"".join(self.conn.data_to_send()))
            self.transport.close()

    async def receive(self) -> "ASGIReceiveEvent":
        """ASGI: the next message. The one before was read, and is no longer charged."""
        self._taken_bytes = 0
        self._charge()
        message = await super().receive()
        if self.queue.empty():
            self._taken_bytes, self._queued_bytes = self._queued_bytes, 0
        if self._unparsed and not self.read_paused and not self._parses_later:
            self._balance_reading()
            self._parse_later()
        return message

    # Sending

    async def send(self, message: "ASGISendEvent") -> None:
        """ASGI: send a message; one at a time, when the client has read most of those before."""
        while self._sending is not None or not self.writable.is_set():
            if self._sending is not None:
                await asyncio.shield(self._sending)
            else:
                await self.writable.wait()
        text: str = message.get("text") or ""
        data = text.encode() if len(text) > MAX_FRAME_BYTES // 4 else b""
        if len(data) <= MAX_FRAME_BYTES or self.close_sent or not self.handshake_complete:
            await super().send(message)
            return
        self._sending = self.loop.create_future()
        try:
            await self._send_fragments(data)
        except asyncio.CancelledError:
            self.transport.abort()  # the rest of the message is missing: nothing can be sent behind it
            raise
        finally:
            self._sending.set_result(None)
            self._sending = None

    async def _send_fragments(self, data: bytes) -> None:
        for start in range(0, len(data), MAX_FRAME_BYTES):
            await self.writable.wait()
            if self.disconnected:
                raise ClientDisconnected
            piece, last = data[start : start + MAX_FRAME_BYTES], start + MAX_FRAME_BYTES >= len(data)
            try:
                if start:
                    self.conn.send_continuation(piece, last)
                else:
                    self.conn.send_text(piece, last)
            except InvalidState:
                raise ClientDisconnected from None
            self.transport.write(b"".join(self.conn.data_to_send()))
