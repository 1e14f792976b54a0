"""A Gemini API server on loopback whose behaviour depends on the model's name.

It validates like the real one: roles, blank texts, calls and their responses, and thought signatures, each
of which is valid for one part only.
"""

import asyncio
import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, cast

from aiohttp import web

JsonObject = dict[str, Any]
NO_SIGNATURE = "skip_thought_signature_validator"
ROOTS = ("/v1beta", "/v1/projects/p/locations/l/publishers/google")


class Upstream:
    """The server, with the requests that it received."""

    def __init__(self) -> None:
        self.requests: list[JsonObject] = []
        self.paths: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.cut_off = threading.Event()
        self.url = ""

    async def answer(self, request: web.Request) -> web.StreamResponse:
        body = cast("JsonObject", await request.json())
        self.requests.append(body)
        self.paths.append(request.raw_path)
        self.headers.append({name.lower(): value for name, value in request.headers.items()})
        model, _, method = request.match_info["call"].partition(":")
        if fault := _fault(body, third="gemini-3" in model):
            return _error(400, "INVALID_ARGUMENT", fault)
        streamed = method == "streamGenerateContent"
        match model:
            case "busy":
                return _error(503, "UNAVAILABLE", "The model is overloaded.", {"retry-after": "60"})
            case "unknown":
                return _error(404, "NOT_FOUND", "models/unknown is not found for API version v1beta")
            case "hangs":
                return await self._hang(request)
            case _:
                return await _respond(request, _script(body, signed="gemini-3" in model), streamed=streamed)

    async def models(self, _request: web.Request) -> web.Response:
        rows = [
            {
                "name": "models/gemini-3-flash-preview",
                "inputTokenLimit": 1_048_576,
                "supportedGenerationMethods": ["generateContent", "countTokens"],
            },
            {"name": "models/embedding", "supportedGenerationMethods": ["embedContent"]},
            {"name": "tunedModels/mine"},
        ]
        return web.json_response({"models": rows})

    async def _hang(self, request: web.Request) -> web.StreamResponse:
        """Sends text until the connection closes."""
        response = await _begin(request)
        try:
            for _ in range(200):
                await _event(response, _piece({"text": "one "}))
                await asyncio.sleep(0.05)
        except ConnectionResetError:
            pass
        finally:
            self.cut_off.set()
        return response


def _script(body: JsonObject, *, signed: bool) -> list[JsonObject]:
    """The answer for the request's tools and contents."""
    last = body["contents"][-1]["parts"]
    outputs = [part["functionResponse"] for part in last if "functionResponse" in part]
    leading_parts: list[JsonObject] = []
    if body.get("generationConfig", {}).get("thinkingConfig", {}).get("includeThoughts"):
        leading_parts.append({"text": f"Thought {len(body['contents'])}.", "thought": True})
    if outputs:
        results_text = " and ".join(output["response"]["output"] for output in outputs)
        parts: list[JsonObject] = [{"text": f"It is {results_text}."}]
    elif body.get("tools"):
        name = body["tools"][0]["functionDeclarations"][0]["name"]
        calls = [{"functionCall": {"name": name, "args": {"city": city}}} for city in ("Paris", "Rome")]
        if signed:
            for number, call in enumerate(calls):
                call["functionCall"]["id"] = f"id-{len(body['contents'])}-{number}"
        parts = [{"text": "Let me see."}, *calls]
    elif body.get("generationConfig", {}).get("responseMimeType") == "application/json":
        parts = [{"text": '{"a":"b"}'}]
    else:
        parts = [{"text": f"You said: {last[-1].get('text', next(iter(last[-1])))}"}]
    if signed:
        signed_part = next((part for part in parts if "functionCall" in part), parts[0])
        signed_part["thoughtSignature"] = signature(signed_part)
    return [*leading_parts, *parts]


def signature(part: JsonObject) -> str:
    """The signature of this part."""
    call = part.get("functionCall")
    return f"sig-of-{part['text'] if call is None else json.dumps([call['name'], call['args']])}"


async def _respond(request: web.Request, parts: list[JsonObject], *, streamed: bool) -> web.StreamResponse:
    usage = {
        "promptTokenCount": 13,
        "cachedContentTokenCount": 4,
        "candidatesTokenCount": 6,
        "thoughtsTokenCount": 2,
    }
    if not streamed:
        return web.json_response(_piece(*parts, finish="STOP", usage=usage))
    response = await _begin(request)
    for part in parts:
        for piece in _cut(part):
            await _event(response, _piece(piece, usage={"promptTokenCount": 13}))
    await _event(response, _piece(*_late_signature(parts[-1]), finish="STOP", usage=usage))
    return response


def _cut(part: JsonObject) -> list[JsonObject]:
    """The pieces in which a stream sends a part. The signature of a text is in an empty part at the end."""
    if "functionCall" in part:
        return [part]
    text = part["text"]
    plain = {key: value for key, value in part.items() if key != "thoughtSignature"}
    return [{**plain, "text": text[at : at + 5]} for at in range(0, len(text), 5)]


def _late_signature(part: JsonObject) -> list[JsonObject]:
    if "text" not in part or "thoughtSignature" not in part:
        return []
    return [{"text": "", "thoughtSignature": "sig-of-"}]


def _piece(*parts: JsonObject, finish: str = "", usage: JsonObject | None = None) -> JsonObject:
    candidate: JsonObject = {"content": {"parts": parts, "role": "model"}, "index": 0}
    if finish:
        candidate["finishReason"] = finish
    return {"candidates": [candidate], "usageMetadata": usage or {}, "modelVersion": "m", "responseId": "r"}


def _fault(body: JsonObject, *, third: bool) -> str:
    """The reason for which the real server would reject this request."""
    contents = body["contents"]
    if not contents or contents[0]["role"] != "user" or contents[-1]["role"] != "user":
        return "Requests ending with a model turn are not supported."
    for content in contents:
        for part in content["parts"]:
            if part.get("text", "x").strip() == "" and "thoughtSignature" not in part:
                return "GenerateContentRequest.contents: empty text parameter"
            signature_sent = part.get("thoughtSignature", NO_SIGNATURE)
            if signature_sent != NO_SIGNATURE and signature_sent != signature(part):
                return "Corrupted thought signature."
    return _unanswered(contents) or (_unsigned(contents) if third else "")


def _unanswered(contents: list[JsonObject]) -> str:
    end: JsonObject = {"parts": []}
    for content, following in zip(contents, [*contents[1:], end], strict=True):
        calls = [part["functionCall"] for part in content["parts"] if "functionCall" in part]
        responses = [part["functionResponse"] for part in following["parts"] if "functionResponse" in part]
        if [(one["name"], one.get("id")) for one in calls] != [
            (one["name"], one.get("id")) for one in responses
        ]:
            return "the number of function response parts is not equal to the number of function call parts"
    return ""


def _unsigned(contents: list[JsonObject]) -> str:
    for content in contents:
        calls = [part for part in content["parts"] if "functionCall" in part]
        if calls and "thoughtSignature" not in calls[0]:
            return "Function call is missing a thought_signature in functionCall parts."
    return ""


def _error(status: int, kind: str, message: str, headers: dict[str, str] | None = None) -> web.Response:
    error = {"code": status, "message": message, "status": kind}
    return web.json_response([{"error": error}], status=status, headers=headers)


async def _begin(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"content-type": "text/event-stream"})
    await response.prepare(request)
    return response


async def _event(response: web.StreamResponse, event: JsonObject) -> None:
    await response.write(f"data: {json.dumps(event)}\r\n\r\n".encode())


@contextmanager
def run_upstream() -> Generator[Upstream, None, None]:
    """Run the server in its own thread."""
    upstream = Upstream()
    started, stop = threading.Event(), asyncio.Event()
    loop = asyncio.new_event_loop()

    async def serve() -> None:
        app = web.Application(client_max_size=2**26)
        for root in ROOTS:
            app.router.add_post(root + "/models/{call}", upstream.answer)
            app.router.add_get(root + "/models", upstream.models)
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
