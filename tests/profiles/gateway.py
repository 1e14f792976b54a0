"""A gateway from its clients' side: the complete application in memory, called over HTTP."""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import httpx2
import msgspec

from antiphon import Route, ScriptedBackend
from antiphon.backends.chat_completions.request import build_payload
from antiphon.backends.chat_completions.stream import StreamReader
from antiphon.backends.registry import Quirks, default_endpoint
from antiphon.protocol.response import InputTokensDetails, OutputTokensDetails, Usage
from antiphon.server.app import App
from antiphon.server.memory import memory_client
from antiphon.server.types import Message
from antiphon.settings import (
    ProfileName,
    ProfileSettings,
    SealSettings,
    ServerSettings,
    Settings,
    StoreSettings,
    TextCalls,
)
from antiphon.turn.chunks import CallDelta, CallStarted, Chunk, Finished
from antiphon.turn.context import TurnRequest
from antiphon.wiring import build_app

JsonObject = dict[str, Any]

HEADER = "x-antiphon-profile"
USAGE = Usage(7, InputTokensDetails(2), 5, OutputTokensDetails(1), 12)
LOOK: JsonObject = {
    "type": "function",
    "name": "look",
    "description": "Looks at a place.",
    "parameters": {"type": "object", "properties": {"at": {"type": "string"}}, "required": ["at"]},
}
LISTEN: JsonObject = {
    "type": "function",
    "name": "listen",
    "parameters": {"type": "object", "properties": {}},
}


class Block(NamedTuple):
    """One server-sent event on the wire."""

    name: str | None
    data: str


class CompletedStream(NamedTuple):
    """A complete stream."""

    blocks: list[Block]
    headers: Mapping[str, str]

    @property
    def events(self) -> list[JsonObject]:
        """All events except the end marker."""
        return [msgspec.json.decode(block.data) for block in self.blocks if block.data != "[DONE]"]

    @property
    def kinds(self) -> list[str]:
        return [event["type"].removeprefix("response.") for event in self.events]

    @property
    def final(self) -> JsonObject:
        """The response of the last event."""
        return self.events[-1]["response"]

    def of(self, *kinds: str) -> list[JsonObject]:
        """The events of these types."""
        return [event for event in self.events if event["type"].removeprefix("response.") in kinds]


class Gateway:
    """A client, and the server's model."""

    def __init__(self, client: httpx2.AsyncClient, backend: ScriptedBackend) -> None:
        self.client = client
        self.backend = backend

    @property
    def turn(self) -> TurnRequest:
        """The last turn that the model received."""
        return self.backend.turns[-1]

    @property
    def chat_body(self) -> JsonObject:
        """The chat-completions body for that turn."""
        return build_payload(self.turn, Quirks()).body

    @property
    def messages(self) -> list[JsonObject]:
        return self.chat_body["messages"]

    async def send(self, body: Any, profile: str | None = None) -> httpx2.Response:
        """Send this body unchanged."""
        headers = {} if profile is None else {HEADER: profile}
        return await self.client.post("/v1/responses", json=body, headers=headers)

    async def post(self, **members: Any) -> httpx2.Response:
        """Send a minimal request with these members."""
        return await self.send({"model": "m", "input": "hi", **members})

    async def answer(self, **members: Any) -> JsonObject:
        """The response object of a successful request."""
        reply = await self.post(**members)
        assert reply.status_code == 200, reply.text
        return reply.json()

    async def refusal(self, **members: Any) -> tuple[int, JsonObject]:
        """Status and error object of a failed request."""
        return refusal_of(await self.post(**members))

    async def stream(self, **members: Any) -> CompletedStream:
        """Send a streaming request and read the stream to its end."""
        return await self.stream_of({"model": "m", "input": "hi", "stream": True, **members})

    async def stream_of(self, body: JsonObject, profile: str | None = None) -> CompletedStream:
        reply = await self.send(body, profile)
        assert reply.status_code == 200, reply.text
        assert reply.headers["content-type"].startswith("text/event-stream")
        return CompletedStream(read_blocks(reply.text), reply.headers)


def refusal_of(reply: httpx2.Response) -> tuple[int, JsonObject]:
    error = reply.json()["error"]
    assert {"message", "type", "param", "code"} <= set(error)
    return reply.status_code, error


def read_blocks(text: str) -> list[Block]:
    """Parse server-sent events line by line; every block must be closed by a blank line."""
    assert text.endswith("\n\n")
    blocks: list[Block] = []
    for raw in text[:-2].split("\n\n"):
        fields = [line.partition(": ") for line in raw.split("\n") if not line.startswith(":")]
        names = [value for field, _, value in fields if field == "event"]
        data = [value for field, _, value in fields if field == "data"]
        assert len(names) <= 1
        if data:
            blocks.append(Block(names[0] if names else None, "\n".join(data)))
    return blocks


@asynccontextmanager
async def gateway(
    profile: ProfileName,
    *script: Chunk | ScriptedBackend,
    text_calls: TextCalls | None = None,
    models: Sequence[str] = ("m",),
    **choices: Any,
) -> AsyncGenerator[Gateway, None]:
    """A server with `profile`; its model plays `script`. `choices` are the operator's."""
    backend = script[0] if script and isinstance(script[0], ScriptedBackend) else _scripted(script)
    settings = Settings(
        server=ServerSettings(profile=profile),
        profiles={profile: ProfileSettings(**choices)} if choices else {},
        store=StoreSettings(url="memory:"),
        seal=SealSettings(key="test"),
    )
    options: JsonObject = {} if text_calls is None else {"text_calls": text_calls}
    routes = [Route(model, backend, **options) for model in models]
    async with running(build_app(settings, routes=routes)) as app, memory_client(app) as client:
        yield Gateway(client, backend)


def _scripted(script: Sequence[Any]) -> ScriptedBackend:
    """One batch per chunk: the result must not depend on the batching."""
    return ScriptedBackend([[chunk] for chunk in script]) if script else ScriptedBackend.saying("Hel", "lo")


@asynccontextmanager
async def running(app: App) -> AsyncGenerator[App, None]:
    """The application between its startup and its shutdown, as a server drives it."""
    started, leave = asyncio.Event(), asyncio.Event()
    sent: list[Message] = []
    lifespan_messages = iter(["startup", "shutdown"])

    async def receive() -> Message:
        kind = next(lifespan_messages)
        if kind == "shutdown":
            await leave.wait()
        return {"type": f"lifespan.{kind}"}

    async def send(message: Message) -> None:
        sent.append(message)
        started.set()

    life = asyncio.create_task(app({"type": "lifespan"}, receive, send))
    await started.wait()
    assert sent[0]["type"] == "lifespan.startup.complete", sent
    try:
        yield app
    finally:
        leave.set()
        await life


def call(index: int, *pieces: str, call_id: str | None = None, name: str = "look") -> list[Chunk]:
    """A call whose arguments arrive in these pieces."""
    id_given = f"call_{index}" if call_id is None else call_id
    return [CallStarted(index, id_given, name), *(CallDelta(index, piece) for piece in pieces)]


def two_calls(index: int = 0) -> list[Chunk]:
    """Two complete calls in sequence, and the end of the turn."""
    return [
        *call(index, '{"at":', '"sea"}'),
        *call(index + 1, "{}", name="listen"),
        Finished("tool_calls"),
    ]


def read_message(message: JsonObject, reason: str = "tool_calls", **members: Any) -> list[Chunk]:
    """The chunks for a complete chat-completions message."""
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": reason}
    body = msgspec.json.encode({"id": "c", "object": "chat.completion", "choices": [choice], **members})
    return StreamReader(default_endpoint("plain")).read_body(body)


def read_deltas(*deltas: JsonObject, reason: str = "tool_calls", **members: Any) -> list[Chunk]:
    """The chunks for the deltas of a chat-completions stream."""
    choices: list[JsonObject] = [
        *({"index": 0, "delta": delta, "finish_reason": None} for delta in deltas),
        {"index": 0, "delta": {}, "finish_reason": reason},
    ]
    payloads = [
        msgspec.json.encode({"id": "c", "object": "chat.completion.chunk", "choices": [choice]})
        for choice in choices
    ]
    if members:
        last: JsonObject = {"id": "c", "object": "chat.completion.chunk", "choices": [], **members}
        payloads.append(msgspec.json.encode(last))
    reader = StreamReader(default_endpoint("plain"))
    return [*reader.feed(payloads), *reader.end([b"[DONE]"])]


def text_of(item: JsonObject) -> str:
    """The text of a message."""
    return "".join(part.get("text", "") for part in item["content"])
