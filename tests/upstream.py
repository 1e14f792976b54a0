"""A chat-completions server on loopback whose behaviour depends on the model's name."""

import asyncio
import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, TypeVar, cast

from aiohttp import web

JsonObject = dict[str, Any]
USAGE = {"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12}


class Upstream:
    """The server, with the requests that it received."""

    def __init__(self) -> None:
        self.requests: list[JsonObject] = []
        self.headers: list[dict[str, str]] = []
        self.cut_off = threading.Event()
        self.gate = threading.Event()
        self.finished = 0
        self.url = ""

    async def answer(self, request: web.Request) -> web.StreamResponse:
        body = cast("JsonObject", await request.json())
        self.requests.append(body)
        self.headers.append(dict(request.headers))
        if unanswered := _unanswered(body["messages"]):
            error = {"message": f"no tool message answers {unanswered}", "type": "invalid_request_error"}
            return web.json_response({"error": error}, status=400)
        try:
            return await self._behave(request, body)
        except ConnectionResetError:
            return web.Response()  # the client disconnected

    async def _behave(self, request: web.Request, body: JsonObject) -> web.StreamResponse:
        behave = getattr(self, f"_{body['model'].replace('-', '_')}", None)
        if behave is not None:
            return await behave(request, body)
        return await self._respond(request, body, *_script(body))

    async def models(self, _request: web.Request) -> web.Response:
        data = [
            {"id": name, "object": "model", "created": 1, "owned_by": "test"} for name in ("echo", "tools")
        ]
        return web.json_response({"object": "list", "data": data})

    async def _respond(
        self, request: web.Request, body: JsonObject, message: JsonObject, reason: str
    ) -> web.StreamResponse:
        if not body.get("stream"):
            choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": reason}
            return web.json_response(
                {"id": "c", "object": "chat.completion", "choices": [choice], "usage": USAGE}
            )
        response = await _begin(request)
        for delta in _cut(message):
            await _chunk(response, {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
        await _chunk(response, {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
        await _chunk(response, {"choices": [], "usage": USAGE})
        await response.write(b"data: [DONE]\n\n")
        return response

    async def _refuses(self, _request: web.Request, _body: JsonObject) -> web.Response:
        error = {"message": "you are too fast", "type": "rate_limit", "code": "rate_limit"}
        return web.json_response({"error": error}, status=429, headers={"retry-after": "60"})

    async def _hangs(self, request: web.Request, body: JsonObject) -> web.StreamResponse:
        """Sends one text delta and then nothing until the connection closes."""
        response = await _begin(request)
        await _chunk(
            response, {"choices": [{"index": 0, "delta": {"content": "one"}, "finish_reason": None}]}
        )
        try:
            for _ in range(600):
                await asyncio.sleep(0.05)
                if request.transport is None or request.transport.is_closing():
                    break
        finally:
            self.cut_off.set()
        return response

    async def _slow(self, request: web.Request, body: JsonObject) -> web.StreamResponse:
        """Sends reasoning and then twelve text deltas, one every 40 ms."""
        response = await _begin(request)
        texts = [f"w{number} " for number in range(12)]
        deltas = [{"reasoning_content": "Let me think."}, *({"content": piece} for piece in texts)]
        for delta in deltas:
            await _chunk(response, {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
            await asyncio.sleep(0.04)
        await _chunk(response, {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
        await _chunk(response, {"choices": [], "usage": USAGE})
        await response.write(b"data: [DONE]\n\n")
        self.finished += 1
        return response

    async def _gated(self, request: web.Request, body: JsonObject) -> web.StreamResponse:
        """Sends one text delta, and echoes the last message once the gate is open."""
        response = await _begin(request)
        for piece in ("Well, ", _text(body["messages"][-1]["content"])):
            delta = {"content": piece}
            await _chunk(response, {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
            while not self.gate.is_set():
                await asyncio.sleep(0.01)
                if request.transport is None or request.transport.is_closing():
                    return response
        await _chunk(response, {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
        await response.write(b"data: [DONE]\n\n")
        return response

    async def _searches(self, request: web.Request, body: JsonObject) -> web.StreamResponse:
        """Searches files for the user's text, and then answers with a citation once the gate is open."""
        messages = body["messages"]
        if messages[-1]["role"] == "user":
            arguments = json.dumps({"queries": [_text(messages[-1]["content"])]})
            function = {"name": "file_search", "arguments": arguments}
            call = {"index": 0, "id": "call_a", "type": "function", "function": function}
            return await self._respond(request, body, {"content": None, "tool_calls": [call]}, "tool_calls")
        response = await _begin(request)
        for piece in ("Two years", " [1", "]."):
            delta = {"content": piece}
            await _chunk(response, {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
            while not self.gate.is_set():
                await asyncio.sleep(0.01)
                if request.transport is None or request.transport.is_closing():
                    return response
        await _chunk(response, {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
        await response.write(b"data: [DONE]\n\n")
        return response

    async def _breaks(self, request: web.Request, body: JsonObject) -> web.StreamResponse:
        response = await _begin(request)
        await _chunk(
            response, {"choices": [{"index": 0, "delta": {"content": "half"}, "finish_reason": None}]}
        )
        assert request.transport is not None
        request.transport.close()
        return response

    async def _html(self, _request: web.Request, _body: JsonObject) -> web.Response:
        return web.Response(text="<html>login</html>", content_type="text/html")

    async def _endless(self, request: web.Request, _body: JsonObject) -> web.StreamResponse:
        """One line of 64 MB."""
        response = await _begin(request)
        await response.write(b"data: ")
        for _ in range(1024):
            await response.write(b"x" * 65536)
        return response


Model = TypeVar("Model", bound=Upstream)


async def _begin(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"content-type": "text/event-stream"})
    await response.prepare(request)
    return response


async def _chunk(response: web.StreamResponse, members: JsonObject) -> None:
    chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", **members}
    await response.write(f"data: {json.dumps(chunk)}\n\n".encode())


def _script(body: JsonObject) -> tuple[JsonObject, str]:
    """The answer for the model's name and the messages so far."""
    messages = body["messages"]
    match body["model"]:
        case "tools" if messages[-1]["role"] == "user":
            calls = [
                {"index": 0, "id": "call_a", "type": "function", "function": {"name": "get_weather", "arguments": '{"city": "Paris"}'}},
                {"index": 1, "id": "call_b", "type": "function", "function": {"name": "get_weather", "arguments": '{"city": "Rome"}'}},
            ]  # fmt: skip
            return {"content": None, "tool_calls": calls}, "tool_calls"
        case "tools":
            results = " and ".join(message["content"] for message in messages if message["role"] == "tool")
            return {"content": f"It is {results}."}, "stop"
        case "agent":
            return _agent_turn([message["content"] for message in messages if message["role"] == "tool"])
        case "reasoning":
            return {"reasoning_content": "Let me think.", "content": "Done."}, "stop"
        case "transcript":
            return {"content": json.dumps([_text(message["content"] or "") for message in messages])}, "stop"
        case "json":
            return {"content": '{"name": "Ada", "year": 1815}'}, "stop"
        case "forced" if messages[-1]["role"] == "user" and body.get("tool_choice", "auto") != "auto":
            function = {
                "name": body["tools"][0]["function"]["name"],
                "arguments": '{"name": "Ada", "year": 1815}',
            }
            call = {"index": 0, "id": "call_a", "type": "function", "function": function}
            return {"content": None, "tool_calls": [call]}, "tool_calls"
        case "short":
            return {"content": "cut"}, "length"
        case _:
            return {"content": "You said: " + _text(messages[-1]["content"])}, "stop"


def _agent_turn(outputs: list[str]) -> tuple[JsonObject, str]:
    """Two calls, then one more, then an answer: `write_line` has side effects, `read_lines` has none."""
    turns = {
        0: [("call_1", "write_line", '{"text": "one"}'), ("call_2", "read_lines", "{}")],
        2: [("call_3", "write_line", '{"text": "two"}')],
    }
    if len(outputs) not in turns:
        return {"content": f"I was told {outputs[1]}."}, "stop"
    calls = [
        {"index": index, "id": call_id, "type": "function", "function": {"name": name, "arguments": text}}
        for index, (call_id, name, text) in enumerate(turns[len(outputs)])
    ]
    return {"content": None, "tool_calls": calls}, "tool_calls"


def _unanswered(messages: list[JsonObject]) -> list[str]:
    """The calls that the next messages do not answer; real servers reject these."""
    open_calls: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            open_calls = [known for known in open_calls if known != message["tool_call_id"]]
            continue
        if open_calls:
            return open_calls
        open_calls = [call["id"] for call in message.get("tool_calls") or ()]
    return open_calls


def _text(content: object) -> str:
    if isinstance(content, str):
        return content
    return " ".join(part.get("text", part["type"]) for part in cast("list[JsonObject]", content))


def _cut(message: JsonObject) -> list[JsonObject]:
    """A message as the deltas of a stream."""
    deltas: list[JsonObject] = [{"role": "assistant", "content": ""}]
    for field in ("reasoning_content", "content"):
        text = message.get(field) or ""
        deltas += [{field: text[at : at + 4]} for at in range(0, len(text), 4)]
    for call in message.get("tool_calls", []):
        arguments = call["function"]["arguments"]
        deltas.append({"tool_calls": [{**call, "function": {**call["function"], "arguments": ""}}]})
        deltas += [
            {"tool_calls": [{"index": call["index"], "function": {"arguments": arguments[at : at + 5]}}]}
            for at in range(0, len(arguments), 5)
        ]
    return deltas


@contextmanager
def run_upstream(kind: type[Model] = Upstream) -> Generator[Model, None, None]:
    """Run the server in its own thread."""
    upstream = kind()
    started, stop = threading.Event(), asyncio.Event()
    loop = asyncio.new_event_loop()

    async def serve() -> None:
        app = web.Application(client_max_size=2**26)
        app.router.add_post("/v1/chat/completions", upstream.answer)
        app.router.add_get("/v1/models", upstream.models)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        host, port = runner.addresses[0][:2]
        upstream.url = f"http://{host}:{port}/v1"
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
