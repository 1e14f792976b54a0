"""Calls of an MCP tool over loopback: Antiphon's client beside a bare one and the official one.

    python -m bench.mcp_calls [CALLS] [--check]

The server is in a process of its own: a minimal one that replies at once, and one that is written with the
official SDK. The bare client writes prepared bytes to a socket, and reads and decodes the reply: less is not
possible. The clients take turns, so that the machine's other work meets all of them alike. The ratios are
those of the medians. The bound is for Antiphon's client with the server of the SDK. The ratio with the
minimal server is that of the CPU times of the clients, since its round trip takes next to no time.
"""

import argparse
import asyncio
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from statistics import median

import msgspec

import mcp
from antiphon.http.egress import ALLOW_CONFIGURED
from antiphon.mcp.connections import McpConnections
from antiphon.mcp.eras import Modern
from antiphon.mcp.port import RemoteServer
from bench.bounds import Row, add_check, print_table

SLICE_CALLS = 50
"""Calls of one client before it is the next one's turn."""
MAX_RATIO = 1.3
"""Of a call to that of the bare client."""
ARGUMENTS = {"a": 2, "b": 3}

_CACHED = {"resultType": "complete", "ttlMs": 60_000, "cacheScope": "public"}
RESULTS: dict[str, object] = {
    "server/discover": {**_CACHED, "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}},
    "tools/list": {**_CACHED, "tools": [{"name": "add", "inputSchema": {"type": "object"}}]},
    "tools/call": {"resultType": "complete", "content": [{"type": "text", "text": "5"}]},
}
"""The replies of the minimal server."""

Call = Callable[[], Awaitable[object]]


async def serve_minimal() -> None:
    """Reply to every request at once, or after the `seconds` of its arguments."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while not reader.at_eof():
            try:
                head = await reader.readuntil(b"\r\n\r\n")
            except asyncio.IncompleteReadError:
                break
            size = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
            request = msgspec.json.decode(await reader.readexactly(size))
            result = RESULTS[request["method"]]
            await asyncio.sleep(request["params"].get("arguments", {}).get("seconds", 0))
            body = msgspec.json.encode({"jsonrpc": "2.0", "id": request["id"], "result": result})
            writer.write(
                b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b"
                % (len(body), body)
            )

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


@contextmanager
def running(*command: str) -> Generator[str, None, None]:
    """A server in a process of its own, which prints its port."""
    with subprocess.Popen([sys.executable, "-m", *command], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
        finally:
            process.terminate()


@asynccontextmanager
async def bare_client(url: str) -> AsyncGenerator[Call, None]:
    """A socket."""
    host, _, path = url.removeprefix("http://").partition("/")
    name, _, port = host.partition(":")
    reader, writer = await asyncio.open_connection(name, int(port))
    era = Modern()
    params = {"name": "add", "arguments": ARGUMENTS}
    request = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": era.params(params)}
    body = msgspec.json.encode(request)
    headers = {
        "host": host,
        "content-type": "application/json",
        "accept": "application/json, text/event-stream",
        "content-length": str(len(body)),
        **era.headers("tools/call", params),
    }
    lines = "".join(f"{key}: {value}\r\n" for key, value in headers.items())
    data = f"POST /{path} HTTP/1.1\r\n{lines}\r\n".encode() + body

    async def call() -> object:
        writer.write(data)
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        if b"chunked" in head:
            pieces: list[bytes] = []
            while size := int(await reader.readline(), 16):
                pieces.append((await reader.readexactly(size + 2))[:-2])
            await reader.readline()
            reply = b"".join(pieces).rpartition(b"data: ")[2]
        else:
            size = int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0])
            reply = await reader.readexactly(size)
        return msgspec.json.decode(reply)["result"]["content"][0]["text"]

    yield call
    writer.close()


@asynccontextmanager
async def own_client(url: str) -> AsyncGenerator[Call, None]:
    """Antiphon's."""
    connections = McpConnections(ALLOW_CONFIGURED)
    server = RemoteServer(label="bench", url=url)

    async def call() -> object:
        return (await connections.call_tool("t", server, "add", ARGUMENTS, seconds=60)).output

    yield call
    await connections.aclose()


@asynccontextmanager
async def official_client(url: str) -> AsyncGenerator[Call, None]:
    """That of the SDK."""
    async with mcp.Client(url) as client:

        async def call() -> object:
            content = (await client.call_tool("add", ARGUMENTS)).content[0]
            return getattr(content, "text", "")

        yield call


async def measure(name: str, url: str, calls: int, bound: float | None) -> list[Row]:
    """One row for each client; the bound is for Antiphon's."""
    async with bare_client(url) as bare, own_client(url) as own, official_client(url) as official:
        clients = {"bare": bare, "Antiphon's": own, "official": official}
        seconds: dict[str, list[float]] = {client: [] for client in clients}
        used: dict[str, float] = dict.fromkeys(clients, 0.0)
        for number in range(calls // SLICE_CALLS + 1):
            for client, call in clients.items():
                began_used = time.process_time()
                for _ in range(SLICE_CALLS):
                    began = time.perf_counter()
                    assert await call() == "5"
                    if number:  # the first slice connects and warms up
                        seconds[client].append(time.perf_counter() - began)
                if number:
                    used[client] += time.process_time() - began_used
    medians = {client: median(values) for client, values in seconds.items()}
    return [
        Row(
            f"{name}, {client} client: time of a call, beside the bare one",
            value / medians["bare"],
            bound=bound if clients[client] is own else None,
            digits=2,
            note=f"{value * 1e6:.0f} µs; CPU {used[client] / len(seconds[client]) * 1e6:.0f} µs",
        )
        for client, value in medians.items()
    ]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.mcp_calls")
    parser.add_argument("calls", type=int, nargs="?", default=2000, help="of each client (2000)")
    add_check(parser)
    options = parser.parse_args()
    calls = max(SLICE_CALLS, options.calls)
    with running("bench.mcp_calls", "minimal") as url:
        rows = asyncio.run(measure("minimal server", f"{url}/mcp", calls, None))
    with running("tests.mcp.sdk_server", "http") as url:
        rows += asyncio.run(measure("server of the SDK", f"{url}/modern/mcp", calls, MAX_RATIO))
    return print_table(rows, check=options.check)


if __name__ == "__main__":
    if sys.argv[1:2] == ["minimal"]:
        asyncio.run(serve_minimal())
    else:
        sys.exit(main())
