"""A server of the official SDK whose tool has effects: `python -m tests.page.mcp_server NOTES`, which prints its port.

Each call is a line of the file NOTES. Requests need the token.
"""

import asyncio
import json
import socket
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvicorn
from mcp.server.mcpserver import MCPServer
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

TOKEN = "the-token-of-the-files"


@dataclass(frozen=True)
class FileServer:
    """The running server."""

    url: str
    notes: Path

    @property
    def tool(self) -> dict[str, Any]:
        """Its declaration in a request."""
        return {
            "type": "mcp",
            "server_label": "files",
            "server_url": self.url,
            "authorization": TOKEN,
            "require_approval": "always",
        }

    def calls(self) -> list[Any]:
        """The arguments of all calls until now."""
        if not self.notes.exists():
            return []
        return [json.loads(line) for line in self.notes.read_text().splitlines()]


@contextmanager
def run_file_server(folder: Path) -> Generator[FileServer, None, None]:
    """Run the server until the end of the block."""
    notes = folder / "calls"
    command = [sys.executable, "-m", "tests.page.mcp_server", str(notes)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield FileServer(f"http://127.0.0.1:{process.stdout.readline().strip()}/mcp", notes)
        finally:
            process.terminate()


class NeedsToken:
    """Rejects requests without the token."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and (b"authorization", f"Bearer {TOKEN}".encode()) not in scope["headers"]:
            await JSONResponse({"error": "unauthorized"}, 401)(scope, receive, send)
        else:
            await self._app(scope, receive, send)


def make_server(notes: Path) -> MCPServer:
    server = MCPServer("files", log_level="CRITICAL")

    @server.tool()
    def delete_folder(path: str, recursive: bool) -> str:
        """Delete a folder."""
        with notes.open("a") as file:
            file.write(json.dumps({"path": path, "recursive": recursive}) + "\n")
        return f"{path} is deleted"

    return server


def main(notes: Path) -> None:
    # With its protocol, so that asyncio turns Nagle's algorithm off.
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(100)
        print(listener.getsockname()[1], flush=True)
        app = NeedsToken(make_server(notes).streamable_http_app())
        config = uvicorn.Config(app, log_level="critical", timeout_graceful_shutdown=0)
        asyncio.run(uvicorn.Server(config).serve(sockets=[listener]))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
