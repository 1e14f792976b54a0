"""A scripted chat-completions server for agents: plays texts and tool calls in order."""

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
SECONDS = 60
"""The longest time for which an answer is held back."""


@dataclass(frozen=True)
class Call:
    """A call of a tool."""

    name: str
    arguments: Json
    id: str = "call_1"

    def wire(self) -> Json:
        function = {"name": self.name, "arguments": json.dumps(self.arguments)}
        return {"index": 0, "id": self.id, "type": "function", "function": function}


@dataclass
class AgentUpstream:
    """Plays `turns` in order, and repeats the last one. A text may be held back until `gate` is set."""

    url: str = ""
    turns: list[str | Call | int] = field(default_factory=lambda: ["Hello there."])
    """A text, a call, or the status of an error."""
    requests: list[Json] = field(default_factory=list[Json])
    requested: threading.Event = field(default_factory=threading.Event)
    gate: threading.Event = field(default_factory=threading.Event)
    finish: str = "stop"

    def __post_init__(self) -> None:
        self.gate.set()

    async def list_models(self, _request: web.Request) -> web.Response:
        return web.json_response({"object": "list", "data": [{"id": "tiny"}]})

    async def complete(self, request: web.Request) -> web.StreamResponse:
        body: Json = await request.json()
        self.requests.append(body)
        self.requested.set()
        await asyncio.to_thread(self.gate.wait, SECONDS)
        turn = self.turns[min(len(self.requests), len(self.turns)) - 1]
        if isinstance(turn, int):
            return web.json_response({"error": {"message": "broken on purpose"}}, status=turn)
        if isinstance(turn, Call):
            message, finish = {"content": None, "tool_calls": [turn.wire()]}, "tool_calls"
        else:
            message, finish = {"content": turn}, self.finish
        if body.get("stream"):
            return await _stream(request, message, finish)
        choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
        return web.json_response({"id": "c", "object": "chat.completion", "choices": [choice]})


async def _stream(request: web.Request, message: Json, finish: str) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    empty: Json = {}
    for delta, reason in ((message, None), (empty, finish)):
        chunk: Json = {"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}
        await response.write(b"data: " + json.dumps({"id": "c", **chunk}).encode() + b"\n\n")
    await response.write(b"data: [DONE]\n\n")
    return response


@contextmanager
def agent_upstream() -> Generator[AgentUpstream, None, None]:
    """A server that can be scripted while it runs."""
    upstream = AgentUpstream()
    app = web.Application()
    app.router.add_get("/v1/models", upstream.list_models)
    app.router.add_post("/v1/chat/completions", upstream.complete)
    with serving(app) as url:
        upstream.url = url
        try:
            yield upstream
        finally:
            upstream.gate.set()
