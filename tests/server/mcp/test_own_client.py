"""Our own client of MCP, over TCP."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from antiphon.backends.scripted import ScriptedBackend
from antiphon.http.egress import ALLOW_CONFIGURED
from antiphon.mcp.connections import McpConnections
from antiphon.mcp.port import ExecutionErrorItem, McpProgress, ProtocolErrorItem, RemoteServer
from antiphon.server.app import App, Served
from tests.server.conftest import options, services_of
from tests.service.conftest import MakeCreator
from tests.uvicorn_here import serve_here

SECONDS = 30.0


@pytest.fixture
async def server(make_creator: MakeCreator) -> AsyncGenerator[RemoteServer, None]:
    @asynccontextmanager
    async def open_services() -> AsyncGenerator[Served, None]:
        yield Served(services_of(make_creator(ScriptedBackend.saying("Hel", "lo"))))

    async with serve_here(lambda: App(open_services, lambda: "req_1", options())) as here:
        yield RemoteServer(label="antiphon", url=f"http://127.0.0.1:{here.port}/mcp")


@pytest.mark.requirement("HOSTED/server-tools")
async def test_the_tools_are_listed_and_called(server: RemoteServer) -> None:
    connections = McpConnections(ALLOW_CONFIGURED)
    progress: list[McpProgress] = []
    try:
        tools = {tool.name: tool for tool in await connections.list_tools("t", server)}
        asked = await connections.call_tool(
            "t",
            server,
            "ask_model",
            {"model": "m", "input": "hi"},
            seconds=SECONDS,
            on_progress=progress.append,
        )
        failed = await connections.call_tool(
            "t", server, "ask_model", {"model": "zebra", "input": "hi"}, seconds=SECONDS
        )
        unknown = await connections.call_tool("t", server, "zebra", {}, seconds=SECONDS)
    finally:
        await connections.aclose()
    assert tools["get_response"].read_only
    assert not tools["ask_model"].read_only
    assert asked.error is None
    assert asked.output.startswith("Hello\nresponse_id: resp_")
    assert [each.progress for each in progress][:1] == [1]
    assert isinstance(failed.error, ExecutionErrorItem)
    assert isinstance(unknown.error, ProtocolErrorItem)
