"""A proxy with one fault in front of a correct server: it alters the request or the answer."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

import aiohttp
from aiohttp import web

JsonObject = dict[str, Any]
Events = list[JsonObject]

DROPPED = ("content-length", "transfer-encoding", "content-encoding", "connection", "date", "server")


@dataclass
class ProxiedRequest:
    """A request that a fault may alter."""

    method: str
    path: str
    query: dict[str, str]
    body: JsonObject | bytes

    def has(self, name: str) -> bool:
        return isinstance(self.body, dict) and bool(self.body.get(name))

    def drop(self, *names: str) -> None:
        if isinstance(self.body, dict):
            for name in names:
                self.body.pop(name, None)

    def encoded(self) -> bytes:
        return self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()


@dataclass
class ProxiedAnswer:
    """An answer that a fault may alter."""

    status: int
    headers: dict[str, str]
    body: bytes
    done: bool = True
    names: bool = True

    @property
    def streamed(self) -> bool:
        return self.headers.get("content-type", "").startswith("text/event-stream")

    @property
    def json(self) -> JsonObject:
        return json.loads(self.body)

    def put(self, value: object) -> None:
        self.body = json.dumps(value).encode()

    @property
    def events(self) -> Events:
        blocks = [block for block in self.body.decode().split("\n\n") if "data: {" in block]
        return [json.loads(block.partition("data: ")[2]) for block in blocks]

    def set_events(self, events: Events) -> None:
        lines = [
            (f"event: {event['type']}\n" if self.names else "") + f"data: {json.dumps(event)}\n\n"
            for event in events
        ]
        self.body = "".join([*lines, "data: [DONE]\n\n" if self.done else ""]).encode()


@dataclass(frozen=True)
class Fault:
    """One fault, and the checks that must find it."""

    name: str
    found_by: frozenset[str]
    sent: Callable[[ProxiedRequest], None] = field(default=lambda sent: None)
    reply: Callable[[ProxiedRequest, ProxiedAnswer], None] = field(default=lambda sent, reply: None)
    socket: int | None = None
    """The status with which a WebSocket is rejected."""
    outgoing: Callable[[JsonObject], None] = field(default=lambda frame: None)
    incoming: Callable[[JsonObject], JsonObject | None] = field(default=lambda frame: frame)


class FaultyProxy:
    """A proxy with one fault at a time."""

    def __init__(self) -> None:
        self.fault = Fault("none", frozenset())
        self.upstream = ""

    def app(self) -> web.Application:
        app = web.Application(client_max_size=2**26)
        app.router.add_route("*", "/v1/{path:.*}", self._serve)
        return app

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        if request.headers.get("upgrade", "").lower() == "websocket":
            return await self._relay(request)
        sent = ProxiedRequest(
            request.method, request.match_info["path"], dict(request.query), _decoded(await request.read())
        )
        self.fault.sent(sent)
        headers = {
            name: request.headers[name]
            for name in ("authorization", "content-type")
            if name in request.headers
        }
        async with (
            aiohttp.ClientSession(auto_decompress=False) as session,
            session.request(
                sent.method,
                f"{self.upstream}/{sent.path}",
                params=sent.query,
                data=sent.encoded(),
                headers=headers,
            ) as answer,
        ):
            forwarded_headers = {
                name.lower(): value for name, value in answer.headers.items() if name.lower() not in DROPPED
            }
            reply = ProxiedAnswer(answer.status, forwarded_headers, await answer.read())
        self.fault.reply(sent, reply)
        if reply.status == 0:
            assert request.transport is not None
            request.transport.close()
        return web.Response(status=reply.status or 500, headers=reply.headers, body=reply.body)

    async def _relay(self, request: web.Request) -> web.StreamResponse:
        if self.fault.socket is not None:
            return web.json_response({"error": "no"}, status=self.fault.socket)
        ours = web.WebSocketResponse()
        await ours.prepare(request)
        async with (
            aiohttp.ClientSession() as session,
            session.ws_connect(f"{self.upstream}/responses") as theirs,
        ):
            upwards = asyncio.create_task(self._upwards(ours, theirs))
            async for message in theirs:
                frame = self.fault.incoming(json.loads(message.data))
                if frame is None:
                    break
                await ours.send_json(frame)
            await ours.close()
            upwards.cancel()
        return ours

    async def _upwards(self, ours: web.WebSocketResponse, theirs: aiohttp.ClientWebSocketResponse) -> None:
        async for message in ours:
            text = str(message.data)
            body = _decoded(text.encode())
            if isinstance(body, dict):
                self.fault.outgoing(body)
                text = json.dumps(body)
            await theirs.send_str(text)
        await theirs.close()


def _decoded(body: bytes) -> JsonObject | bytes:
    try:
        value = json.loads(body)
    except ValueError:
        return body
    except RecursionError:
        return body
    return cast("JsonObject", value) if isinstance(value, dict) else body
