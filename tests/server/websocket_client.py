"""A WebSocket client in memory, over the real service on a scripted backend."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, cast

import msgspec

from antiphon.backends.scripted import ScriptedBackend
from antiphon.caller import Caller
from antiphon.documents.reader import DocumentReader
from antiphon.errors import Unauthorized
from antiphon.http.download import Downloader
from antiphon.http.egress import AllowPublic
from antiphon.isolated.pool import IsolatedPool
from antiphon.protocol.ids import IdSource
from antiphon.protocol.profile import OPENAI, Profile
from antiphon.server.lifetime import Lifetimes
from antiphon.server.start_queue import StartQueue
from antiphon.server.types import Message, Scope
from antiphon.server.websocket.connection import WebSocketLimits
from antiphon.server.websocket.endpoint import SocketClient, WebSocketEndpoint
from antiphon.service.checks import Checks
from antiphon.service.responses.create import response_services
from antiphon.service.responses.file_texts import FileTexts
from antiphon.service.routing.router import Route, Router
from antiphon.store.base import Continuation, HistoryRoom, StoredResponse, response_not_found
from antiphon.store.none import no_stores
from antiphon.store.ports import ResponseStore
from antiphon.turn.sealing import SealKey
from tests.service.conftest import files_of

JsonObject = dict[str, Any]
TERMINAL = {"response.completed", "response.incomplete", "response.failed"}
TEST_TIMEOUT_SECONDS = 20.0
"""Timeout of tests in seconds; it is reached only on failure."""


class FewResponses:
    """The part of a store that a socket needs; saved responses have no history here."""

    def __init__(self) -> None:
        self.saved: list[StoredResponse] = []

    async def check(self) -> None:
        pass

    async def save(self, _tenant: str, stored: StoredResponse) -> None:
        self.saved.append(stored)

    async def continuation(self, _tenant: str, response_id: str, _room: HistoryRoom) -> Continuation:
        raise response_not_found(response_id, "previous_response_id")


@dataclass
class World:
    """An endpoint on a scripted backend and a store."""

    backend: ScriptedBackend
    limits: WebSocketLimits = field(default_factory=WebSocketLimits)
    lifetimes: Lifetimes = field(default_factory=Lifetimes)
    store: FewResponses = field(default_factory=FewResponses)
    starts: StartQueue = field(default_factory=StartQueue)

    def __post_init__(self) -> None:
        numbers = count(1)
        ids = IdSource(lambda: 1000.0, lambda size: next(numbers).to_bytes(size, "big"))
        downloader = Downloader(AllowPublic(), 1000, 1.0)
        creator, _, _ = response_services(
            router=Router([Route("m", self.backend)], chance=lambda: 0.5),
            stores=replace(no_stores(), responses=cast("ResponseStore", self.store)),
            ids=ids,
            clock=lambda: 1000.0,
            seal_key=SealKey(b"secret", bytes),
            checks=Checks(IsolatedPool()),
            files=FileTexts(DocumentReader(IsolatedPool()), downloader, files_of(no_stores(), ids), 1000),
        )
        self.endpoint = WebSocketEndpoint(creator, self.lifetimes, self.starts, limits=self.limits)

    @asynccontextmanager
    async def connect(self, profile: Profile = OPENAI) -> "AsyncGenerator[Socket, None]":
        """An accepted socket; it is closed at the end."""
        socket = Socket(self.endpoint, profile)
        try:
            assert await socket.receive() == {
                "type": "websocket.accept",
                "headers": [(b"x-request-id", b"req_1")],
            }
            yield socket
        finally:
            await socket.leave()


class Socket:
    """One connection, from the client's side."""

    def __init__(self, endpoint: WebSocketEndpoint, profile: Profile = OPENAI) -> None:
        self._to_server: asyncio.Queue[Message] = asyncio.Queue()
        self._from_server: asyncio.Queue[Message] = asyncio.Queue()
        self.blocked: asyncio.Queue[Message] = asyncio.Queue()
        """Messages that the server sends while `readable` is not set."""
        self.readable = asyncio.Event()
        self.readable.set()
        scope: Scope = {
            "type": "websocket",
            "path": "/v1/responses",
            "headers": [(b"host", b"localhost:8080")],
            "extensions": {"websocket.http.response": {}},
        }
        self.key_ended = False
        self._to_server.put_nowait({"type": "websocket.connect"})
        self.task = asyncio.create_task(
            endpoint.serve(
                scope, self._to_server.get, self._send, SocketClient(self._admit, profile, "req_1", "tenant")
            )
        )

    def _admit(self) -> Caller:
        if self.key_ended:
            raise Unauthorized
        return Caller.of("tenant")

    async def _send(self, message: Message) -> None:
        if not self.readable.is_set():
            self.blocked.put_nowait(message)
            await self.readable.wait()
        if self.task.done():
            raise OSError("gone")
        self._from_server.put_nowait(message)

    async def receive(self) -> Message:
        """The next message of the server."""
        return await asyncio.wait_for(self._from_server.get(), TEST_TIMEOUT_SECONDS)

    async def frame(self) -> JsonObject:
        return msgspec.json.decode((await self.receive())["text"])

    async def answer(self, stream_id: str | None = None) -> list[JsonObject]:
        """All frames up to the end of one turn of this stream, without those of other streams."""
        frames: list[JsonObject] = []
        while not frames or (frames[-1]["type"] not in TERMINAL and "status" not in frames[-1]):
            frame = await self.frame()
            if frame.get("stream_id") == stream_id:
                frames.append(frame)
        return frames

    async def error(self) -> JsonObject:
        """The next frame, which is an error that belongs to no response."""
        frame = await self.frame()
        assert frame["type"] == "error"
        assert "sequence_number" not in frame
        return frame

    def create(self, **params: object) -> None:
        """Send `response.create`."""
        self.send_frame({"type": "response.create", "model": "m", "input": "hi", "store": False, **params})

    def send_frame(self, frame: object) -> None:
        text = frame if isinstance(frame, str) else msgspec.json.encode(frame).decode()
        self._to_server.put_nowait({"type": "websocket.receive", "text": text})

    def send_bytes(self, data: bytes) -> None:
        self._to_server.put_nowait({"type": "websocket.receive", "bytes": data})

    async def respond(self, **params: object) -> JsonObject:
        """Send `response.create` and return the terminal event or the error."""
        self.create(**params)
        stream_id = params.get("stream_id")
        return (await self.answer(cast("str | None", stream_id)))[-1]

    async def leave(self) -> None:
        """Close the connection and wait until the server has noticed."""
        self._to_server.put_nowait({"type": "websocket.disconnect", "code": 1005})
        await asyncio.wait_for(self.task, TEST_TIMEOUT_SECONDS)


def id_of(terminal: JsonObject) -> str:
    assert terminal["type"] in TERMINAL, terminal
    return terminal["response"]["id"]
