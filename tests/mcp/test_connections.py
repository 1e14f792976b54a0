"""Connections of tenants: reused, checked, bounded, closed when idle; and lists of tools in the cache."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from antiphon.errors import McpHttpError, McpProtocolError
from antiphon.http.egress import ALLOW_CONFIGURED
from antiphon.mcp import connections as module
from antiphon.mcp.connections import McpConnections
from antiphon.mcp.listing import DEFAULT_TTL_SECONDS
from antiphon.mcp.port import HttpErrorItem, RemoteServer
from tests.http.raw_upstream import Wire
from tests.mcp.scripted_server import (
    TOOL,
    Request,
    methods,
    reply,
    replying,
    scripted_server,
    stdio_script,
    texts,
)
from tests.mcp.test_stdio import ECHO, is_running
from tests.mcp.test_transports import handshake_server, initialized

SECONDS = 30.0


@pytest.fixture
def pass_time(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Moves the clock of the connections."""
    passed = 0.0
    real = module._now  # pyright: ignore[reportPrivateUsage]

    def advance(seconds: float) -> None:
        nonlocal passed
        passed += seconds

    monkeypatch.setattr(module, "_now", lambda: real() + passed)
    return advance


async def eventually(condition: Callable[[], bool]) -> None:
    for _ in range(200):
        if condition():
            return
        await asyncio.sleep(0.02)
    pytest.fail("it never happened")


async def test_a_list_is_cached_for_each_tenant_address_and_credential(connections: McpConnections) -> None:
    async with scripted_server({"tools/list": replying({"tools": [TOOL], "ttlMs": 60_000})}) as (
        server,
        upstream,
    ):
        other_key = replace(server, headers={"authorization": "Bearer other"})
        other_url = replace(server, url=f"{server.url}?a=b")
        for _ in range(3):
            for tenant, address in (("a", server), ("b", server), ("a", other_key), ("a", other_url)):
                assert [tool.name for tool in await connections.list_tools(tenant, address)] == ["act"]
    assert methods(upstream).count("tools/list") == 4


@pytest.mark.parametrize(
    ("ttl", "valid", "expired"),
    [
        ({"ttlMs": 60_000}, 59, 61),
        ({}, DEFAULT_TTL_SECONDS - 1, DEFAULT_TTL_SECONDS + 1),
        ({"ttlMs": 10**12}, 3599, 3601),
    ],
)
async def test_a_list_expires(
    connections: McpConnections,
    pass_time: Callable[[float], None],
    ttl: dict[str, int],
    valid: float,
    expired: float,
) -> None:
    async with scripted_server({"tools/list": replying({"tools": [TOOL], **ttl})}) as (server, upstream):
        await connections.list_tools("t", server)
        pass_time(valid)
        await connections.list_tools("t", server)
        assert methods(upstream).count("tools/list") == 1
        pass_time(expired - valid)
        await connections.list_tools("t", server)
        assert methods(upstream).count("tools/list") == 2


@pytest.mark.parametrize("ttl", [0, -5])
async def test_a_list_that_may_not_be_cached(connections: McpConnections, ttl: int) -> None:
    async with scripted_server({"tools/list": replying({"tools": [TOOL], "ttlMs": ttl})}) as (
        server,
        upstream,
    ):
        await connections.list_tools("t", server)
        await connections.list_tools("t", server)
    assert methods(upstream).count("tools/list") == 2


async def test_a_failed_list_is_not_cached(connections: McpConnections) -> None:
    fails = True

    async def flaky(wire: Wire, request: Request) -> None:
        await wire.send(reply(request, {} if fails else {"tools": [TOOL]}))

    async with scripted_server({"tools/list": flaky}) as (server, _):
        with pytest.raises(McpProtocolError, match="Error retrieving tool list"):
            await connections.list_tools("t", server)
        fails = False
        assert len(await connections.list_tools("t", server)) == 1


async def test_the_cache_is_bounded(connections: McpConnections, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_CACHED_LISTS", 2)
    async with scripted_server({"tools/list": replying({"tools": [TOOL]})}) as (server, upstream):

        async def listed(tenant: str) -> int:
            before = len(upstream.wires)
            await connections.list_tools(tenant, server)
            return methods(upstream)[before:].count("tools/list")

        assert [await listed(tenant) for tenant in ("a", "b", "a", "c")] == [1, 1, 0, 1]
        assert [await listed(tenant) for tenant in ("a", "b")] == [0, 1]
        monkeypatch.setattr(module, "MAX_CACHED_BYTES", 10)
        assert [await listed("d"), await listed("d")] == [1, 1]


async def test_tenants_have_processes_of_their_own(connections: McpConnections, tmp_path: Path) -> None:
    server = stdio_script(tmp_path, ECHO)

    async def pid(tenant: str) -> int:
        outcome = await connections.call_tool(tenant, server, "os.getpid()", {}, seconds=SECONDS)
        return int(outcome.output)

    first, second = await pid("a"), await pid("b")
    assert first != second
    assert [await pid("a"), await pid("b")] == [first, second]
    await connections.aclose()
    assert not is_running(first)
    assert not is_running(second)


async def test_an_idle_process_is_checked_before_it_is_used(
    connections: McpConnections, tmp_path: Path, pass_time: Callable[[float], None]
) -> None:
    probed = ECHO.replace("send(id=message", "probes = globals().get('probes', 0) + 1; send(id=message", 1)
    server = stdio_script(tmp_path, probed)

    async def probes() -> int:
        return int((await connections.call_tool("t", server, "probes", {}, seconds=SECONDS)).output)

    assert await probes() == 1
    assert await probes() == 1
    pass_time(module.CHECK_AFTER_SECONDS + 1)
    assert await probes() == 2
    assert await probes() == 2


async def test_a_session_is_checked_and_a_server_without_sessions_is_not(
    connections: McpConnections, pass_time: Callable[[float], None]
) -> None:
    handlers = {"tools/call": replying(texts("done")), "ping": replying({})}
    with_session = {**handshake_server(), **handlers, "initialize": initialized(session="s")}
    for given, expected in ((handlers, []), (with_session, ["ping"])):
        async with scripted_server(given) as (server, upstream):
            await connections.call_tool("t", server, "act", {}, seconds=SECONDS)
            before = len(upstream.wires)
            pass_time(module.CHECK_AFTER_SECONDS + 1)
            await connections.call_tool("t", server, "act", {}, seconds=SECONDS)
            assert methods(upstream)[before:] == [*expected, "tools/call"]
            await connections.aclose()


async def test_a_process_that_hangs_while_it_is_idle_is_replaced(
    connections: McpConnections,
    tmp_path: Path,
    pass_time: Callable[[float], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("antiphon.mcp.session.CHECK_TIMEOUT_SECONDS", 0.2)
    monkeypatch.setattr("antiphon.mcp.stdio.GRACE_SECONDS", 0.2)
    server = stdio_script(tmp_path, ECHO)

    async def pid(expression: str) -> int:
        return int((await connections.call_tool("t", server, expression, {}, seconds=SECONDS)).output)

    first = await pid("os.getpid()")
    await connections.call_tool("t", server, "time.sleep(600)", {}, seconds=0.1)
    pass_time(module.CHECK_AFTER_SECONDS + 1)
    assert await pid("os.getpid()") != first
    assert not is_running(first)


async def test_idle_connections_are_closed(
    connections: McpConnections, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "IDLE_TIMEOUT_SECONDS", 0.1)
    server = stdio_script(tmp_path, ECHO)
    outcome = await connections.call_tool("t", server, "os.getpid()", {}, seconds=SECONDS)
    await eventually(lambda: not is_running(int(outcome.output)))
    again = await connections.call_tool("t", server, "os.getpid()", {}, seconds=SECONDS)
    assert again.output != outcome.output


async def test_a_connection_in_use_is_not_idle(
    connections: McpConnections, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "IDLE_TIMEOUT_SECONDS", 0.1)
    server = stdio_script(tmp_path, ECHO)
    await connections.call_tool("t", server, "1", {}, seconds=SECONDS)
    outcome = await connections.call_tool("t", server, "time.sleep(0.6) or 'slept'", {}, seconds=SECONDS)
    assert outcome.output == "slept"


async def hang(wire: Wire, _: Request) -> None:
    await wire.until_cut_off()


async def test_connections_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_CONNECTIONS", 4)
    connections = McpConnections(ALLOW_CONFIGURED)
    handlers: dict[str, Any] = {"tools/call": hang, "tools/list": replying({"tools": [TOOL]})}
    async with scripted_server(handlers) as (server, _):

        def address(number: int) -> RemoteServer:
            return replace(server, url=f"{server.url}?n={number}")

        calls = [
            asyncio.create_task(connections.call_tool("a", address(number), "x", {}, seconds=SECONDS))
            for number in range(2)
        ]
        await asyncio.sleep(0.1)
        refused = await connections.call_tool("a", address(2), "x", {}, seconds=SECONDS)
        assert isinstance(refused.error, HttpErrorItem)
        assert refused.error.code == 429
        with pytest.raises(McpHttpError, match="Too many MCP servers"):
            await connections.list_tools("a", address(2))
        for number in range(6):  # another tenant is not affected, and idle connections make room
            assert await connections.list_tools("b", address(number))
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        await connections.aclose()
