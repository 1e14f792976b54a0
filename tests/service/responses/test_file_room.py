"""The files of all requests together: how many bytes are read, and sent along, at the same time."""

import asyncio
import base64
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest

from antiphon.documents.document import Document, Section, first_part
from antiphon.documents.reader import MAX_TEXT_AT_ONCE_BYTES, DocumentReader
from antiphon.errors import Overloaded
from antiphon.isolated.pool import IsolatedPool
from antiphon.server.memory import memory_client
from antiphon.service.responses.file_room import SMALL_BYTES, ReadingRoom, SentContent
from antiphon.settings import (
    DocumentSettings,
    SealSettings,
    ServerSettings,
    Settings,
    StoreSettings,
    UpstreamSettings,
)
from antiphon.wiring import build_app, open_services
from tests.upstream import run_upstream

UNIT = SMALL_BYTES * 2
PICTURE = b"\x89PNG\r\n\x1a\n" + b"x" * 100_000


class Readers:
    """Starts readers of files, and sees which ones have room."""

    def __init__(self, units: int) -> None:
        self.room = ReadingRoom(units * UNIT)
        self.reading: list[str] = []
        self._ends: dict[str, asyncio.Event] = {}
        self.tasks: dict[str, asyncio.Task[None]] = {}

    async def start(self, name: str, tenant: str, units: float) -> None:
        self._ends[name] = asyncio.Event()
        self.tasks[name] = asyncio.create_task(self._read(name, tenant, int(units * UNIT)))
        await asyncio.sleep(0)

    async def _read(self, name: str, tenant: str, size: int) -> None:
        async with self.room.taken(tenant, size):
            self.reading.append(name)
            await self._ends[name].wait()
        self.reading.remove(name)

    async def end(self, *names: str) -> None:
        for name in names:
            self._ends[name].set()
            await asyncio.sleep(0)
            await asyncio.sleep(0)


async def test_the_files_of_one_tenant_wait_for_its_share() -> None:
    readers = Readers(8)
    for name in ("a1", "a2", "a3"):
        await readers.start(name, "a", 1)
    await readers.start("b1", "b", 1)
    await readers.start("small", "a", 0.5)
    assert readers.reading == ["a1", "a2", "b1", "small"]
    await readers.end("a1")
    assert readers.reading == ["a2", "b1", "small", "a3"]
    await readers.end("a2", "a3", "b1", "small")


async def test_a_file_larger_than_the_share_is_read_alone() -> None:
    readers = Readers(8)
    await readers.start("a1", "a", 7)
    await readers.start("a2", "a", 1)
    assert readers.reading == ["a1"]
    await readers.end("a1")
    assert readers.reading == ["a2"]
    await readers.end("a2")


async def test_small_files_do_not_go_before_a_large_one_for_ever() -> None:
    readers = Readers(8)
    await readers.start("a1", "a", 6)
    await readers.start("b1", "b", 6)
    await readers.start("c1", "c", 1)
    assert readers.reading == ["a1"]
    await readers.end("a1")
    assert readers.reading == ["b1", "c1"]
    await readers.end("b1", "c1")


async def test_a_reader_that_is_cancelled_leaves_its_room() -> None:
    readers = Readers(8)
    await readers.start("a1", "a", 8)
    await readers.start("a2", "a", 8)
    await readers.start("a3", "a", 8)
    readers.tasks["a2"].cancel()
    await asyncio.sleep(0)
    await readers.end("a1")
    assert readers.reading == ["a3"]
    readers.tasks["a3"].cancel()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    await readers.start("a4", "a", 8)
    assert "a4" in readers.reading
    await readers.end("a4")


async def test_readers_that_are_cancelled_together_leave_nothing_behind() -> None:
    readers = Readers(8)
    for name in ("a1", "a2", "a3"):
        await readers.start(name, "a", 8)
    for task in readers.tasks.values():
        task.cancel()
    await asyncio.gather(*readers.tasks.values(), return_exceptions=True)
    await readers.start("a4", "a", 2)
    await readers.start("a5", "a", 1)
    assert readers.reading[-1] == "a4", "a quarter of the room is the tenant's"
    await readers.end("a4", "a5")


def test_a_tenant_sends_half_of_the_files_of_all() -> None:
    sent = SentContent(100)
    first, second = sent.hold("a"), sent.hold("a")
    first.add(40)
    with pytest.raises(Overloaded):
        second.add(20)
    sent.hold("b").add(50)
    second.add(10)
    with pytest.raises(Overloaded):
        sent.hold("c").add(1)
    first.release()
    first.release()
    second.add(40)


def test_the_only_turn_of_a_tenant_may_send_more_than_its_half() -> None:
    sent = SentContent(100)
    first, second = sent.hold("a"), sent.hold("a")
    first.add(40)
    first.add(40)  # its own bytes do not count as those of another one
    with pytest.raises(Overloaded):
        second.add(1)
    with pytest.raises(Overloaded):
        first.add(21)
    sent.hold("b").add(20)
    first.release()
    second.add(80)


class Pictured:
    """A client of a server whose model takes pictures by their content only, with a picture."""

    def __init__(self, client: httpx2.AsyncClient, file_id: str) -> None:
        self._client = client
        self.picture = {"type": "input_image", "file_id": file_id}

    async def ask(self, *parts: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        body = {"model": "echo", "input": [{"role": "user", "content": [*parts]}]}
        answer = await self._client.post("/v1/responses", json=body)
        return answer.status_code, answer.json()


@asynccontextmanager
async def pictured(max_held_bytes: int, **fields: Any) -> AsyncGenerator[Pictured, None]:
    with run_upstream() as upstream:
        row = UpstreamSettings(kind="plain", base_url=upstream.url, api_key="key", models=("echo",))
        settings = Settings(
            seal=SealSettings(key="test"),
            store=StoreSettings(url="memory:"),
            upstreams=(row,),
            server=ServerSettings(max_held_bytes=max_held_bytes),
            **fields,
        )
        app = build_app(settings)
        async with open_services(settings) as services:
            app.mount(services)
            async with memory_client(app) as client:
                form = {"purpose": (None, "vision"), "file": ("a.png", PICTURE)}
                file = await client.post("/v1/files", files=form)
                yield Pictured(client, file.json()["id"])


async def test_files_that_are_sent_along_are_held_for_a_turn() -> None:
    async with pictured(1_000_000) as server:
        picture = server.picture
        for _ in range(5):
            assert (await server.ask(picture))[0] == 200
        assert (await server.ask(picture, picture))[0] == 200, "more than half, but the tenant's only turn"
        status, body = await server.ask(*[picture] * 4)
        assert (status, "being sent to models" in body["error"]["message"]) == (503, True)
        status, _ = await server.ask({"type": "input_file", "file_id": "file-unknown"}, picture)
        assert 400 <= status < 500
        assert (await server.ask(picture))[0] == 200


async def test_no_more_text_is_read_than_a_model_may_be_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[Document] = []
    original = DocumentReader.read

    async def reading(reader: DocumentReader, tenant: str, data: bytes, *wanted: Any) -> Document:
        found.append(await original(reader, tenant, data, *wanted))
        return found[-1]

    monkeypatch.setattr(DocumentReader, "read", reading)
    data = base64.b64encode(b"word " * MAX_TEXT_AT_ONCE_BYTES).decode()
    async with pictured(10_000_000, documents=DocumentSettings(max_tokens=100)) as server:
        _, body = await server.ask({"type": "input_file", "filename": "a.txt", "file_data": data})
    assert [len(document.text) for document in found] == [401]
    assert any("is cut" in downgrade for downgrade in body["downgrades"])


async def test_the_child_sends_the_wanted_part_only() -> None:
    pool = IsolatedPool()
    document = await DocumentReader(pool).read("t", b"word " * MAX_TEXT_AT_ONCE_BYTES, "a.txt", 1000)
    await pool.aclose()
    assert document.text == "word " * 200


def test_the_first_part_of_a_document_keeps_whole_sections() -> None:
    document = Document("pdf", (Section("abc", "page 1"), Section("def", "page 2"), Section("g", "page 3")))
    assert first_part(document, 7) is document
    assert first_part(document, 5).sections == (Section("abc", "page 1"), Section("de", "page 2"))
