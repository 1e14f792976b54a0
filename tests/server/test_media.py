"""Bodies of any media type: received without a buffer, sent in one piece or streamed."""

import asyncio
import hashlib
import tracemalloc
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import ClassVar, cast

import httpx2
import pytest

from antiphon.caller import OPERATOR
from antiphon.errors import BackendBroken, BodyTimeout, BodyTooLarge, UnsupportedMedia
from antiphon.orchestrator.agent import AgentServices
from antiphon.server.app import App, Served
from antiphon.server.exchange import Exchange
from antiphon.server.guard import Head
from antiphon.server.lifetime import ClientGone
from antiphon.server.routing import Route, RouteTable
from antiphon.server.types import Message
from antiphon.service.services import Services
from tests.server.conftest import options
from tests.server.test_body import exchange, piece
from tests.uvicorn_here import serve_here

MEGABYTE = 1024 * 1024
LIMIT = 80 * MEGABYTE


class MediaRoutes:
    """Test routes that read and send bodies of any media type."""

    async def digest(self, exchange: Exchange) -> None:
        seen, size = hashlib.sha256(), 0
        async for part in exchange.stream_body(LIMIT, 60):
            seen.update(part)
            size += len(part)
        assert exchange.caller is OPERATOR
        await exchange.send_media(f"{size} {seen.hexdigest()}".encode(), "text/plain; charset=utf-8", 201)

    async def pieces(self, exchange: Exchange) -> None:
        query = exchange.query()
        await exchange.send_media(
            numbers(broken=query.flag("broken")),
            "application/octet-stream",
            headers=((b"x-extra", b"yes"),),
            length=query.number("length", least=0),
        )

    ROUTES: ClassVar = (Route("POST /digest", digest), Route("GET /pieces", pieces))


async def numbers(*, broken: bool) -> AsyncIterator[bytes]:
    for number in range(4):
        await asyncio.sleep(0)
        yield b"%d" % number
        if broken and number == 1:
            raise BackendBroken("gone")


class MediaApp(App):
    """Serves only the test routes."""

    def mount(self, services: Services, agents: AgentServices | None = None) -> None:
        self.routes = RouteTable([MediaRoutes()])


@asynccontextmanager
async def serving() -> AsyncGenerator[httpx2.AsyncClient, None]:
    @asynccontextmanager
    async def no_services() -> AsyncGenerator[Served, None]:
        yield Served(cast("Services", None))

    async with (
        serve_here(lambda: MediaApp(no_services, lambda: "req_1", options())) as here,
        httpx2.AsyncClient(base_url=f"http://127.0.0.1:{here.port}") as client,
    ):
        yield client


async def test_64_megabytes_are_streamed_through_in_bounded_memory() -> None:
    block = bytes(range(256)) * 4096

    async def upload() -> AsyncIterator[bytes]:
        for _ in range(64):
            yield block

    seen = hashlib.sha256()
    for _ in range(64):
        seen.update(block)
    async with serving() as client:
        await client.post("/digest", content=b"warm")
        tracemalloc.start()
        try:
            answer = await client.post("/digest", content=upload())
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert answer.status_code == 201
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert answer.headers["content-length"] == str(len(answer.content))
    assert answer.text == f"{64 * MEGABYTE} {seen.hexdigest()}"
    assert peak < 8 * MEGABYTE


async def test_a_body_is_passed_on_piece_by_piece() -> None:
    request = exchange([piece(b"a"), piece(b""), piece(b"b"), piece(b"c", more=False)])
    assert [part async for part in request.stream_body(10, 5)] == [b"a", b"b", b"c"]


@pytest.mark.parametrize(
    ("messages", "head", "error"),
    [
        ([piece(b"x" * 6), piece(b"x" * 6)], Head(), BodyTooLarge),
        ([], Head(content_length=b"11"), BodyTooLarge),
        ([], Head(content_encoding=b"gzip"), UnsupportedMedia),
        ([piece(b"a"), {"type": "http.disconnect"}], Head(), ClientGone),
        ([piece(b"a")], Head(), BodyTimeout),
    ],
)
async def test_a_streamed_body_is_read_within_limits(
    messages: Sequence[Message], head: Head, error: type[Exception]
) -> None:
    request = exchange(messages)
    request.head = head
    with pytest.raises(error):
        async for _ in request.stream_body(10, 0.01):
            pass


async def test_the_deadline_is_that_of_the_complete_body() -> None:
    """A client that sends a byte now and then does not hold the connection for ever."""

    async def receive() -> Message:
        await asyncio.sleep(0.02)
        return piece(b"x")

    request = exchange([])
    request.receive = receive
    with pytest.raises(BodyTimeout):
        async with asyncio.timeout(5):
            async for _ in request.stream_body(1000, 0.1):
                pass


async def test_with_a_minimum_rate_what_arrives_extends_the_deadline() -> None:
    arrived = 0

    async def receive() -> Message:
        nonlocal arrived
        arrived += 1
        if arrived > 10:
            await asyncio.sleep(60)
        await asyncio.sleep(0.02)
        return piece(b"x" * 100)

    request = exchange([])
    request.receive = receive
    with pytest.raises(BodyTimeout):
        async with asyncio.timeout(5):
            async for _ in request.stream_body(10_000, 0.1, 1000):
                pass
    assert arrived == 11, "1,000 bytes at 1,000 bytes per second are a second more"


@pytest.mark.parametrize("length", [None, 4])
async def test_a_body_is_streamed_as_it_is_produced(length: int | None) -> None:
    async with serving() as client:
        answer = await client.get("/pieces" if length is None else f"/pieces?length={length}")
    assert (answer.status_code, answer.content) == (200, b"0123")
    assert answer.headers.get("content-length") == (None if length is None else "4")
    assert answer.headers["content-type"] == "application/octet-stream"
    assert (answer.headers["x-extra"], answer.headers["x-request-id"]) == ("yes", "req_1")


@pytest.mark.parametrize("query", ["broken=true", "broken=true&length=4"])
async def test_a_truncated_body_is_not_taken_for_complete(query: str) -> None:
    async with serving() as client:
        with pytest.raises(httpx2.RemoteProtocolError):
            await client.get(f"/pieces?{query}")
