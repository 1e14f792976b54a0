"""`Session`: requests to a server over a transport, in an era that both sides speak."""

import asyncio
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Raw, Struct, UnsetType

from antiphon.errors import McpError, McpHttpError, McpProtocolError
from antiphon.http.egress import EgressPolicy
from antiphon.mcp.eras import (
    CLIENT_CAPABILITIES,
    CLIENT_INFO,
    HANDSHAKE_VERSIONS,
    MODERN_VERSION,
    Era,
    Handshake,
    Modern,
)
from antiphon.mcp.http_server import HttpServer
from antiphon.mcp.http_sse import HttpSse
from antiphon.mcp.messages import (
    INVALID_RESULT,
    REQUEST_TIMEOUT,
    UNSUPPORTED_VERSION,
    Outgoing,
    ReplyError,
    decode,
    encode_notification,
    encode_request,
    result_of,
)
from antiphon.mcp.port import CommandServer, McpServer, OnProgress, RemoteServer
from antiphon.mcp.stdio import StdioProcess
from antiphon.mcp.streamable_http import StreamableHttp
from antiphon.mcp.transport import SessionLost, Transport

PROBE_TIMEOUT_SECONDS = 5.0
"""For the first request to a child process: older servers may ignore methods that they do not know."""
CHECK_TIMEOUT_SECONDS = 5.0

_REFUSED_CREDENTIALS = frozenset({401, 403, 407, 429})
_NO_SUCH_TRANSPORT = frozenset({400, 404, 405, 406, 415})
"""Answers to a POST by servers of the transport HTTP+SSE."""


class _Discovered(Struct, rename="camel"):
    supported_versions: list[str] = []


class _Initialized(Struct, rename="camel"):
    protocol_version: str = ""


class _Supported(Struct):
    supported: list[str] = []


_discovered = msgspec.json.Decoder(_Discovered)
_initialized = msgspec.json.Decoder(_Initialized)


class Session:
    """A transport, the era, and the numbers of requests."""

    def __init__(self, label: str, transport: Transport, era: Era) -> None:
        self._label = label
        self._transport = transport
        self.era = era
        self._count = 0
        self._handshakes = 0
        self._renewing = asyncio.Lock()

    @property
    def usable(self) -> bool:
        return self._transport.usable

    @property
    def modern(self) -> bool:
        return isinstance(self.era, Modern)

    async def request(
        self,
        method: str,
        params: Mapping[str, Any],
        *,
        seconds: float,
        headers: Mapping[str, str] | None = None,
        on_progress: OnProgress | None = None,
        resend: bool = True,
    ) -> Raw:
        """The result of a request. Raises `McpError`."""
        lost_at = self._handshakes
        try:
            async with asyncio.timeout(seconds):
                for _ in range(2):
                    try:
                        return await self._send(
                            self._outgoing(method, params, headers, on_progress, resend=resend)
                        )
                    except SessionLost:
                        async with self._renewing:
                            if self._handshakes == lost_at:  # no other request was faster
                                await self.shake_hands(seconds)
                why = "has lost its session twice in a row."
                raise McpProtocolError(f"The MCP server '{self._label}' {why}", INVALID_RESULT)
        except TimeoutError:
            raise self._timeout(seconds) from None

    def _outgoing(
        self,
        method: str,
        params: Mapping[str, Any],
        headers: Mapping[str, str] | None,
        on_progress: OnProgress | None,
        *,
        resend: bool,
    ) -> Outgoing:
        self._count += 1
        if on_progress is not None:
            params = {**params, "_meta": {"progressToken": self._count}}
        sent = self.era.params(params)
        written = self.era.headers(method, params)
        return Outgoing(
            self._count,
            method,
            encode_request(self._count, method, sent),
            {**written, **headers} if headers else written,
            on_progress,
            resend,
        )

    async def _send(self, outgoing: Outgoing) -> Raw:
        return result_of(await self._transport.request(outgoing), self._label)

    async def shake_hands(self, seconds: float) -> None:
        """Begin a session in the era of handshakes."""
        self.era = Handshake()
        params = {
            "protocolVersion": HANDSHAKE_VERSIONS[0],
            "capabilities": CLIENT_CAPABILITIES,
            "clientInfo": CLIENT_INFO,
        }
        result = await self.request("initialize", params, seconds=seconds)
        version = decode(result, _initialized, self._label).protocol_version
        if version not in HANDSHAKE_VERSIONS:
            why = f"offers the protocol version '{version[:40]}', which is not supported."
            raise McpProtocolError(f"The MCP server '{self._label}' {why}", UNSUPPORTED_VERSION)
        self.era = Handshake(version)
        self._handshakes += 1
        headers = self.era.headers("", {})
        try:
            async with asyncio.timeout(seconds):
                await self._transport.notify(encode_notification("notifications/initialized"), headers)
        except TimeoutError:
            raise self._timeout(seconds) from None

    async def discover(self, seconds: float) -> bool:
        """Whether the server speaks the era without handshakes."""
        self.era = Modern()
        result = await self.request("server/discover", {}, seconds=seconds)
        try:
            return MODERN_VERSION in decode(result, _discovered, self._label).supported_versions
        except McpProtocolError:
            return False  # another protocol's answer to an unknown method

    async def check(self) -> bool:
        """Whether a connection that was not used for a while still works."""
        if not self._transport.usable:
            return False
        if not self._transport.stateful:
            return True
        method = "server/discover" if self.modern else "ping"
        try:
            await self.request(method, {}, seconds=CHECK_TIMEOUT_SECONDS)
        except ReplyError:
            return True  # it answers
        except McpError:
            return False
        return True

    def _timeout(self, seconds: float) -> McpError:
        message = f"The MCP server '{self._label}' did not answer within {round(seconds, 1):g} s."
        if isinstance(self._transport, StdioProcess):
            return McpProtocolError(message, REQUEST_TIMEOUT)
        return McpHttpError(message, 504)

    async def aclose(self) -> None:
        await self._transport.aclose()


async def open_session(server: McpServer, egress: EgressPolicy, seconds: float) -> Session:
    """A session with a server, in the newest era and over the newest transport that it speaks. Raises
    `McpError`, or `InvalidRequest` for an address that cannot be used."""
    match server:
        case CommandServer():
            session = Session(server.label, await StdioProcess.start(server), Modern())
            return await _negotiated(session, seconds, min(seconds, PROBE_TIMEOUT_SECONDS))
        case RemoteServer():
            session = Session(server.label, StreamableHttp(HttpServer(server, egress)), Modern())
            try:
                return await _negotiated(session, seconds, seconds)
            except McpHttpError as error:
                if error.number not in _NO_SUCH_TRANSPORT:
                    raise
                return await _open_older(server, egress, seconds, error)


async def _negotiated(session: Session, seconds: float, probe_seconds: float) -> Session:
    """The session in an era that the server speaks; closed if there is none."""
    ready = False
    try:
        if not await _speaks_modern(session, probe_seconds):
            await _shake_hands(session, seconds)
        ready = True
        return session
    finally:
        if not ready:
            await session.aclose()


async def _shake_hands(session: Session, seconds: float) -> None:
    """Begin with a handshake, unless the server says that it is in the other era: a process that starts
    slowly may have answered to the probe when nobody waited for it any more."""
    try:
        await session.shake_hands(seconds)
    except ReplyError as error:
        if error.number != UNSUPPORTED_VERSION or not await session.discover(seconds):
            raise


async def _speaks_modern(session: Session, seconds: float) -> bool:
    """Whether the server answers to a request without a handshake. Errors are only the refusal of credentials
    and no answer at all: everything else is how an older server rejects a method that it does not know."""
    try:
        return await session.discover(seconds)
    except ReplyError as error:
        if error.number == UNSUPPORTED_VERSION and not _names_older_version(error):
            raise
    except McpHttpError as error:
        if error.number in _REFUSED_CREDENTIALS or not error.answered:
            raise
    except McpProtocolError as error:
        if error.number != REQUEST_TIMEOUT:
            raise
    return False


def _names_older_version(error: ReplyError) -> bool:
    """Whether the versions that a server names, if it does, include one with a handshake."""
    if isinstance(error.data, UnsetType):
        return True
    try:
        named = msgspec.json.decode(error.data, type=_Supported).supported
    except (msgspec.DecodeError, RecursionError):
        return True
    return any(version in HANDSHAKE_VERSIONS for version in named)


async def _open_older(
    server: RemoteServer, egress: EgressPolicy, seconds: float, refusal: McpHttpError
) -> Session:
    """A session over HTTP+SSE; raises the refusal of the newer transport if that is not spoken either."""
    http = HttpServer(server, egress)
    try:
        async with asyncio.timeout(seconds):
            transport = await HttpSse.open(http)
    except (McpError, TimeoutError):
        http.close()
        raise refusal from None
    session = Session(server.label, transport, Handshake())
    ready = False
    try:
        await session.shake_hands(seconds)
        ready = True
        return session
    finally:
        if not ready:
            await session.aclose()
