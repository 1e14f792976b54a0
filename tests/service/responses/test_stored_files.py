"""Files and images by `file_id`: the content of a stored file is sent, or its text."""

import base64
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import openai
import pytest

from antiphon import Settings
from antiphon.caller import Caller
from antiphon.errors import NotFound
from antiphon.protocol.parse_create import create_from
from antiphon.server.memory import memory_client
from antiphon.settings import SealSettings, StoreSettings, UpstreamSettings
from antiphon.wiring import build_app, open_services
from tests.documents.pdf_file import pdf_file
from tests.upstream import Upstream, run_upstream

PDF = pdf_file("The tap was fixed.")
PDF_TEXT = "[FILE a.pdf]\n\n[page 1]\nThe tap was fixed.\n\n[END OF FILE]"
PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)
UNKNOWN = f"file-{'0' * 44}"
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


@asynccontextmanager
async def serving(chosen: Settings) -> AsyncGenerator[httpx2.AsyncClient, None]:
    app = build_app(chosen)
    async with open_services(chosen) as services, memory_client(app) as client:
        app.mount(services)
        yield client


async def stored(client: httpx2.AsyncClient, name: str = "a.pdf", data: bytes = PDF) -> str:
    sdk = openai.AsyncOpenAI(base_url="http://localhost/v1", api_key="k", http_client=client)
    return (await sdk.files.create(file=(name, data), purpose="user_data")).id


async def ask(client: httpx2.AsyncClient, *parts: Part, **fields: Any) -> httpx2.Response:
    body = {"model": "echo", "input": [{"role": "user", "content": list(parts)}], **fields}
    return await client.post("/v1/responses", json=body)


def sent(upstream: Upstream) -> Any:
    return upstream.requests[-1]["messages"][-1]["content"]


def refusal(answer: httpx2.Response) -> tuple[int, str | None, str | None]:
    error = answer.json()["error"]
    return answer.status_code, error["param"], error["code"]


@pytest.mark.requirement("DOCUMENTS/input-stored-files")
async def test_the_text_of_a_stored_file_is_sent_to_a_server_that_takes_none(upstream: Upstream) -> None:
    async with serving(settings(upstream)) as client:
        answer = await ask(client, {"type": "input_file", "file_id": await stored(client)})
    assert answer.status_code == 200
    assert sent(upstream) == PDF_TEXT


@pytest.mark.requirement("DOCUMENTS/input-stored-files")
async def test_the_content_is_sent_to_a_server_that_takes_files(upstream: Upstream) -> None:
    async with serving(settings(upstream, "openai")) as client:
        answer = await ask(client, {"type": "input_file", "file_id": await stored(client)})
    data = f"data:application/pdf;base64,{base64.b64encode(PDF).decode()}"
    assert sent(upstream) == [{"type": "file", "file": {"filename": "a.pdf", "file_data": data}}]
    assert answer.json().get("downgrades") is None, "nothing was changed"


@pytest.mark.requirement("DOCUMENTS/input-stored-files")
async def test_a_stored_image_is_sent_as_an_image(upstream: Upstream) -> None:
    async with serving(settings(upstream, "openai")) as client:
        image = await stored(client, "a.png", PNG)
        answer = await ask(client, {"type": "input_image", "file_id": image, "detail": "low"})
        assert answer.status_code == 200, answer.text
        url = f"data:image/png;base64,{base64.b64encode(PNG).decode()}"
        assert sent(upstream) == [{"type": "image_url", "image_url": {"url": url, "detail": "low"}}]
        text = await ask(client, {"type": "input_image", "file_id": await stored(client)})
        assert refusal(text) == (400, "input[0].content[0].file_id", "invalid_image_format")


@pytest.mark.requirement("DOCUMENTS/input-stored-files")
@pytest.mark.parametrize("kind", ["input_file", "input_image"])
@pytest.mark.parametrize("background", [False, True])
async def test_an_unknown_file_is_a_404_with_its_path(
    upstream: Upstream, kind: str, background: bool
) -> None:
    async with serving(settings(upstream, "openai")) as client:
        answer = await ask(client, {"type": kind, "file_id": UNKNOWN}, background=background)
    assert refusal(answer) == (404, "input[0].content[0].file_id", "not_found")
    assert upstream.requests == []


@pytest.mark.parametrize("kind", ["input_file", "input_image"])
async def test_a_file_of_another_tenant_is_as_unknown_as_a_missing_one(upstream: Upstream, kind: str) -> None:
    chosen = settings(upstream)
    app, refusals = build_app(chosen), list[str]()
    async with open_services(chosen) as services, memory_client(app) as client:
        app.mount(services)
        for file_id in (await stored(client), UNKNOWN):
            request = create_from(
                model="echo", input=[{"role": "user", "content": [{"type": kind, "file_id": file_id}]}]
            )
            with pytest.raises(NotFound) as refused:
                await services.creator.start(request, Caller.of("other")).result()
            refusals.append(str(refused.value.to_wire()).replace(file_id, "ID"))
    assert refusals[0] == refusals[1]
    assert upstream.requests == []


async def test_a_file_that_is_too_large_to_be_sent_is_refused(
    upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("antiphon.service.responses.file_texts.MAX_FILE_BYTES", len(PDF) - 1)
    async with serving(settings(upstream)) as client:
        answer = await ask(client, {"type": "input_file", "file_id": await stored(client)})
    assert refusal(answer) == (400, "input[0].content[0].file_id", "file_too_large")


async def test_a_file_that_was_deleted_since_is_left_out_of_the_history(upstream: Upstream) -> None:
    async with serving(settings(upstream)) as client:
        file = await stored(client)
        first = await ask(client, {"type": "input_file", "file_id": file})
        await client.delete(f"/v1/files/{file}")
        body = {"model": "echo", "input": "And?", "previous_response_id": first.json()["id"]}
        answer = await client.post("/v1/responses", json=body)
    assert answer.status_code == 200, answer.text
    assert upstream.requests[-1]["messages"][0]["content"] == "[FILE a file: left out]"
    assert any("is left out: No such File object" in each for each in answer.json()["downgrades"])


async def test_the_next_turn_sees_the_file_again(upstream: Upstream) -> None:
    async with serving(settings(upstream)) as client:
        first = await ask(client, {"type": "input_file", "file_id": await stored(client)})
        body = {"model": "echo", "input": "And?", "previous_response_id": first.json()["id"]}
        await client.post("/v1/responses", json=body)
        items = (await client.get(f"/v1/responses/{first.json()['id']}/input_items")).json()["data"]
    assert upstream.requests[-1]["messages"][0]["content"] == PDF_TEXT
    assert "file_data" not in items[0]["content"][0], "the history holds the id, not the content"


@pytest.mark.requirement("DOCUMENTS/input-compatible")
async def test_the_compatible_endpoints_take_file_ids(upstream: Upstream) -> None:
    async with serving(settings(upstream)) as client:
        file = await stored(client)
        for known in (file, UNKNOWN):
            part = {"type": "file", "file": {"file_id": known}}
            chat = {"model": "echo", "messages": [{"role": "user", "content": [part]}]}
            answered = await client.post("/v1/chat/completions", json=chat)
            block = {"type": "document", "source": {"type": "file", "file_id": known}}
            message = {"model": "echo", "max_tokens": 9, "messages": [{"role": "user", "content": [block]}]}
            answer = await client.post("/v1/messages", json=message)
            if known == file:
                assert (answered.status_code, answer.status_code) == (200, 200), answer.text
                assert [request["messages"][-1]["content"] for request in upstream.requests] == [PDF_TEXT] * 2
            else:
                assert refusal(answered) == (404, "messages[0].content[0].file.file_id", "not_found")
                assert answer.status_code == 404
                assert "messages[0].content[0].source.file_id" in answer.text or "No such File" in answer.text


async def test_the_files_that_are_sent_along_are_bounded_together(
    upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("antiphon.service.responses.file_texts.MAX_SENT_BYTES", len(PDF) + len(PNG) - 1)
    async with serving(settings(upstream, "openai")) as client:
        file = {"type": "input_file", "file_id": await stored(client)}
        image = {"type": "input_image", "file_id": await stored(client, "a.png", PNG)}
        assert (await ask(client, file)).status_code == 200
        answer = await ask(client, file, image)
    assert refusal(answer) == (400, "input[0].content[0].file_id", "file_too_large")


async def test_a_large_file_is_encoded_in_slices(upstream: Upstream) -> None:
    data = PDF + bytes(range(256)) * 8000
    async with serving(settings(upstream, "openai")) as client:
        await ask(client, {"type": "input_file", "file_id": await stored(client, "a.pdf", data)})
    assert base64.b64decode(sent(upstream)[0]["file"]["file_data"].partition(",")[2]) == data
