"""One suite over servers of the official SDK: both eras, and every transport."""

import asyncio
from typing import Any

import pytest

from antiphon.mcp.connections import McpConnections
from antiphon.mcp.port import (
    CallOutcome,
    ExecutionErrorItem,
    HttpErrorItem,
    McpProgress,
    McpServer,
    ProtocolErrorItem,
)
from antiphon.protocol.content import InputImage
from tests.mcp.conftest import KINDS, sdk_server
from tests.mcp.sdk_server import PIXEL

TIMEOUT_SECONDS = 60.0
WAIT_SECONDS = 1.0


@pytest.fixture(
    params=[pytest.param(kind, marks=pytest.mark.slow if kind.startswith("stdio") else ()) for kind in KINDS]
)
def server(request: pytest.FixtureRequest, sdk_url: str) -> McpServer:
    return sdk_server(request.param, sdk_url)


async def call(connections: McpConnections, server: McpServer, tool: str, **arguments: Any) -> CallOutcome:
    return await connections.call_tool("t", server, tool, arguments, seconds=TIMEOUT_SECONDS)


async def test_the_tools_of_a_server(connections: McpConnections, server: McpServer) -> None:
    tools = {tool.name: tool for tool in await connections.list_tools("t", server)}
    assert list(tools) == sorted(tools)
    assert set(tools) == {"add", "ask", "count", "fail", "picture", "route", "wait", "was_cancelled"}
    add = tools["add"]
    assert add.description == "Add two numbers."
    assert add.read_only
    assert not tools["wait"].read_only
    assert add.input_schema["required"] == ["a", "b"]


async def test_calls(connections: McpConnections, server: McpServer) -> None:
    assert await call(connections, server, "add", a=2, b=3) == CallOutcome("5", structured={"result": 5})
    failed = await call(connections, server, "fail")
    assert failed.output == "no such city"
    assert failed.error == ExecutionErrorItem([{"type": "text", "text": "no such city"}])
    picture = await call(connections, server, "picture")
    assert picture.output == "[image]"
    assert picture.parts == (InputImage(image_url=f"data:image/png;base64,{PIXEL}"),)
    unknown = await call(connections, server, "no_such_tool")
    assert isinstance(unknown.error, ExecutionErrorItem | ProtocolErrorItem)
    assert "no_such_tool" in unknown.output


async def test_calls_at_the_same_time(connections: McpConnections, server: McpServer) -> None:
    calls = [call(connections, server, "add", a=number, b=0) for number in range(20)]
    assert [outcome.output for outcome in await asyncio.gather(*calls)] == [str(n) for n in range(20)]


async def test_progress_is_reported(connections: McpConnections, server: McpServer) -> None:
    seen: list[McpProgress] = []
    outcome = await connections.call_tool(
        "t", server, "count", {"steps": 3}, seconds=TIMEOUT_SECONDS, on_progress=seen.append
    )
    assert outcome.output == "counted"
    if server.label != "handshake-json":  # a response of JSON has no room for it
        assert seen == [McpProgress(step, 3, f"step {step}") for step in range(3)]


async def test_elicitation_is_declined(connections: McpConnections, server: McpServer) -> None:
    outcome = await call(connections, server, "ask")
    if server.label in ("handshake", "sse", "stdio-handshake"):
        assert outcome == CallOutcome("answer: decline", structured={"result": "answer: decline"})
    else:  # there is no way to ask
        assert outcome.error is not None
        assert "elicit" in outcome.output.lower()
    assert (await call(connections, server, "add", a=1, b=1)).output == "2"


async def test_a_call_that_takes_too_long_is_cancelled(
    connections: McpConnections, server: McpServer
) -> None:
    await call(connections, server, "add", a=1, b=1)
    outcome = await connections.call_tool("t", server, "wait", {"name": "late"}, seconds=WAIT_SECONDS)
    assert isinstance(outcome.error, HttpErrorItem | ProtocolErrorItem)
    assert outcome.error.code in (504, -32001)
    assert f"did not answer within {WAIT_SECONDS:g} s" in outcome.output
    assert await reports_cancellation(connections, server, "late")


async def test_a_caller_that_leaves_cancels_the_call(connections: McpConnections, server: McpServer) -> None:
    await call(connections, server, "add", a=1, b=1)
    task = asyncio.create_task(call(connections, server, "wait", name="left"))
    await asyncio.sleep(WAIT_SECONDS)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await reports_cancellation(connections, server, "left")


async def reports_cancellation(connections: McpConnections, server: McpServer, name: str) -> bool:
    for _ in range(100):
        outcome = await call(connections, server, "was_cancelled", name=name)
        if outcome.structured == {"result": True}:
            return True
        await asyncio.sleep(0.05)
    return False


@pytest.mark.parametrize("listed", [True, False])
async def test_arguments_are_repeated_as_headers(
    connections: McpConnections, server: McpServer, listed: bool
) -> None:
    if listed:
        await connections.list_tools("t", server)
    assert (await call(connections, server, "route", region="Süd")).output == "in Süd"
