"""`McpConnections`: the connections of all tenants to MCP servers, and the lists of their tools."""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from antiphon.errors import McpError, McpHttpError, McpProtocolError
from antiphon.http.egress import EgressPolicy
from antiphon.mcp.client import McpClient
from antiphon.mcp.listing import ToolList
from antiphon.mcp.port import (
    CallOutcome,
    CommandServer,
    McpServer,
    McpTool,
    OnProgress,
    RemoteServer,
    outcome_of,
)

MAX_CONNECTIONS = 256
"""Servers that are connected at the same time, over all tenants; one tenant may use half of them."""
IDLE_TIMEOUT_SECONDS = 300.0
"""An idle connection is closed after this time, at the latest after twice of it."""
CHECK_AFTER_SECONDS = 60.0
"""A connection that was idle for longer is checked before it is used."""
MAX_CACHED_LISTS = 256
MAX_CACHED_BYTES = 32 * 1024 * 1024

Key = tuple[str, str, bool | tuple[str, ...], frozenset[tuple[str, str]]]
"""The tenant, the address, and the credentials."""


class _Connection:
    """A client, and how many requests use it."""

    __slots__ = ("client", "idle_since", "uses")

    def __init__(self, client: McpClient) -> None:
        self.client = client
        self.uses = 0
        self.idle_since = 0.0


class _CachedList(NamedTuple):
    tools: ToolList
    valid_until: float


class McpConnections:
    """Implements `McpTools`. Nothing is shared between tenants, not even child processes."""

    def __init__(self, egress: EgressPolicy) -> None:
        """`egress` applies to servers that requests name."""
        self._egress = egress
        self._connections: OrderedDict[Key, _Connection] = OrderedDict()
        """The one that was used last is last."""
        self._lists: OrderedDict[Key, _CachedList] = OrderedDict()
        self._cached_bytes = 0
        self._closing: set[asyncio.Task[None]] = set()
        self._cleanup: asyncio.TimerHandle | None = None

    async def list_tools(self, tenant: str, server: McpServer) -> tuple[McpTool, ...]:
        key = _key(tenant, server)
        cached = self._lists.get(key)
        if cached is not None and cached.valid_until > _now():
            self._lists.move_to_end(key)
            return cached.tools.tools
        try:
            async with self._using(key, server) as client:
                found = await client.list_tools()
        except McpError as error:
            kind = McpHttpError if isinstance(error, McpHttpError) else McpProtocolError
            message = f"Error retrieving tool list from MCP server: '{server.label}'. {error.message}"
            raise kind(message, error.number) from None
        self._cache(key, found)
        return found.tools

    async def call_tool(
        self,
        tenant: str,
        server: McpServer,
        name: str,
        arguments: Mapping[str, Any],
        *,
        seconds: float,
        on_progress: OnProgress | None = None,
        read_only: bool = False,
    ) -> CallOutcome:
        try:
            async with self._using(_key(tenant, server), server) as client:
                return await client.call_tool(
                    name, arguments, seconds=seconds, on_progress=on_progress, read_only=read_only
                )
        except McpError as error:
            return outcome_of(error)

    async def aclose(self) -> None:
        if self._cleanup is not None:
            self._cleanup.cancel()
        for key in list(self._connections):
            self._close(key)
        await asyncio.gather(*self._closing, return_exceptions=True)

    @asynccontextmanager
    async def _using(self, key: Key, server: McpServer) -> AsyncGenerator[McpClient, None]:
        """The client of a server, for one request."""
        connection = self._connections.get(key)
        if connection is None:
            self._make_room(key[0])
            connection = self._connections[key] = _Connection(McpClient(server, self._egress))
        elif not connection.uses and _now() - connection.idle_since > CHECK_AFTER_SECONDS:
            connection.uses += 1  # so that it is not closed meanwhile
            try:
                if not await connection.client.check():
                    await connection.client.aclose()
            finally:
                connection.uses -= 1
        self._connections.move_to_end(key)
        connection.uses += 1
        try:
            yield connection.client
        finally:
            connection.uses -= 1
            connection.idle_since = _now()
            if self._cleanup is None:
                self._schedule_cleanup()

    def _make_room(self, tenant: str) -> None:
        """Close idle connections beyond the limits; raises `McpHttpError` if there are none."""
        own = [key for key in self._connections if key[0] == tenant]
        crowded = own if len(own) >= MAX_CONNECTIONS // 2 else list(self._connections)
        if crowded is not own and len(crowded) < MAX_CONNECTIONS:
            return
        idle = next((key for key in crowded if not self._connections[key].uses), None)
        if idle is None:
            message = f"Too many MCP servers are in use: {len(crowded)}. Try again later."
            raise McpHttpError(message, 429)
        self._close(idle)

    def _close(self, key: Key) -> None:
        connection = self._connections.pop(key)
        task = asyncio.get_running_loop().create_task(connection.client.aclose())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    def _schedule_cleanup(self) -> None:
        self._cleanup = asyncio.get_running_loop().call_later(IDLE_TIMEOUT_SECONDS, self._close_idle)

    def _close_idle(self) -> None:
        """Close the connections that nobody has used for a while."""
        before = _now() - IDLE_TIMEOUT_SECONDS
        for key, connection in list(self._connections.items()):
            if not connection.uses and connection.idle_since <= before:
                self._close(key)
        self._cleanup = None
        if self._connections:
            self._schedule_cleanup()

    def _cache(self, key: Key, found: ToolList) -> None:
        """Remember a list as long as the server permits it; the lists that were used least are dropped."""
        self._forget(key)
        if found.ttl_seconds <= 0:
            return
        self._lists[key] = _CachedList(found, _now() + found.ttl_seconds)
        self._cached_bytes += found.size_bytes
        while len(self._lists) > MAX_CACHED_LISTS or self._cached_bytes > MAX_CACHED_BYTES:
            self._forget(next(iter(self._lists)))

    def _forget(self, key: Key) -> None:
        cached = self._lists.pop(key, None)
        if cached is not None:
            self._cached_bytes -= cached.tools.size_bytes


def _key(tenant: str, server: McpServer) -> Key:
    match server:
        case RemoteServer():
            return tenant, server.url, server.configured, frozenset(server.headers.items())
        case CommandServer():
            return tenant, server.command, server.args, frozenset(server.env.items())


def _now() -> float:
    return asyncio.get_running_loop().time()
