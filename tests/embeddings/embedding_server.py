"""A server with ``/v1/embeddings`` on loopback, in the variants that are met in the wild."""

import base64
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

from aiohttp import web

from antiphon.embeddings.hashed import HashedEmbedder
from antiphon.embeddings.vectors import to_floats
from antiphon.errors import InvalidRequest

Manner = Literal["base64", "ignores base64", "refuses base64"]


@dataclass
class EmbeddingServer:
    """Answers with the vectors of a `HashedEmbedder`, in reverse order."""

    manner: Manner = "base64"
    answers: list[Any] = field(default_factory=list[Any])
    """Sent first, before its own answers: a body, or a status."""
    requests: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    headers: list[dict[str, str]] = field(default_factory=list[dict[str, str]])
    url: str = ""

    async def answer(self, request: web.Request) -> web.Response:
        asked = await request.json()
        self.requests.append(asked)
        self.headers.append(dict(request.headers))
        if self.answers:
            scripted = self.answers.pop(0)
            if isinstance(scripted, int):
                return web.json_response({"error": {"message": "later"}}, status=scripted)
            return web.json_response(scripted)
        wants_base64 = asked.get("encoding_format") == "base64"
        if wants_base64 and self.manner == "refuses base64":
            return web.json_response({"error": {"message": "encoding_format is not supported"}}, status=400)
        try:
            found = await HashedEmbedder().embed(asked["input"], dimensions=asked.get("dimensions"))
        except InvalidRequest as error:
            return web.json_response({"error": error.to_wire()}, status=400)
        rows = [
            {
                "object": "embedding",
                "index": place,
                "embedding": base64.b64encode(vector).decode()
                if wants_base64 and self.manner == "base64"
                else to_floats(vector),
            }
            for place, vector in enumerate(found.vectors)
        ]
        usage = {"prompt_tokens": found.tokens, "total_tokens": found.tokens}
        return web.json_response({"object": "list", "data": rows[::-1], "model": "x", "usage": usage})


@asynccontextmanager
async def run_embedding_server(manner: Manner = "base64") -> AsyncGenerator[EmbeddingServer, None]:
    server = EmbeddingServer(manner)
    async with serve_embeddings(server):
        yield server


@asynccontextmanager
async def serve_embeddings(server: EmbeddingServer) -> AsyncGenerator[None, None]:
    """Serve on a free port, until the end of the context."""
    app = web.Application(client_max_size=64 * 1024 * 1024)
    app.router.add_post("/v1/embeddings", server.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    server.url = f"http://{host}:{port}/v1"
    try:
        yield
    finally:
        await runner.cleanup()
