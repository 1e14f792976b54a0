"""Streamable HTTP, in both eras: a request is a POST, its response is a reply or a stream of messages."""

import asyncio
from contextlib import suppress

from antiphon.errors import BackendError, McpError, McpProtocolError
from antiphon.http.client import JSON
from antiphon.http.exchange import Exchange
from antiphon.mcp.event_stream import EventStream
from antiphon.mcp.http_server import ANY_SUCCESS, HttpRefusal, HttpServer
from antiphon.mcp.messages import (
    INVALID_RESULT,
    Message,
    Outgoing,
    answer_to,
    decode_message,
    encode_cancellation,
    progress_of,
)
from antiphon.mcp.transport import (
    COURTESY_TIMEOUT_SECONDS,
    MAX_ANSWER_BYTES,
    MAX_MESSAGES,
    Courtesies,
    SessionLost,
)


class StreamableHttp:
    """A server over HTTP. In the era of handshakes it may assign a session id."""

    stateful = False

    def __init__(self, server: HttpServer) -> None:
        self._server = server
        self._session_id = ""
        self._courtesies = Courtesies()

    @property
    def usable(self) -> bool:
        return True

    async def request(self, outgoing: Outgoing) -> Message:
        if outgoing.method == "initialize":
            self._session_id = ""
        headers = self._headers(outgoing.headers)
        exchange: Exchange | None = None
        complete = False
        try:
            exchange = await self._server.open(
                "POST", self._server.path, outgoing.data, headers=headers, resend=outgoing.resend
            )
            reply = await self._read(exchange, outgoing)
            complete = True
            if outgoing.method == "initialize":
                self._session_id = _printable(exchange.headers.get("mcp-session-id", ""))
                self.stateful = bool(self._session_id)
            return reply
        except asyncio.CancelledError:
            if self._session_id:
                # In the other era the end of the connection is the signal.
                cancellation = encode_cancellation(outgoing.id)
                self._courtesies.send(self.notify(cancellation, outgoing.headers))
            raise
        except HttpRefusal as error:
            return self._reply_of(error, outgoing)
        except BackendError as error:
            raise self._server.failure(error) from None
        finally:
            if exchange is not None:
                exchange.close(complete=complete)

    async def notify(self, data: bytes, headers: dict[str, str]) -> None:
        try:
            exchange = await self._server.open(
                "POST", self._server.path, data, headers=self._headers(headers), accept=ANY_SUCCESS
            )
            exchange.close(complete=True)
        except BackendError as error:
            raise self._server.failure(error) from None

    async def aclose(self) -> None:
        if self._session_id:
            with suppress(BackendError, McpError, TimeoutError):
                async with asyncio.timeout(COURTESY_TIMEOUT_SECONDS):
                    headers = {"mcp-session-id": self._session_id}
                    exchange = await self._server.open(
                        "DELETE", self._server.path, headers=headers, accept=ANY_SUCCESS
                    )
                    exchange.close(complete=True)
        self._courtesies.cancel()
        self._server.close()

    def _headers(self, headers: dict[str, str]) -> dict[str, str]:
        return {**headers, "mcp-session-id": self._session_id} if self._session_id else headers

    async def _read(self, exchange: Exchange, outgoing: Outgoing) -> Message:
        """The reply in a response."""
        label = self._server.label
        if exchange.media_type == JSON:
            reply = decode_message(await self._server.body(exchange), label)
            if not reply.is_reply or reply.id not in (outgoing.id, None):
                raise McpProtocolError(
                    f"The MCP server '{label}' replied to another request.", INVALID_RESULT
                )
            return reply
        stream = EventStream(self._server, exchange)
        count = 0
        while (payloads := await stream.read()) is not None:
            count += len(payloads)
            if count > MAX_MESSAGES:
                why = f"sent more than {MAX_MESSAGES} messages in answer to one request."
                raise McpProtocolError(f"The MCP server '{label}' {why}", INVALID_RESULT)
            if stream.received_bytes > MAX_ANSWER_BYTES:
                raise self._server.too_large()
            for payload in payloads:
                message = decode_message(payload, label)
                if message.is_reply and message.id == outgoing.id:
                    return message
                self._receive(message, outgoing)
        why = "ended its answer without a reply."
        raise McpProtocolError(f"The MCP server '{label}' {why}", INVALID_RESULT)

    def _receive(self, message: Message, outgoing: Outgoing) -> None:
        """A message before the reply: progress, or a request of the server."""
        if message.method is not None and message.id is not None:
            self._courtesies.send(self.notify(answer_to(message), outgoing.headers))
        elif outgoing.on_progress is not None and (found := progress_of(message)):
            outgoing.on_progress(found[1])

    def _reply_of(self, error: HttpRefusal, outgoing: Outgoing) -> Message:
        """An error status is a reply if its body is one, and the end of a session if it is a 404."""
        if error.status == 404 and self._session_id:
            raise SessionLost from None
        with suppress(McpError):
            reply = decode_message(error.body, self._server.label)
            if reply.error is not None:
                return reply
        raise self._server.failure(error) from None


def _printable(session_id: str) -> str:
    return session_id if session_id.isascii() and session_id.isprintable() else ""
