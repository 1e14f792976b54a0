"""A server of the official MCP SDK that counts its calls, in a process of its own.

python -m tests.state.counting_server FILE

It prints its port. Each call appends a line with its tool and its argument to the file. Requests without the
token are refused.
"""

import asyncio
import socket
import sys
from pathlib import Path

import uvicorn
from mcp.server.mcpserver import MCPServer
from mcp_types import ToolAnnotations
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

TOKEN = "token-of-the-client"


def make_server(file: Path) -> MCPServer:
    server = MCPServer("counting", log_level="CRITICAL")

    def count(tool: str, name: str) -> None:
        with file.open("a") as lines:
            lines.write(f"{tool} {name}\n")

    @server.tool()
    def record(name: str) -> str:
        """Record a name."""
        count("record", name)
        return f"recorded {name}"

    @server.tool(annotations=ToolAnnotations(read_only_hint=True))
    def look(name: str) -> str:
        """Look a name up."""
        count("look", name)
        return f"found {name}"

    return server


class TokenRequired:
    """Refuses requests without the token."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        expected = (b"authorization", f"Bearer {TOKEN}".encode())
        if scope["type"] == "http" and expected not in scope["headers"]:
            await JSONResponse({"error": "no token"}, 401)(scope, receive, send)
        else:
            await self._app(scope, receive, send)


def main(file: str) -> None:
    app = TokenRequired(make_server(Path(file)).streamable_http_app())
    # With its protocol, so that asyncio turns Nagle's algorithm off.
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(100)
        print(listener.getsockname()[1], flush=True)
        config = uvicorn.Config(app, log_level="critical", timeout_graceful_shutdown=0)
        asyncio.run(uvicorn.Server(config).serve(sockets=[listener]))


if __name__ == "__main__":
    main(sys.argv[1])
