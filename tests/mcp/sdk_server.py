"""A server written with the official SDK, in a process of its own: `python -m tests.mcp.sdk_server KIND`.

`stdio` and `stdio-handshake` speak on standard input and output. `http` prints the port of a server that has,
at `/modern`, `/handshake` and `/handshake-json`, streamable HTTP, and at `/sse` the transport HTTP+SSE. A
server that knows handshakes only rejects requests of the other era as servers of that time did.
"""

import asyncio
import base64
import socket
import sys
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Annotated, Any

import uvicorn
from mcp.server import runner
from mcp.server.mcpserver import Context, Image, MCPServer
from mcp_types import CallToolResult, TextContent, ToolAnnotations
from pydantic import BaseModel, Field
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Mount
from starlette.types import ASGIApp, Receive, Scope, Send

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
MISSING_SESSION = {
    "jsonrpc": "2.0",
    "id": "server-error",
    "error": {"code": -32600, "message": "Bad Request: Missing session ID"},
}


class Age(BaseModel):
    age: int


def add_waiting_tools(server: MCPServer) -> None:
    cancelled: list[str] = []

    @server.tool()
    async def wait(name: str) -> str:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.append(name)
            raise
        return "waited"

    @server.tool()
    def was_cancelled(name: str) -> bool:
        return name in cancelled


def make_server() -> MCPServer:
    server = MCPServer("sdk", log_level="CRITICAL")
    add_waiting_tools(server)

    @server.tool(annotations=ToolAnnotations(read_only_hint=True))
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    @server.tool()
    async def count(steps: int, ctx: Context[Any]) -> str:
        for step in range(steps):
            await ctx.report_progress(step, steps, f"step {step}")
        return "counted"

    @server.tool()
    def fail() -> CallToolResult:
        return CallToolResult(content=[TextContent(type="text", text="no such city")], is_error=True)

    @server.tool()
    async def ask(ctx: Context[Any]) -> str:
        answer = await ctx.elicit("How old are you?", Age)
        return f"answer: {answer.action}"

    @server.tool()
    def picture() -> Image:
        return Image(data=base64.b64decode(PIXEL), format="png")

    @server.tool()
    def route(region: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})]) -> str:
        return f"in {region}"

    return server


class HandshakesOnly:
    """Rejects requests of the other era."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and any(name == b"mcp-method" for name, _ in scope["headers"]):
            await JSONResponse(MISSING_SESSION, 400)(scope, receive, send)
        else:
            await self._app(scope, receive, send)


def make_app() -> Starlette:
    apps = {
        "/modern": make_server().streamable_http_app(),
        "/handshake": make_server().streamable_http_app(),
        "/handshake-json": make_server().streamable_http_app(json_response=True),
        "/sse": make_server().sse_app(),
    }

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncGenerator[None, None]:
        async with AsyncExitStack() as stack:
            for app in apps.values():
                await stack.enter_async_context(app.router.lifespan_context(app))
            yield

    mounts = [
        Mount(path, HandshakesOnly(app) if path.startswith("/handshake") else app)
        for path, app in apps.items()
    ]
    return Starlette(routes=mounts, lifespan=lifespan)


def has_no_envelope(_: object) -> bool:
    return False


def main(kind: str) -> None:
    if kind == "http":
        # With its protocol, so that asyncio turns Nagle's algorithm off.
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listener:
            listener.bind(("127.0.0.1", 0))
            listener.listen(100)
            print(listener.getsockname()[1], flush=True)
            config = uvicorn.Config(
                make_app(), log_level="critical", timeout_graceful_shutdown=0, timeout_keep_alive=60
            )
            asyncio.run(uvicorn.Server(config).serve(sockets=[listener]))
        return
    if kind == "stdio-handshake":
        setattr(runner, "_has_modern_envelope", has_no_envelope)  # noqa: B010
    make_server().run("stdio")


if __name__ == "__main__":
    main(sys.argv[1])
