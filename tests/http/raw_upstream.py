"""An upstream that sends raw bytes, for faults that HTTP libraries cannot produce."""

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

SSE_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
CLOSING_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"


def event(delta: dict[str, Any] | None = None, finish: str | None = None) -> bytes:
    """One event of a chat-completions stream."""
    choice = {"index": 0, "delta": delta or {}, "finish_reason": finish}
    return f"data: {json.dumps({'choices': [choice]}, ensure_ascii=False)}\n\n".encode()


TEXT_EVENT = event({"content": "word"})
STOP = event(finish="stop")
DONE = b"data: [DONE]\n\n"


def chunked(data: bytes) -> bytes:
    """One chunk of a chunked body; an empty one ends it."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def complete_response(status: int, body: bytes, *headers: str, media: str = "application/json") -> bytes:
    """A complete HTTP response."""
    lines = [f"HTTP/1.1 {status} X", f"Content-Type: {media}", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + body


def good_stream(*texts: str) -> bytes:
    """A complete event stream."""
    events = b"".join(event({"content": content}) for content in texts) + STOP + DONE
    return SSE_HEAD + chunked(events) + chunked(b"")


@dataclass
class Wire:
    """A received request, with methods to answer it."""

    head: str
    body: bytes
    _writer: asyncio.StreamWriter = field(repr=False)
    _reader: asyncio.StreamReader = field(repr=False)

    async def send(self, data: bytes) -> None:
        """Send these bytes now."""
        self._writer.write(data)
        await self._writer.drain()

    async def until_cut_off(self) -> None:
        """Wait until the other side closes the connection."""
        await self._reader.read()

    def close(self) -> None:
        """Close the connection."""
        self._writer.close()

    def abort(self) -> None:
        """Reset the connection."""
        self._writer.transport.abort()


Script = Callable[[Wire], Awaitable[None]]


@dataclass
class RawUpstream:
    """A scripted upstream, with the requests that it received."""

    url: str = ""
    wires: list[Wire] = field(default_factory=list[Wire])
    connections: int = 0
    request_received: asyncio.Event = field(default_factory=asyncio.Event)
    cut_off: asyncio.Event = field(default_factory=asyncio.Event)


def answering(*answers: bytes) -> Script:
    """A script that sends these byte strings, each in its own write."""

    async def send(wire: Wire) -> None:
        for answer in answers:
            await wire.send(answer)
            await asyncio.sleep(0.001)

    return send


@asynccontextmanager
async def raw_upstream(*scripts: Script) -> AsyncGenerator[RawUpstream, None]:
    """Serve requests: script n answers request n, and the last script answers all further requests."""
    upstream = RawUpstream()
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        upstream.connections += 1
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                text = head.decode()
                size = [
                    int(line[15:])
                    for line in text.lower().split("\r\n")
                    if line.startswith("content-length:")
                ]
                wire = Wire(text, await reader.readexactly(sum(size)), writer, reader)
                script = scripts[min(len(upstream.wires), len(scripts) - 1)]
                upstream.wires.append(wire)
                upstream.request_received.set()
                await script(wire)
                if writer.is_closing():
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            upstream.cut_off.set()
            writer.close()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(serve(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()[:2]
    upstream.url = f"http://{host}:{port}/v1"
    try:
        yield upstream
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
