"""Files on a server that takes none: their text is sent, within a budget, and reported."""

import asyncio
import base64
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import openai
import pytest
from aiohttp import web
from langchain_core.messages import HumanMessage
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from antiphon import Antiphon, Settings
from antiphon.documents.document import Document, Section
from antiphon.documents.reader import DocumentReader
from antiphon.errors import InvalidRequest, Overloaded
from antiphon.protocol.response import Response
from antiphon.server.memory import memory_client
from antiphon.service.responses import file_texts
from antiphon.service.responses.file_room import HeldContent
from antiphon.service.responses.file_texts import MAX_FILES_AT_ONCE, SENT_COPIES
from antiphon.settings import (
    DocumentSettings,
    EgressSettings,
    SealSettings,
    StoreSettings,
    UpstreamSettings,
)
from antiphon.wiring import build_app, open_services
from tests.documents.files import SAMPLES, docx_file, scanned_pdf
from tests.documents.pdf_file import pdf_file
from tests.upstream import Upstream, run_upstream

PDF = pdf_file("The tap was fixed.", "It cost 3 euros.")
PDF_TEXT = "[FILE a.pdf]\n\n[page 1]\nThe tap was fixed.\n\n[page 2]\nIt cost 3 euros.\n\n[END OF FILE]"
Part = dict[str, Any]


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    with run_upstream() as server:
        yield server


def settings(upstream: Upstream, kind: str = "plain", **fields: Any) -> Settings:
    row = UpstreamSettings(kind=kind, base_url=upstream.url, api_key="key", models=("echo",))
    return Settings(
        seal=SealSettings(key="test"), store=StoreSettings(url="memory:"), upstreams=(row,), **fields
    )


def data_url(data: bytes, media: str = "application/pdf") -> str:
    return f"data:{media};base64,{base64.b64encode(data).decode()}"


def file(data: bytes, name: str = "a.pdf", **members: Any) -> Part:
    return {"type": "input_file", "filename": name, "file_data": data_url(data), **members}


async def ask(antiphon: Antiphon, *parts: Part, **fields: Any) -> Response:
    content = [{"type": "input_text", "text": "Look:"}, *parts]
    return await antiphon.create(model="echo", input=[{"role": "user", "content": content}], **fields)


def seen(upstream: Upstream) -> str:
    """The last user message that the upstream received."""
    content = upstream.requests[-1]["messages"][-1]["content"]
    assert isinstance(content, str)
    return content


def downgrades(response: Response) -> list[str]:
    return list(response.downgrades or ())


@pytest.mark.requirement("DOCUMENTS/input-text-of-files")
async def test_the_text_of_a_file_is_sent_and_reported(upstream: Upstream) -> None:
    async with Antiphon(settings(upstream)) as antiphon:
        response = await ask(antiphon, file(PDF))
    assert seen(upstream) == f"Look:\n{PDF_TEXT}"
    assert downgrades(response) == [
        "input: 'a.pdf' is sent as text, because this model's server does not take such files"
    ]


@pytest.mark.requirement("DOCUMENTS/input-text-of-files")
@pytest.mark.parametrize("name", SAMPLES)
async def test_every_type_is_sent_as_text(upstream: Upstream, name: str) -> None:
    async with Antiphon(settings(upstream)) as antiphon:
        await ask(antiphon, file(SAMPLES[name], name))
    assert seen(upstream).startswith(f"Look:\n[FILE {name}]\n\n")
    assert seen(upstream).endswith("[END OF FILE]")


@pytest.mark.parametrize("given", [base64.b64encode(PDF).decode(), base64.encodebytes(PDF).decode()])
async def test_base64_without_a_data_url_is_taken(upstream: Upstream, given: str) -> None:
    async with Antiphon(settings(upstream)) as antiphon:
        await ask(antiphon, {"type": "input_file", "filename": "a.pdf", "file_data": given})
    assert PDF_TEXT in seen(upstream)


async def test_a_large_file_is_decoded_in_slices(upstream: Upstream) -> None:
    text = "words of a long letter\n" * 100_000
    async with Antiphon(settings(upstream)) as antiphon:
        response = await ask(antiphon, file(text.encode(), "a.txt"))
    assert len(seen(upstream)) == pytest.approx(32_000 * 4, abs=100)
    assert downgrades(response)[-1] == (
        "input: 'a.txt' is cut: its text exceeds the room for files (documents.max_tokens)"
    )


@pytest.mark.requirement("DOCUMENTS/input-budget")
async def test_the_newest_files_have_precedence_within_the_budget(upstream: Upstream) -> None:
    chosen = settings(upstream, documents=DocumentSettings(max_tokens=25))
    async with Antiphon(chosen) as antiphon:
        response = await ask(antiphon, *(file(f"{n} ".encode() * 60, f"{n}.txt") for n in (1, 2, 3)))
    assert "[FILE 1.txt: left out]" in seen(upstream)
    assert seen(upstream).count("3 ") > 40
    assert any("'3.txt' is cut" in line for line in downgrades(response))
    assert any("'1.txt' is left out" in line for line in downgrades(response))


async def test_the_conversation_continues_with_the_text(
    upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    original = DocumentReader.read

    async def reading(reader: DocumentReader, tenant: str, data: bytes, *wanted: Any) -> Any:
        read.append(wanted[0])
        return await original(reader, tenant, data, *wanted)

    monkeypatch.setattr(DocumentReader, "read", reading)
    async with Antiphon(settings(upstream)) as antiphon:
        first = await ask(antiphon, file(PDF))
        await antiphon.create(model="echo", input="And?", previous_response_id=first.id)
    assert PDF_TEXT in upstream.requests[-1]["messages"][0]["content"]
    assert read == ["a.pdf"], "the text is remembered"


async def test_a_tenant_has_few_files_in_memory_at_a_time(
    upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading = most = 0

    async def slow(_reader: DocumentReader, _tenant: str, data: bytes, *_wanted: Any) -> Document:
        nonlocal reading, most
        reading += 1
        most = max(most, reading)
        await asyncio.sleep(0.02)
        reading -= 1
        return Document("text", (Section(data.decode()),))

    monkeypatch.setattr(DocumentReader, "read", slow)
    async with Antiphon(settings(upstream)) as antiphon:
        await asyncio.gather(*(ask(antiphon, file(str(n).encode())) for n in range(12)))
    assert most == MAX_FILES_AT_ONCE


async def test_few_texts_are_remembered(upstream: Upstream, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[bytes] = []
    original = DocumentReader.read

    async def reading(reader: DocumentReader, tenant: str, data: bytes, *wanted: Any) -> Document:
        read.append(data)
        return await original(reader, tenant, data, *wanted)

    monkeypatch.setattr(DocumentReader, "read", reading)
    monkeypatch.setattr(file_texts, "MAX_CACHED_CHARS", 10)
    async with Antiphon(settings(upstream)) as antiphon:
        for text in (b"12345", b"54321", b"12345", b"abcde", b"54321"):
            await ask(antiphon, file(text))
    assert read == [b"12345", b"54321", b"abcde", b"54321"], "the one that was not used longest is forgotten"


@pytest.mark.requirement("DOCUMENTS/input-unreadable")
@pytest.mark.parametrize(
    ("part", "param", "code", "why"),
    [
        (file(scanned_pdf()), "file_data", "invalid_file", "'a.pdf' cannot be used: The PDF is a scan"),
        (file(b""), "file_data", "invalid_file", "The file is empty"),
        (file(b"\x89PNG\r\n\x1a\n..."), "file_data", "unsupported_file", "is an image"),
        ({"type": "input_file", "file_data": "data:x,hello"}, "file_data", "invalid_value", "base64"),
        ({"type": "input_file", "file_data": "?"}, "file_data", "invalid_value", "base64"),
        (
            {"type": "input_file", "file_url": "http://127.0.0.1:9/a"},
            "file_url",
            "egress_not_permitted",
            "not public",
        ),
        ({"type": "input_file", "file_url": "file:///etc/passwd"}, "file_url", "invalid_value", "begin with"),
    ],
)
async def test_a_file_that_cannot_be_used_is_a_400_with_its_path(
    upstream: Upstream, part: Part, param: str, code: str, why: str
) -> None:
    async with Antiphon(settings(upstream)) as antiphon:
        for background in (False, True):
            with pytest.raises(InvalidRequest, match=why) as caught:
                await ask(antiphon, part, background=background)
            assert (caught.value.param, caught.value.code) == (f"input[0].content[1].{param}", code)
    assert upstream.requests == []


async def test_a_file_of_the_history_that_cannot_be_read_is_left_out(upstream: Upstream) -> None:
    other = UpstreamSettings(kind="openai", base_url=upstream.url, api_key="key", models=("tools",))
    chosen = settings(upstream)
    chosen = Settings(seal=chosen.seal, store=chosen.store, upstreams=(*chosen.upstreams, other))
    async with Antiphon(chosen) as antiphon:
        message = {"role": "user", "content": [file(scanned_pdf())]}
        first = await antiphon.create(model="tools", input=[message])
        response = await antiphon.create(model="echo", input="And?", previous_response_id=first.id)
    assert "[FILE a.pdf: left out]" in str(upstream.requests[-1]["messages"])
    assert any(
        "'a.pdf' is left out: The file 'a.pdf' cannot be used" in line for line in downgrades(response)
    )


async def test_a_tool_may_return_a_file(upstream: Upstream) -> None:
    call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": "c", "output": [file(docx_file(), "a.docx")]}
    async with Antiphon(settings(upstream)) as antiphon:
        await antiphon.create(model="echo", input=[call, output])
    assert "[FILE a.docx]\n\n# Report" in str(upstream.requests[-1]["messages"][-1]["content"])


async def test_a_background_response_reads_files(upstream: Upstream) -> None:
    async with Antiphon(settings(upstream)) as antiphon:
        queued = await ask(antiphon, file(PDF), background=True)
        async for _ in antiphon.follow(queued.id):
            pass
    assert PDF_TEXT in seen(upstream)


async def test_a_crowd_of_files_is_overload_not_failure(
    upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise Overloaded

    monkeypatch.setattr("antiphon.isolated.pool.IsolatedPool.check_room", full)
    async with Antiphon(settings(upstream)) as antiphon:
        with pytest.raises(Overloaded):
            await ask(antiphon, file(PDF))


@pytest.mark.requirement("DOCUMENTS/input-page-images")
async def test_a_model_that_sees_gets_pages_without_text_as_images(
    upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def takes(*_: object) -> bool:
        return True

    monkeypatch.setattr(
        "antiphon.backends.chat_completions.client.ChatCompletionsBackend.takes_images", takes
    )
    async with Antiphon(settings(upstream)) as antiphon:
        scan = await ask(antiphon, file(scanned_pdf(12)))
        _, name, *pages = upstream.requests[-1]["messages"][-1]["content"]
        assert name["text"] == "[FILE a.pdf]"
        assert len(pages) == 10
        assert all(page["image_url"]["url"].startswith("data:image/jpeg;base64,/9j/") for page in pages)
        assert "its first pages are sent as images (10)" in downgrades(scan)[0]
        mixed = await ask(antiphon, file(pdf_file("Hello cat", "")))
        assert [part["type"] for part in upstream.requests[-1]["messages"][-1]["content"]] == [
            "text",
            "text",
            "image_url",
        ]
        assert any("pages without text are sent as images (2)" in line for line in downgrades(mixed))


def page_bytes(upstream: Upstream) -> list[int]:
    """The sizes of the page images that the upstream was sent."""
    parts = upstream.requests[-1]["messages"][-1]["content"]
    urls = [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]
    return [len(base64.b64decode(url.partition(",")[2])) for url in urls]


@pytest.mark.parametrize(
    ("data", "pages"), [(scanned_pdf(4), 4), (pdf_file("Hello cat", "", "", ""), 3)], ids=["scan", "mixed"]
)
async def test_page_images_count_among_what_is_sent_along(
    upstream: Upstream, monkeypatch: pytest.MonkeyPatch, data: bytes, pages: int
) -> None:
    async def takes(*_: object) -> bool:
        return True

    held: list[int] = []
    original = HeldContent.add

    def adding(files: HeldContent, size: int) -> None:
        held.append(size)
        original(files, size)

    monkeypatch.setattr(HeldContent, "add", adding)
    monkeypatch.setattr(
        "antiphon.backends.chat_completions.client.ChatCompletionsBackend.takes_images", takes
    )
    async with Antiphon(settings(upstream)) as antiphon:
        await ask(antiphon, file(data))
        sizes = page_bytes(upstream)
        assert len(sizes) == pages
        assert held == [SENT_COPIES * sum(sizes)]
        monkeypatch.setattr(file_texts, "MAX_SENT_BYTES", sum(sizes) - 1)
        response = await ask(antiphon, file(data))
        assert page_bytes(upstream) == sizes[:-1]
        assert any("1 page images are left out" in line for line in downgrades(response))


async def test_a_scan_that_there_is_no_room_for_is_a_400(
    upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def takes(*_: object) -> bool:
        return True

    monkeypatch.setattr(file_texts, "MAX_SENT_BYTES", 1)
    monkeypatch.setattr(
        "antiphon.backends.chat_completions.client.ChatCompletionsBackend.takes_images", takes
    )
    async with Antiphon(settings(upstream)) as antiphon:
        with pytest.raises(InvalidRequest) as refused:
            await ask(antiphon, file(scanned_pdf(1)))
    assert (refused.value.code, refused.value.param) == ("file_too_large", "input[0].content[1].file_data")


@asynccontextmanager
async def site(data: bytes) -> AsyncGenerator[str, None]:
    async def answer(_request: web.Request) -> web.Response:
        return web.Response(body=data)

    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield f"http://127.0.0.1:{runner.addresses[0][1]}/docs/a.pdf"
    await runner.cleanup()


@pytest.mark.requirement("DOCUMENTS/input-file-url", "DOCUMENTS/input-egress")
async def test_a_file_is_downloaded_where_the_operator_allows_it(upstream: Upstream) -> None:
    chosen = settings(upstream, egress=EgressSettings(allow=("127.0.0.1",)))
    async with site(PDF) as url, Antiphon(chosen) as antiphon:
        await ask(antiphon, {"type": "input_file", "file_url": url})
    assert PDF_TEXT in seen(upstream)


async def test_a_server_that_takes_files_but_fetches_none_gets_the_content(upstream: Upstream) -> None:
    chosen = settings(upstream, "openai", egress=EgressSettings(allow=("127.0.0.1",)))
    async with site(PDF) as url, Antiphon(chosen) as antiphon:
        response = await ask(antiphon, {"type": "input_file", "file_url": url})
    sent = upstream.requests[-1]["messages"][-1]["content"][1]["file"]
    assert sent == {"filename": "a.pdf", "file_data": data_url(PDF)}
    assert downgrades(response) == ["input: 'a.pdf' is downloaded and sent along"]


@pytest.mark.requirement("DOCUMENTS/input-compatible")
async def test_files_of_chat_completions_and_messages(upstream: Upstream) -> None:
    chosen = settings(upstream)
    app = build_app(chosen)
    async with open_services(chosen) as services, memory_client(app) as client:
        app.mount(services)
        sent = {"filename": "a.pdf", "file_data": data_url(PDF)}
        part = {"type": "file", "file": sent}
        chat = {"model": "echo", "messages": [{"role": "user", "content": [part]}]}
        assert (await client.post("/v1/chat/completions", json=chat)).status_code == 200
        assert seen(upstream) == PDF_TEXT
        source = {"type": "base64", "media_type": "application/pdf", "data": base64.b64encode(PDF).decode()}
        block = {"type": "document", "title": "a.pdf", "source": source}
        message = {"model": "echo", "max_tokens": 9, "messages": [{"role": "user", "content": [block]}]}
        assert (await client.post("/v1/messages", json=message)).status_code == 200
        assert seen(upstream) == PDF_TEXT
        sent["file_data"] = data_url(scanned_pdf())
        refused = await client.post("/v1/chat/completions", json=chat)
        assert (refused.status_code, refused.json()["error"]["param"]) == (
            400,
            "messages[0].content[0].file.file_data",
        )


@pytest.mark.parametrize("use_responses_api", [True, False])
async def test_langchain_sends_a_pdf(upstream: Upstream, use_responses_api: bool) -> None:
    chosen = settings(upstream)
    app = build_app(chosen)
    async with open_services(chosen) as services, memory_client(app) as client:
        app.mount(services)
        model = ChatOpenAI(
            model="echo",
            base_url="http://localhost/v1",
            api_key=SecretStr("key"),
            http_async_client=client,
            use_responses_api=use_responses_api,
        )
        part = {
            "type": "file",
            "base64": base64.b64encode(PDF).decode(),
            "mime_type": "application/pdf",
            "filename": "a.pdf",
        }
        answer = await model.ainvoke([HumanMessage([part])])
    assert PDF_TEXT in answer.text


async def test_the_official_sdk_sends_a_file(upstream: Upstream) -> None:
    async with Antiphon(settings(upstream)) as antiphon:
        client: openai.AsyncOpenAI = antiphon.openai_client()
        response = await client.responses.create(
            model="echo",
            input=[{"role": "user", "content": [file(PDF)]}],  # pyright: ignore[reportArgumentType]
        )
        assert PDF_TEXT in response.output_text
