"""A server with ``/v1/images/generations`` on loopback, in the variants that are met in the wild."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
"""A PNG of one pixel."""


@dataclass
class ImageServer:
    """Answers with one pixel."""

    takes_format: bool = True
    """Whether it knows `response_format`, and answers with an address without it."""
    streams: bool = False
    """Whether it knows `stream`."""
    events: list[Any] | None = None
    """Streamed in place of its own events."""
    answers: list[Any] = field(default_factory=list[Any])
    """Sent first, before its own answers: a body, or a status."""
    requests: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    url: str = ""

    async def answer(self, request: web.Request) -> web.Response:
        asked = await request.json()
        self.requests.append(asked)
        if self.answers:
            scripted = self.answers.pop(0)
            if isinstance(scripted, int):
                return web.json_response({"error": {"message": "a storm"}}, status=scripted)
            return web.json_response(scripted)
        if "response_format" in asked and not self.takes_format:
            message = "Unknown parameter: 'response_format'."
            return web.json_response({"error": {"message": message}}, status=400)
        if "stream" in asked:
            return self._stream(asked)
        if "response_format" not in asked and self.takes_format:
            return web.json_response({"data": [{"url": "https://example.com/1.png"}]})
        made = {"b64_json": PIXEL, "revised_prompt": f"A photo of {asked['prompt']}"}
        return web.json_response({"created": 1, "data": [made], "size": "1024x1024", "output_format": "png"})

    def _stream(self, asked: dict[str, Any]) -> web.Response:
        if not self.streams:
            message = "Unknown parameter: 'stream'."
            return web.json_response({"error": {"message": message}}, status=400)
        kind = "image_generation"
        events: list[Any] = [
            {"type": f"{kind}.partial_image", "b64_json": f"part{index}", "partial_image_index": index}
            for index in range(asked["partial_images"])
        ]
        done = {"b64_json": PIXEL, "size": "1024x1024", "output_format": "png"}
        events.append({"type": f"{kind}.completed", **done})
        chosen = events if self.events is None else self.events
        body = "".join(f"data: {json.dumps(event)}\n\n" for event in chosen)
        return web.Response(text=body, content_type="text/event-stream")


@asynccontextmanager
async def run_image_server(
    *, takes_format: bool = True, streams: bool = False
) -> AsyncGenerator[ImageServer, None]:
    """Serve on a free port, until the end of the context."""
    server = ImageServer(takes_format, streams)
    app = web.Application()
    app.router.add_post("/v1/images/generations", server.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    server.url = f"http://{host}:{port}/v1"
    try:
        yield server
    finally:
        await runner.cleanup()
