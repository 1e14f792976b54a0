"""Clients that read their answers slowly or not at all, on real sockets, with a real upstream that floods."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from antiphon.server import http_protocol
from antiphon.server.http_protocol import HttpProtocol
from antiphon.settings import ModelRow, UpstreamSettings, load_settings
from antiphon.wiring import build_app
from tests.flooding_upstream import FloodingUpstream, run_flooding_upstream
from tests.uvicorn_here import Here, serve_here

TIMEOUT_SECONDS = 30.0
MAX_BUFFERED_BYTES = 1024 * 1024
PATHS = ("/v1/responses", "/v1/chat/completions", "/v1/messages")


@pytest.fixture(scope="module")
def upstream() -> Generator[FloodingUpstream, None, None]:
    with run_flooding_upstream() as running:
        yield running


@pytest.fixture
def short_times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_protocol, "SEND_TIMEOUT_SECONDS", 0.4)
    monkeypatch.setattr(http_protocol, "CHECK_SECONDS", 0.05)


@asynccontextmanager
async def serving(
    upstream: FloodingUpstream, *, answers: dict[str, object] | None = None, **upstream_settings: Any
) -> AsyncGenerator[Here, None]:
    """The whole server on this upstream, which answers one request at a time."""
    overrides: dict[str, dict[str, object]] = {"store": {"url": "memory:"}, "answers": answers or {}}
    models = (ModelRow("*", max_concurrent=1, queue_timeout=TIMEOUT_SECONDS),)
    row = UpstreamSettings(base_url=upstream.url, models=models, **upstream_settings)
    settings = load_settings(environment={}, overrides=overrides, upstreams=(row,))
    async with serve_here(lambda: build_app(settings)) as here:
        yield here


def request(path: str, body: dict[str, Any] | None = None, method: str = "POST") -> bytes:
    payload = b"" if body is None else json.dumps(body).encode()
    head = (
        f"{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        f"content-length: {len(payload)}\r\n\r\n"
    )
    return head.encode() + payload


def question(path: str, model: str, *, stream: bool = True) -> bytes:
    body: dict[str, Any] = {"model": model, "stream": stream}
    if path == "/v1/responses":
        body["input"] = "hi"
    else:
        body |= {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 100}
    return request(path, body)


@dataclass
class Client:
    """A connection whose owner decides when to read."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def is_closed_by_server(self) -> bool:
        try:
            while await self.reader.read(2**16):
                pass
        except ConnectionError:
            pass
        return True


@asynccontextmanager
async def connected(here: Here, sent: bytes) -> AsyncGenerator[Client, None]:
    """Send this, with small buffers, and read nothing."""
    reader, writer = await asyncio.open_connection("127.0.0.1", here.port, limit=1024)
    writer.write(sent)
    try:
        yield Client(reader, writer)
    finally:
        writer.transport.abort()


async def ask(here: Here, sent: bytes) -> tuple[int, Any]:
    """A complete JSON answer."""
    async with connected(here, sent) as client, asyncio.timeout(TIMEOUT_SECONDS):
        head = await client.reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        return int(head.split()[1]), json.loads(await client.reader.readexactly(length))


def protocols(here: Here) -> list[HttpProtocol]:
    return [each for each in here.server.server_state.connections if isinstance(each, HttpProtocol)]


async def until(done: Callable[[], bool]) -> None:
    async with asyncio.timeout(TIMEOUT_SECONDS):
        while not await asyncio.to_thread(done):  # noqa: ASYNC110 -- conditions of other processes
            await asyncio.sleep(0.02)


async def highest_buffer_until_closed(here: Here) -> int:
    """The most that was buffered for one client until all are disconnected."""
    highest = 0
    async with asyncio.timeout(TIMEOUT_SECONDS):
        while open_connections := protocols(here):
            buffered = [each.transport.get_write_buffer_size() for each in open_connections]
            highest = max(highest, *buffered)
            await asyncio.sleep(0.002)
    return highest


@pytest.mark.usefixtures("short_times")
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("model", ["text", "large"])
async def test_a_client_that_does_not_read_is_disconnected_and_frees_its_place(
    upstream: FloodingUpstream, path: str, model: str
) -> None:
    async with serving(upstream) as here:
        async with connected(here, question(path, model)) as client:
            await until(lambda: upstream.open_answers() == 1)
            assert 0 < await highest_buffer_until_closed(here) < MAX_BUFFERED_BYTES
            await until(lambda: upstream.open_answers() == 0)
            assert await client.is_closed_by_server()
        status, answer = await ask(here, question("/v1/responses", "text-5", stream=False))
        assert (status, answer["status"]) == (200, "completed")


@pytest.mark.usefixtures("short_times")
@pytest.mark.parametrize("path", PATHS)
async def test_a_large_json_answer_is_not_buffered_as_a_whole(upstream: FloodingUpstream, path: str) -> None:
    async with serving(upstream) as here, connected(here, question(path, "text-20000000", stream=False)):
        await until(
            lambda: bool(protocols(here)) and protocols(here)[0].transport.get_write_buffer_size() > 0
        )
        assert await highest_buffer_until_closed(here) < MAX_BUFFERED_BYTES


@pytest.mark.usefixtures("short_times")
async def test_a_follower_that_does_not_read_is_dropped_and_the_run_goes_on(
    upstream: FloodingUpstream,
) -> None:
    async with serving(upstream) as here:
        body = {"model": "text-150000", "input": "hi", "background": True}
        _, response = await ask(here, request("/v1/responses", body))
        path = f"/v1/responses/{response['id']}"
        async with (
            connected(here, request(f"{path}?stream=true", method="GET")) as reads_nothing,
            connected(here, request(f"{path}?stream=true", method="GET")) as also_nothing,
        ):
            await until(lambda: any(each.transport.get_write_buffer_size() > 0 for each in protocols(here)))
            assert await highest_buffer_until_closed(here) < 2 * MAX_BUFFERED_BYTES
            assert await reads_nothing.is_closed_by_server()
            assert await also_nothing.is_closed_by_server()
        async with asyncio.timeout(TIMEOUT_SECONDS):
            while response["status"] in ("queued", "in_progress"):
                _, response = await ask(here, request(path, method="GET"))
                await asyncio.sleep(0.05)
        assert response["status"] == "completed"
        assert len(response["output"][0]["content"][0]["text"]) == 150_000


@pytest.mark.parametrize("path", PATHS)
async def test_the_total_time_of_an_answer_holds_for_a_client_that_reads_slowly(
    upstream: FloodingUpstream, path: str
) -> None:
    async with (
        serving(upstream, total_timeout=1.5) as here,
        connected(here, question(path, "large")) as client,
    ):
        reading = asyncio.create_task(_trickle(client))
        await until(lambda: upstream.open_answers() == 1)
        await until(lambda: upstream.open_answers() == 0)
        assert not reading.done()
        status, answer = await ask(here, question("/v1/responses", "text-5", stream=False))
        assert (status, answer["status"]) == (200, "completed")
        reading.cancel()


def assert_contiguous(received: bytes) -> None:
    """Every event is complete, and no number is missing."""
    body, rest = b"", received.partition(b"\r\n\r\n")[2]
    while rest:
        size, _, rest = rest.partition(b"\r\n")
        body, rest = body + rest[: int(size, 16)], rest[int(size, 16) + 2 :]
    lines = [line[6:] for line in body.split(b"\n") if line.startswith(b"data: ") and line != b"data: [DONE]"]
    numbers = [json.loads(line)["sequence_number"] for line in lines]
    assert numbers == list(range(len(numbers)))


async def test_a_client_that_reads_again_learns_that_the_time_has_passed(upstream: FloodingUpstream) -> None:
    async with (
        serving(upstream, total_timeout=1.0) as here,
        connected(here, question("/v1/responses", "large")) as client,
    ):
        await until(lambda: upstream.open_answers() == 1)
        await until(lambda: upstream.open_answers() == 0)
        received = b""
        async with asyncio.timeout(TIMEOUT_SECONDS):
            while not received.endswith(b"0\r\n\r\n"):
                received = (received + await client.reader.read(2**20))[-20_000_000:]
        assert b"took longer than 1 s" in received
        assert b"event: response.failed" in received
        assert_contiguous(received)


async def _trickle(client: Client) -> None:
    while await client.reader.read(100):  # noqa: ASYNC110 -- it reads slowly on purpose
        await asyncio.sleep(0.01)
