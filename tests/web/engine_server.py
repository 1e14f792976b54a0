"""A scripted search engine on loopback, which speaks the format of every kind of engine."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

PAGES: tuple[tuple[str, str, str], ...] = (
    ("https://www.sky.example/blue", "Why blue", "Air scatters blue light."),
    ("https://docs.grass.example/green_(colour)", "Why green", "Leaves absorb red light."),
    ("https://other.example/", "Other", "Nothing of note."),
)


@dataclass
class ScriptedEngine:
    """What the engine answers, and the requests that it has received."""

    url: str = ""
    pages: tuple[tuple[str, str, str], ...] = PAGES
    status: int = 200
    media_type: str = "application/json"
    body: bytes | None = None
    """Sent in place of the results."""
    hangs: bool = False
    requests: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])

    def answer(self, path: str) -> bytes:
        if self.body is not None:
            return self.body
        if path == "/web/search":
            rows = [
                {"url": u, "title": t, "description": "", "extra_snippets": [x]} for u, t, x in self.pages
            ]
            return json.dumps({"type": "search", "web": {"results": rows}}).encode()
        rows = [{"url": u, "title": t, "content": x, "score": 0.5} for u, t, x in self.pages]
        return json.dumps({"query": "q", "results": rows}).encode()


@asynccontextmanager
async def running_engine() -> AsyncGenerator[ScriptedEngine]:
    engine = ScriptedEngine()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                line, *lines = head.decode().strip().split("\r\n")
                headers = dict(one.lower().split(": ", 1) for one in lines)
                sent = await reader.readexactly(int(headers.get("content-length", "0")))
                method, target, _ = line.split(" ")
                parts = urlsplit(target)
                engine.requests.append(
                    {
                        "method": method,
                        "path": parts.path,
                        "query": {name: values[0] for name, values in parse_qs(parts.query).items()},
                        "headers": headers,
                        "body": json.loads(sent) if sent else None,
                    }
                )
                if engine.hangs:
                    await asyncio.sleep(60)
                body = engine.answer(parts.path)
                writer.write(
                    f"HTTP/1.1 {engine.status} X\r\ncontent-type: {engine.media_type}\r\n"
                    f"content-length: {len(body)}\r\n\r\n".encode()
                    + body
                )
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    engine.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield engine
    finally:
        server.close()
