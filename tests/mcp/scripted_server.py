"""A server whose replies a test writes: over HTTP with raw bytes, and as a process on its standard streams."""

import json
import sys
import textwrap
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from antiphon.mcp.port import CommandServer, RemoteServer
from tests.http.raw_upstream import RawUpstream, Wire, complete_response, raw_upstream

DISCOVERED: dict[str, Any] = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, "ttlMs": 0}
TOOL = {"name": "act", "inputSchema": {"type": "object"}}
Request = dict[str, Any]
Handler = Callable[[Wire, Request], Awaitable[None]]


def reply(request: Request, result: object) -> bytes:
    """A reply as JSON."""
    return complete_response(
        200, json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}).encode()
    )


def error_reply(request: Request, status: int, code: int, **data: object) -> bytes:
    """An error as JSON, with an HTTP status."""
    error = {"code": code, "message": "refused", **data}
    body = json.dumps({"jsonrpc": "2.0", "id": request["id"], "error": error}).encode()
    return complete_response(status, body)


def replying(result: object) -> Handler:
    """A handler that replies with a result."""

    async def handle(wire: Wire, request: Request) -> None:
        await wire.send(reply(request, result))

    return handle


def sending(data: bytes) -> Handler:
    """A handler that sends these bytes."""

    async def handle(wire: Wire, _: Request) -> None:
        await wire.send(data)

    return handle


def texts(*texts: str, **more: object) -> Request:
    """A result with texts."""
    return {"content": [{"type": "text", "text": text} for text in texts], **more}


@asynccontextmanager
async def scripted_server(
    handlers: Mapping[str, Handler],
) -> AsyncGenerator[tuple[RemoteServer, RawUpstream], None]:
    """A server that speaks the newest version, with a handler for each method. GET and DELETE are methods, too."""

    async def serve(wire: Wire) -> None:
        request: Request = json.loads(wire.body) if wire.body else {}
        method = request.get("method") or wire.head.split(" ")[0]
        if method == "server/discover" and method not in handlers:
            await wire.send(reply(request, DISCOVERED))
        elif method in handlers:
            await handlers[method](wire, request)
        else:
            await wire.send(complete_response(202, b""))

    async with raw_upstream(serve) as upstream:
        url = upstream.url.removesuffix("/v1") + "/mcp"
        yield RemoteServer(label="scripted", url=url, headers={"authorization": "Bearer abcdefgh"}), upstream


def methods(upstream: RawUpstream) -> list[str]:
    """The methods that a server was asked for."""
    return [
        json.loads(wire.body).get("method", "reply") if wire.body else wire.head.split(" ")[0]
        for wire in upstream.wires
    ]


STDIO_PROLOGUE = """
import json, os, sys, time
def send(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
def received():
    for line in sys.stdin:
        yield json.loads(line)
DISCOVERED = {"supportedVersions": ["2026-07-28"]}
"""


def stdio_script(folder: Path, body: str, **env: str) -> CommandServer:
    """A process that runs this Python code."""
    path = folder / "server.py"
    path.write_text(STDIO_PROLOGUE + textwrap.dedent(body), encoding="utf-8")
    return CommandServer(label="script", command=sys.executable, args=("-I", str(path)), env=env)
