"""The transport of 2024-11-05, HTTP+SSE: one long stream of replies, and a POST for each request."""

import asyncio
from contextlib import suppress

from antiphon.errors import BackendError, McpError, McpProtocolError
from antiphon.http.exchange import Exchange
from antiphon.mcp.event_stream import EventStream
from antiphon.mcp.http_server import ANY_SUCCESS, EVENTS, HttpServer
from antiphon.mcp.messages import (
    PARSE_ERROR,
    Message,
    Outgoing,
    connection_closed,
    decode_message,
    encode_cancellation,
)
from antiphon.mcp.transport import Courtesies, WaitingRequests


class HttpSse:
    """A server whose stream is open."""

    stateful = True

    def __init__(self, server: HttpServer, exchange: Exchange, stream: EventStream, path: str) -> None:
        self._server = server
        self._exchange = exchange
        self._stream = stream
        self._path = path
        self._waiting = WaitingRequests(server.label)
        self._courtesies = Courtesies()
        self._reading = asyncio.get_running_loop().create_task(self._read())

    @classmethod
    async def open(cls, server: HttpServer) -> "HttpSse":
        """Open the stream; its first event is the address for requests. Raises `McpError`."""
        exchange: Exchange | None = None
        try:
            exchange = await server.open("GET", server.path, headers={}, accept=EVENTS)
            stream = EventStream(server, exchange)
            first, *more = await stream.read() or [b""]
            if not first or more:
                message = f"The MCP server '{server.label}' did not begin its stream with an address."
                raise McpProtocolError(message, PARSE_ERROR)
            path = server.path_at(first.decode("utf-8", "replace"), exchange.status)
            opened, exchange = exchange, None
            return cls(server, opened, stream, path)
        except BackendError as error:
            raise server.failure(error) from None
        finally:
            if exchange is not None:
                exchange.close(complete=False)

    @property
    def usable(self) -> bool:
        return self._waiting.error is None

    async def request(self, outgoing: Outgoing) -> Message:
        reply = self._waiting.add(outgoing)
        try:
            await self._post(outgoing.data, outgoing.headers, resend=outgoing.resend)
            return await reply
        except asyncio.CancelledError:
            self._courtesies.send(self.notify(encode_cancellation(outgoing.id), {}))
            raise
        finally:
            self._waiting.remove(outgoing)
            reply.cancel()

    async def notify(self, data: bytes, headers: dict[str, str]) -> None:
        await self._post(data, headers, resend=True)

    async def aclose(self) -> None:
        self._reading.cancel()
        self._courtesies.cancel()
        with suppress(asyncio.CancelledError):
            await self._reading
        self._server.close()

    async def _post(self, data: bytes, headers: dict[str, str], *, resend: bool) -> None:
        try:
            exchange = await self._server.open(
                "POST", self._path, data, headers=headers, accept=ANY_SUCCESS, resend=resend
            )
            exchange.close(complete=True)
        except BackendError as error:
            raise self._server.failure(error) from None

    async def _read(self) -> None:
        """Receive messages until the stream ends."""
        label = self._server.label
        error = connection_closed(label, "closed its stream.")
        try:
            while (payloads := await self._stream.read()) is not None:
                for payload in payloads:
                    if answer := self._waiting.receive(decode_message(payload, label)):
                        self._courtesies.send(self.notify(answer, {}))
        except BackendError as cause:
            error = self._server.failure(cause)
        except McpError as cause:
            error = cause
        finally:
            self._exchange.close(complete=False)
            self._waiting.fail(error)
