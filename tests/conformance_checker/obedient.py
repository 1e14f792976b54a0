"""A chat-completions server whose model follows instructions: it calls tools, reasons, counts and remembers."""

import asyncio
import json
import re
from typing import Any, cast

from aiohttp import web

JsonObject = dict[str, Any]

MODEL = "obedient"
MAX_WORDS = 300
WORD_PATTERN = r"(?:Say this word, and nothing else|The word is): (\w+)"
PACE = 0.02
"""Seconds between two words of a long answer, so that it can be cancelled in the middle."""


def obedient() -> web.Application:
    """The server."""
    app = web.Application(client_max_size=2**26)
    app.router.add_post("/v1/chat/completions", _answer)
    app.router.add_get("/v1/models", _models)
    return app


async def _models(_request: web.Request) -> web.Response:
    return web.json_response({"object": "list", "data": [{"id": MODEL, "object": "model", "created": 1}]})


async def _answer(request: web.Request) -> web.StreamResponse:
    body = cast("JsonObject", await request.json())
    if body["model"] != MODEL:
        error = {
            "message": "there is no such model",
            "type": "invalid_request_error",
            "code": "model_not_found",
        }
        return web.json_response({"error": error}, status=404)
    try:
        return await _respond(request, body)
    except ConnectionResetError:
        return web.Response()  # the client disconnected


async def _respond(request: web.Request, body: JsonObject) -> web.StreamResponse:
    message, reason = _turn(body)
    tokens = len(json.dumps(body["messages"])) // 4
    length = len((message.get("content") or "a call").split())
    usage = {"prompt_tokens": tokens, "completion_tokens": length, "total_tokens": tokens + length}
    if not body.get("stream"):
        choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": reason}
        return web.json_response(
            {"id": "c", "object": "chat.completion", "choices": [choice], "usage": usage}
        )
    response = web.StreamResponse(headers={"content-type": "text/event-stream"})
    await response.prepare(request)
    for delta in _cut(message):
        await _send(response, {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
        if len(message.get("content") or "") > 1000:
            await asyncio.sleep(PACE)
    await _send(response, {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
    await _send(response, {"choices": [], "usage": usage})
    await response.write(b"data: [DONE]\n\n")
    return response


async def _send(response: web.StreamResponse, members: JsonObject) -> None:
    chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": MODEL, **members}
    await response.write(f"data: {json.dumps(chunk)}\n\n".encode())


def _turn(body: JsonObject) -> tuple[JsonObject, str]:
    """The model's message, and the finish reason."""
    texts = [_text(message) for message in body["messages"]]
    if calls := _calls(body, texts[-1]):
        return {"content": None, "tool_calls": calls}, "tool_calls"
    if form := body.get("response_format"):
        return {"content": _structured(form)}, "stop"
    if "Count from" in texts[-1]:
        limit = body.get("max_completion_tokens") or body.get("max_tokens") or MAX_WORDS
        return {"content": "number " * min(limit, MAX_WORDS)}, "length" if limit < MAX_WORDS else "stop"
    if "Which word" in texts[-1]:
        found = re.search(r"Remember this word: (\w+)", " ".join(texts)) or re.search(
            WORD_PATTERN, " ".join(texts)
        )
        return {"content": found.group(1) if found else "I do not know."}, "stop"
    if found := re.search(WORD_PATTERN, texts[-1]):
        return {"content": f"The word is: {found.group(1)}"}, "stop"
    if "Think first" in texts[-1]:
        return {"reasoning_content": "0.9 is more than 0.11.", "content": "9.9 is larger."}, "stop"
    return {"content": "Hello there."}, "stop"


def _calls(body: JsonObject, prompt: str) -> list[JsonObject]:
    declared = cast("list[JsonObject]", body.get("tools") or [])
    tools = [cast("JsonObject", tool["function"]) for tool in declared]
    choice = body.get("tool_choice", "auto")
    if not tools or choice == "none" or body["messages"][-1]["role"] == "tool":
        return []
    if isinstance(choice, dict):
        name = cast("JsonObject", choice)["function"]["name"]
        tools = [tool for tool in tools if tool["name"] == name]
    elif choice == "auto" and "tool" not in prompt:
        return []
    parallel = "in parallel" in prompt and body.get("parallel_tool_calls") is not False
    cities = ["Paris", "Rome"] if parallel else ["Paris"]
    return [
        {
            "index": index,
            "id": f"call_{len(body['messages'])}_{index}",
            "type": "function",
            "function": {"name": tools[0]["name"], "arguments": json.dumps(_arguments(tools[0], city))},
        }
        for index, city in enumerate(cities)
    ]


def _arguments(tool: JsonObject, city: str) -> JsonObject:
    return {"input": "buy milk"} if "input" in tool["parameters"]["properties"] else {"city": city}


def _structured(form: JsonObject) -> str:
    person = {"name": "Ada Lovelace", "year": 1815}
    return json.dumps(person if form["type"] == "json_schema" else {"city": "Paris"})


def _text(message: JsonObject) -> str:
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return " ".join(part.get("text", "") for part in cast("list[JsonObject]", content))


def _cut(message: JsonObject) -> list[JsonObject]:
    deltas: list[JsonObject] = [{"role": "assistant", "content": ""}]
    for field in ("reasoning_content", "content"):
        text = message.get(field) or ""
        deltas += [{field: text[at : at + 7]} for at in range(0, len(text), 7)]
    for call in message.get("tool_calls", []):
        arguments = call["function"]["arguments"]
        deltas.append({"tool_calls": [{**call, "function": {**call["function"], "arguments": ""}}]})
        deltas += [
            {"tool_calls": [{"index": call["index"], "function": {"arguments": arguments[at : at + 5]}}]}
            for at in range(0, len(arguments), 5)
        ]
    return deltas
