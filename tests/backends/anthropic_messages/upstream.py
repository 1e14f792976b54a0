"""A Messages API server on loopback whose behaviour depends on the model's name.

It validates like the real one: roles, blank texts, calls and their results, and signatures of thinking
blocks.
"""

import asyncio
import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, cast

from aiohttp import web

JsonObject = dict[str, Any]
SIGNATURE = "sig-of-"
LIMIT = 5


class Upstream:
    """The server, with the requests that it received."""

    def __init__(self) -> None:
        self.requests: list[JsonObject] = []
        self.headers: list[dict[str, str]] = []
        self.cut_off = threading.Event()
        self.url = ""

    async def answer(self, request: web.Request) -> web.StreamResponse:
        body = cast("JsonObject", await request.json())
        self.requests.append(body)
        self.headers.append({name.lower(): value for name, value in request.headers.items()})
        if fault := _fault(body):
            return _error(400, "invalid_request_error", fault)
        match body["model"]:
            case "busy":
                return _error(529, "overloaded_error", "Overloaded", {"retry-after": "60"})
            case "unknown":
                return _error(404, "not_found_error", "model: unknown")
            case "hangs":
                return await self._hang(request)
            case _:
                return await self._respond(request, body, *_script(body))

    async def models(self, _request: web.Request) -> web.Response:
        data = [
            {"type": "model", "id": "claude-opus-5", "display_name": "x", "created_at": "2026-02-01T00:00:00Z", "max_input_tokens": 1_000_000},
            {"type": "model", "id": "claude-old", "display_name": "y", "created_at": "not a date"},
        ]  # fmt: skip
        return web.json_response({"data": data, "has_more": False})

    async def _respond(
        self, request: web.Request, body: JsonObject, content: list[JsonObject], reason: str
    ) -> web.StreamResponse:
        usage = {"input_tokens": 9, "cache_read_input_tokens": 4, "output_tokens": 6}
        if not body.get("stream"):
            message = {"id": "msg_1", "type": "message", "role": "assistant", "content": content}
            return web.json_response({**message, "stop_reason": reason, "usage": usage})
        response = await _begin(request)
        start: JsonObject = {
            "id": "msg_1",
            "type": "message",
            "content": [],
            "usage": {**usage, "output_tokens": 1},
        }
        await _event(response, "message_start", message=start)
        for index, block in enumerate(content):
            first, deltas = _cut(block)
            await _event(response, "content_block_start", index=index, content_block=first)
            for delta in deltas:
                await _event(response, "content_block_delta", index=index, delta=delta)
            await _event(response, "content_block_stop", index=index)
        await _event(
            response,
            "message_delta",
            delta={"stop_reason": reason},
            usage={"output_tokens": usage["output_tokens"]},
        )
        await _event(response, "message_stop")
        return response

    async def _hang(self, request: web.Request) -> web.StreamResponse:
        """Sends one text delta and then pings until the connection closes."""
        response = await _begin(request)
        await _event(response, "content_block_start", index=0, content_block={"type": "text", "text": ""})
        await _event(response, "content_block_delta", index=0, delta={"type": "text_delta", "text": "one"})
        try:
            for _ in range(200):
                await asyncio.sleep(0.05)
                await _event(response, "ping")
        except ConnectionResetError:
            pass
        finally:
            self.cut_off.set()
        return response


def _script(body: JsonObject) -> tuple[list[JsonObject], str]:
    """The answer for the request's tools and messages."""
    last = body["messages"][-1]["content"]
    results = [block for block in last if block["type"] == "tool_result"]
    thinks = body.get("thinking", {}).get("type") in ("enabled", "adaptive")
    thinking_block = {"type": "thinking", "thinking": f"Thought {len(body['messages'])}.", "signature": ""}
    thinking_block["signature"] = SIGNATURE + thinking_block["thinking"]
    leading_blocks: list[JsonObject] = [thinking_block] if thinks else []
    if results:
        results_text = " and ".join(str(block.get("content", "")) for block in results)
        return [*leading_blocks, {"type": "text", "text": f"It is {results_text}."}], "end_turn"
    if "format" in body.get("output_config", {}):
        return [*leading_blocks, {"type": "text", "text": '{"a": "hi"}'}], "end_turn"
    if body.get("tools"):
        name = body["tools"][0]["name"]
        calls = [
            {"type": "tool_use", "id": f"toolu_{number}", "name": name, "input": {"city": city}}
            for number, city in enumerate(("Paris", "Rome"))
        ]
        return [*leading_blocks, {"type": "text", "text": "Let me see."}, *calls], "tool_use"
    return [
        *leading_blocks,
        {"type": "text", "text": f"You said: {last[-1].get('text', last[-1]['type'])}"},
    ], "end_turn"


def _fault(body: JsonObject) -> str:
    """The reason for which the real server would reject this request."""
    messages = body["messages"]
    if "max_tokens" not in body:
        return "max_tokens: Field required"
    if not messages or messages[0]["role"] != "user":
        return "messages: first message must use the user role"
    blocks = [block for message in messages for block in message["content"]]
    if any(block["type"] == "text" and not block["text"].strip() for block in blocks):
        return "messages: text content blocks must be non-empty"
    for block in blocks:
        if block["type"] == "thinking" and block["signature"] != SIGNATURE + block["thinking"]:
            return "messages: Invalid `signature` in `thinking` block"
    if (
        sum("cache_control" in block for block in (*body.get("system", ()), *body.get("tools", ()), *blocks))
        >= LIMIT
    ):
        return "A maximum of 4 blocks with cache_control may be provided"
    return _unanswered(messages) or _lacks_thinking(body)


def _unanswered(messages: list[JsonObject]) -> str:
    end: JsonObject = {"content": []}
    for message, following in zip(messages, [*messages[1:], end], strict=True):
        calls = [block["id"] for block in message["content"] if block["type"] == "tool_use"]
        results = [block["tool_use_id"] for block in following["content"] if block["type"] == "tool_result"]
        if calls != results:
            return f"messages: `tool_use` ids {calls} were found without `tool_result` blocks: {results}"
    return ""


def _lacks_thinking(body: JsonObject) -> str:
    """With a thinking budget, an assistant message with calls must begin with a thinking block."""
    messages = body["messages"]
    if (
        body.get("thinking", {}).get("type") != "enabled"
        or messages[-1]["content"][0]["type"] != "tool_result"
    ):
        return ""
    first = messages[-2]["content"][0]["type"]
    return "" if first == "thinking" else f"messages: Expected `thinking`, but found `{first}`"


def _cut(block: JsonObject) -> tuple[JsonObject, list[JsonObject]]:
    """A block's start, and the deltas that complete it."""

    def pieces(kind: str, field: str, text: str) -> list[JsonObject]:
        return [{"type": kind, field: text[at : at + 5]} for at in range(0, len(text), 5)]

    match block["type"]:
        case "thinking":
            deltas = pieces("thinking_delta", "thinking", block["thinking"])
            signature = {"type": "signature_delta", "signature": block["signature"]}
            return {"type": "thinking", "thinking": "", "signature": ""}, [*deltas, signature]
        case "tool_use":
            return {**block, "input": {}}, pieces(
                "input_json_delta", "partial_json", json.dumps(block["input"])
            )
        case _:
            return {**block, "text": ""}, pieces("text_delta", "text", block["text"])


def _error(status: int, kind: str, message: str, headers: dict[str, str] | None = None) -> web.Response:
    error = {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"}
    return web.json_response(error, status=status, headers=headers)


async def _begin(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"content-type": "text/event-stream; charset=utf-8"})
    await response.prepare(request)
    return response


async def _event(response: web.StreamResponse, kind: str, **members: Any) -> None:
    await response.write(f"event: {kind}\ndata: {json.dumps({'type': kind, **members})}\n\n".encode())


@contextmanager
def run_upstream() -> Generator[Upstream, None, None]:
    """Run the server in its own thread."""
    upstream = Upstream()
    started, stop = threading.Event(), asyncio.Event()
    loop = asyncio.new_event_loop()

    async def serve() -> None:
        app = web.Application(client_max_size=2**26)
        app.router.add_post("/v1/messages", upstream.answer)
        app.router.add_get("/v1/models", upstream.models)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        host, port = runner.addresses[0][:2]
        upstream.url = f"http://{host}:{port}"
        started.set()
        await stop.wait()
        await runner.cleanup()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),), daemon=True)
    thread.start()
    assert started.wait(10)
    try:
        yield upstream
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(10)
        loop.close()
