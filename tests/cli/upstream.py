"""A scripted chat-completions server: plays its replies in order, and records its requests."""

import asyncio
import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from tests.cli.http_thread import serving

Json = dict[str, Any]


@dataclass(frozen=True)
class Reply:
    """An answer. After its text, a stream may hang or break off."""

    texts: tuple[str, ...] = ("Hello", " there.")
    reasoning: tuple[str, ...] = ()
    finish: str = "stop"
    status: int = 200
    message: str = "broken on purpose"
    hangs: bool = False
    breaks: bool = False
    usage: bool = True


@dataclass
class ScriptedUpstream:
    """Plays `replies` in order, and repeats the last one."""

    url: str = ""
    replies: list[Reply] = field(default_factory=lambda: [Reply()])
    models: list[str] | None = field(default_factory=lambda: ["tiny", "other"])
    key: str | None = None
    requests: list[Json] = field(default_factory=list[Json])
    closed: threading.Event = field(default_factory=threading.Event)
    """Set when a stream ended because its client disconnected."""

    def messages(self, number: int = -1) -> list[tuple[str, Any]]:
        """Role and content of the messages of a request."""
        return [(message["role"], message["content"]) for message in self.requests[number]["messages"]]

    async def list_models(self, request: web.Request) -> web.Response:
        """GET /models."""
        if self.key is not None and request.headers.get("Authorization") != f"Bearer {self.key}":
            return web.json_response({"error": {"message": "bad key"}}, status=401)
        if self.models is None:
            return web.json_response({"error": {"message": "not found"}}, status=404)
        return web.json_response({"object": "list", "data": [{"id": name} for name in self.models]})

    async def complete(self, request: web.Request) -> web.StreamResponse:
        """POST /chat/completions."""
        body: Json = await request.json()
        self.requests.append(body)
        reply = self.replies[min(len(self.requests), len(self.replies)) - 1]
        if reply.status != 200:
            return web.json_response({"error": {"message": reply.message}}, status=reply.status)
        if body.get("stream"):
            return await self._stream(request, reply)
        message = {"role": "assistant", "content": "".join(reply.texts)}
        if reply.reasoning:
            message["reasoning_content"] = "".join(reply.reasoning)
        choice = {"index": 0, "message": message, "finish_reason": reply.finish}
        return web.json_response(_chunk([choice], reply, object_name="chat.completion"))

    async def _stream(self, request: web.Request, reply: Reply) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        deltas: list[Json] = [{"reasoning_content": reasoning_text} for reasoning_text in reply.reasoning]
        deltas += [{"content": text} for text in reply.texts]
        for delta in deltas:
            await _send(response, _chunk([{"index": 0, "delta": delta, "finish_reason": None}]))
        if reply.hangs:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                self.closed.set()
                raise
        if reply.breaks:
            assert request.transport is not None
            request.transport.close()
            return response
        empty: Json = {}
        await _send(response, _chunk([{"index": 0, "delta": empty, "finish_reason": reply.finish}]))
        await _send(response, _chunk([], reply))
        await response.write(b"data: [DONE]\n\n")
        return response


def _chunk(
    choices: list[Json], reply: Reply | None = None, *, object_name: str = "chat.completion.chunk"
) -> Json:
    chunk: Json = {"id": "c1", "object": object_name, "created": 1, "model": "tiny", "choices": choices}
    if reply is not None and reply.usage:
        chunk["usage"] = {"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12}
    return chunk


async def _send(response: web.StreamResponse, chunk: Json) -> None:
    await response.write(b"data: " + json.dumps(chunk).encode() + b"\n\n")


@contextmanager
def scripted_upstream() -> Generator[ScriptedUpstream, None, None]:
    """A server that can be scripted while it runs."""
    upstream = ScriptedUpstream()
    app = web.Application()
    app.router.add_get("/v1/models", upstream.list_models)
    app.router.add_post("/v1/chat/completions", upstream.complete)
    with serving(app) as url:
        upstream.url = url
        yield upstream
