"""Fixtures of the tests with MCP servers."""

import subprocess
import sys
from collections.abc import AsyncGenerator, Iterator

import pytest

from antiphon.http.egress import ALLOW_CONFIGURED
from antiphon.mcp.connections import McpConnections
from antiphon.mcp.port import CommandServer, McpServer, RemoteServer

PATHS = {
    "modern": "/modern/mcp",
    "handshake": "/handshake/mcp",
    "handshake-json": "/handshake-json/mcp",
    "sse": "/sse/sse",
}
KINDS = (*PATHS, "stdio", "stdio-handshake")


@pytest.fixture(scope="session")
def sdk_url() -> Iterator[str]:
    """The address of a server of the official SDK."""
    command = [sys.executable, "-m", "tests.mcp.sdk_server", "http"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
        process.terminate()


def sdk_server(kind: str, sdk_url: str) -> McpServer:
    """A server of the official SDK, over one of its transports."""
    if kind in PATHS:
        return RemoteServer(label=kind, url=sdk_url + PATHS[kind])
    return CommandServer(label=kind, command=sys.executable, args=("-m", "tests.mcp.sdk_server", kind))


@pytest.fixture
async def connections() -> AsyncGenerator[McpConnections, None]:
    made = McpConnections(ALLOW_CONFIGURED)
    yield made
    await made.aclose()
