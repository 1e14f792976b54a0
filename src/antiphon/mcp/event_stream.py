"""The events in a response of an MCP server."""

from antiphon.http.exchange import HEARTBEAT, Exchange
from antiphon.mcp.http_server import HttpServer
from antiphon.mcp.transport import MAX_ANSWER_BYTES
from antiphon.protocol.sse import LineTooLong, SseReader


class EventStream:
    """Cuts a response into the data of its events; an event, with comments before it, may have
    `MAX_ANSWER_BYTES`."""

    def __init__(self, server: HttpServer, exchange: Exchange) -> None:
        self._server = server
        self._exchange = exchange
        self._reader = SseReader(MAX_ANSWER_BYTES)
        self._pieces: list[bytes] = []
        self._pending_bytes = 0
        self.received_bytes = 0

    async def read(self) -> list[bytes] | None:
        """The data of the next events, without empty ones; None at the end. Raises `BackendError` or
        `McpError`."""
        while (data := await self._exchange.read()) is not None:
            if data == HEARTBEAT:
                continue
            self._exchange.progress(delivered=True)
            self.received_bytes += len(data)
            self._pending_bytes += len(data)
            if self._pending_bytes > MAX_ANSWER_BYTES:
                raise self._server.too_large()
            self._pieces.append(data)
            if b"\n" not in data and b"\r" not in data:
                continue  # no event ends here: the pieces of a long one are joined once
            try:
                payloads = self._reader.feed(b"".join(self._pieces))
            except LineTooLong:
                raise self._server.too_large() from None
            self._pieces.clear()
            if payloads := [payload for payload in payloads if payload]:
                self._pending_bytes = 0
                return payloads
        return [payload for payload in self._reader.finish() if payload] or None
