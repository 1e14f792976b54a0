"""`/v1/vector_stores` over HTTP: the form of its objects, its lists, and the errors."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import httpx2
import pytest

from antiphon.embeddings.hashed import HashedEmbedder
from antiphon.errors import BackendUnreachable
from antiphon.store.none import no_stores
from tests.server.conftest import services_of
from tests.server.stateful import JsonObject, ServerUnderTest, open_server
from tests.service.conftest import MakeCreator

STORES = "/v1/vector_stores"


@pytest.fixture
async def server(make_creator: MakeCreator) -> AsyncGenerator[ServerUnderTest, None]:
    async with open_server(make_creator) as server:
        yield server


async def post(server: ServerUnderTest, path: str, **members: Any) -> JsonObject:
    answer = await server.client.post(path, json=members)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def get(server: ServerUnderTest, path: str) -> JsonObject:
    answer = await server.client.get(path)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def new_file(server: ServerUnderTest, text: str, name: str = "a.txt") -> str:
    sent = {"file": (name, text.encode())}
    answer = await server.client.post("/v1/files", data={"purpose": "assistants"}, files=sent)
    return answer.json()["id"]


async def settled(server: ServerUnderTest, store_id: str) -> JsonObject:
    async with asyncio.timeout(30):
        while True:
            store = await get(server, f"{STORES}/{store_id}")
            if store["status"] != "in_progress":
                return store
            await asyncio.sleep(0.01)


async def new_store(server: ServerUnderTest, *texts: str, **members: Any) -> JsonObject:
    ids = [await new_file(server, text, f"{number}.txt") for number, text in enumerate(texts)]
    store = await post(server, STORES, file_ids=ids, **members)
    return await settled(server, store["id"])


def error_of(answer: httpx2.Response) -> tuple[int, str | None, str | None]:
    error = answer.json()["error"]
    return answer.status_code, error["param"], error["code"]


async def test_a_file_with_17_attributes_is_rejected_and_nothing_is_stored(server: ServerUnderTest) -> None:
    store = await post(server, STORES)
    file_id = await new_file(server, "text", "a.txt")
    body = {"file_id": file_id, "attributes": {f"a{number}": number for number in range(17)}}
    answer = await server.client.post(f"{STORES}/{store['id']}/files", json=body)
    assert error_of(answer)[:2] == (400, "attributes")
    assert (await get(server, f"{STORES}/{store['id']}/files"))["data"] == []


@pytest.mark.requirement("VECTOR-STORES/store-object", "VECTOR-STORES/store-change")
async def test_the_form_of_a_store(server: ServerUnderTest) -> None:
    store = await post(
        server, STORES, name="n", metadata={"a": "b"}, expires_after={"anchor": "last_active_at", "days": 2}
    )
    assert list(store.items()) == [
        ("id", store["id"]),
        ("object", "vector_store"),
        ("created_at", 1000),
        ("name", "n"),
        ("description", None),
        ("usage_bytes", 0),
        ("file_counts", {"in_progress": 0, "completed": 0, "failed": 0, "cancelled": 0, "total": 0}),
        ("status", "completed"),
        ("expires_after", {"anchor": "last_active_at", "days": 2}),
        ("expires_at", 1000 + 2 * 86400),
        ("last_active_at", 1000),
        ("metadata", {"a": "b"}),
    ]
    assert store["id"].startswith("vs_")
    changed = await post(server, f"{STORES}/{store['id']}", name=None, expires_after=None)
    assert (changed["name"], changed["expires_at"], changed["metadata"]) == (None, None, {"a": "b"})


@pytest.mark.requirement(
    "VECTOR-STORES/file-object", "VECTOR-STORES/file-content", "VECTOR-STORES/file-attributes"
)
async def test_the_form_of_a_file_and_of_its_content(server: ServerUnderTest) -> None:
    store = await new_store(server)
    file_id = await new_file(server, "# Title\n\nSome text.", "a.md")
    added = await post(server, f"{STORES}/{store['id']}/files", file_id=file_id, attributes={"a": 1})
    assert (added["status"], added["last_error"]) == ("in_progress", None)
    await settled(server, store["id"])
    file = await get(server, f"{STORES}/{store['id']}/files/{file_id}")
    assert list(file) == [
        *("id", "object", "usage_bytes", "created_at", "vector_store_id", "status", "last_error"),
        *("chunking_strategy", "attributes"),
    ]
    assert (file["id"], file["status"], file["attributes"]) == (file_id, "completed", {"a": 1})
    static = {"max_chunk_size_tokens": 800, "chunk_overlap_tokens": 400}
    assert file["chunking_strategy"] == {"type": "static", "static": static}
    assert await get(server, f"{STORES}/{store['id']}/files/{file_id}/content") == {
        "object": "vector_store.file_content.page",
        "data": [{"type": "text", "text": "# Title\n\nSome text."}],
        "has_more": False,
        "next_page": None,
    }


async def test_long_content_is_one_valid_answer(server: ServerUnderTest) -> None:
    store = await new_store(server)
    text = "\n\n".join(f"Paragraph {number}. " + "word " * 70 for number in range(300))
    strategy = {"type": "static", "static": {"max_chunk_size_tokens": 100, "chunk_overlap_tokens": 0}}
    file_id = await new_file(server, text)
    await post(server, f"{STORES}/{store['id']}/files", file_id=file_id, chunking_strategy=strategy)
    await settled(server, store["id"])
    content = await get(server, f"{STORES}/{store['id']}/files/{file_id}/content")
    assert len(content["data"]) >= 300
    joined = " ".join(part["text"] for part in content["data"])
    assert all(f"Paragraph {number}." in joined for number in range(300))


@pytest.mark.requirement("VECTOR-STORES/search-results", "VECTOR-STORES/search-rewrite")
async def test_the_form_of_a_search(server: ServerUnderTest) -> None:
    store = await new_store(server, "owls hunt at night", "whales sing")
    found = await post(
        server, f"{STORES}/{store['id']}/search", query="what do whales sing?", rewrite_query=True
    )
    assert list(found) == ["object", "search_query", "data", "has_more", "next_page"]
    assert (found["object"], found["search_query"]) == ("vector_store.search_results.page", ["whales sing"])
    assert (found["has_more"], found["next_page"]) == (False, None)
    [best, *_] = found["data"]
    assert list(best) == ["file_id", "filename", "score", "scores", "attributes", "content"]
    assert (best["filename"], best["content"]) == ("1.txt", [{"type": "text", "text": "whales sing"}])
    assert 0 < best["score"] <= 1
    assert best["scores"]["mixed"] == best["score"]
    assert best["scores"]["text"] == 1  # it has the words best


@pytest.mark.requirement("VECTOR-STORES/batch-poll-after")
async def test_objects_in_progress_say_when_to_ask_again(server: ServerUnderTest) -> None:
    store = await new_store(server)
    file_id = await new_file(server, "x")
    path = f"{STORES}/{store['id']}"
    batch = await server.client.post(f"{path}/file_batches", json={"file_ids": [file_id]})
    assert batch.headers["openai-poll-after-ms"] == "500"
    assert list(batch.json()) == ["id", "object", "created_at", "vector_store_id", "status", "file_counts"]
    await settled(server, store["id"])
    for ended in (path, f"{path}/files/{file_id}", f"{path}/file_batches/{batch.json()['id']}"):
        answer = await server.client.get(ended)
        assert answer.json()["status"] == "completed"
        assert "openai-poll-after-ms" not in answer.headers


@pytest.mark.requirement("VECTOR-STORES/store-list")
async def test_lists_are_paged_in_both_directions(server: ServerUnderTest) -> None:
    ids = [(await post(server, STORES, name=str(number)))["id"] for number in range(5)]
    newest = await get(server, f"{STORES}?limit=2")
    assert ([store["id"] for store in newest["data"]], newest["has_more"]) == (ids[:2:-1], True)
    assert (newest["first_id"], newest["last_id"], newest["object"]) == (ids[4], ids[3], "list")
    after = await get(server, f"{STORES}?limit=2&after={ids[3]}")
    assert [store["id"] for store in after["data"]] == [ids[2], ids[1]]
    before = await get(server, f"{STORES}?limit=2&before={ids[1]}&order=desc")
    assert [store["id"] for store in before["data"]] == [ids[3], ids[2]]
    oldest = await get(server, f"{STORES}?order=asc&limit=1")
    assert [store["id"] for store in oldest["data"]] == [ids[0]]
    assert (await get(server, f"{STORES}/{ids[0]}/files"))["data"] == []


@pytest.mark.requirement("VECTOR-STORES/file-filter")
async def test_files_are_listed_by_status(server: ServerUnderTest) -> None:
    store = await new_store(server, "good")
    bad = await new_file(server, " ", "blank.txt")
    batch = await post(server, f"{STORES}/{store['id']}/file_batches", files=[{"file_id": bad}])
    await settled(server, store["id"])
    for path in (f"{STORES}/{store['id']}", f"{STORES}/{store['id']}/file_batches/{batch['id']}"):
        failed = await get(server, f"{path}/files?filter=failed")
        assert [file["id"] for file in failed["data"]] == [bad]
        assert failed["data"][0]["last_error"]["code"] == "invalid_file"
    assert error_of(await server.client.get(f"{STORES}/{store['id']}/files?filter=done")) == (
        *(400, "filter"),
        "invalid_value",
    )


@pytest.mark.requirement("VECTOR-STORES/store-delete")
async def test_deletions(server: ServerUnderTest) -> None:
    store = await new_store(server, "text")
    [file] = (await get(server, f"{STORES}/{store['id']}/files"))["data"]
    path = f"{STORES}/{store['id']}/files/{file['id']}"
    answer = await server.client.delete(path)
    assert answer.json() == {"id": file["id"], "object": "vector_store.file.deleted", "deleted": True}
    assert error_of(await server.client.get(path)) == (404, "file_id", "not_found")
    assert (await server.client.get(f"/v1/files/{file['id']}")).status_code == 200
    answer = await server.client.delete(f"{STORES}/{store['id']}")
    assert answer.json() == {"id": store["id"], "object": "vector_store.deleted", "deleted": True}
    assert error_of(await server.client.get(f"{STORES}/{store['id']}")) == (
        404,
        "vector_store_id",
        "not_found",
    )


@pytest.mark.requirement("VECTOR-STORES/search-filter-errors")
@pytest.mark.parametrize(
    ("path", "members", "expected"),
    [
        ("", {"file_ids": ["file-none"]}, (404, "file_ids[0]", "not_found")),
        ("", {"file_ids": ["resp_x"]}, (400, "file_ids[0]", "invalid_value")),
        ("/{id}/files", {}, (400, "file_id", "missing_required_parameter")),
        ("/{id}/files", {"file_id": "file-none"}, (404, "file_id", "not_found")),
        ("/{id}/file_batches", {"file_ids": ["file-none"]}, (404, "file_ids[0]", "not_found")),
        ("/{id}/file_batches", {"files": [{"file_id": "file-none"}]}, (404, "files[0].file_id", "not_found")),
        (
            "/{id}/search",
            {"query": "x", "filters": {"type": "eq"}},
            (400, "filters.key", "missing_required_parameter"),
        ),
        ("/{id}/reindex", {"model": "none"}, (400, "model", "model_not_found")),
        ("/vx_1/search", {"query": "x"}, (400, "vector_store_id", "invalid_value")),
    ],
)
async def test_bad_requests(
    server: ServerUnderTest, path: str, members: JsonObject, expected: tuple[int, str, str]
) -> None:
    store = await new_store(server)
    answer = await server.client.post(STORES + path.replace("{id}", store["id"]), json=members)
    assert error_of(answer) == expected


async def test_content_of_an_unfinished_file_is_refused(server: ServerUnderTest) -> None:
    store = await new_store(server, " ")
    [file] = (await get(server, f"{STORES}/{store['id']}/files"))["data"]
    answer = await server.client.get(f"{STORES}/{store['id']}/files/{file['id']}/content")
    assert error_of(answer) == (400, "file_id", "invalid_value")


@pytest.mark.requirement("VECTOR-STORES/search-unavailable")
async def test_an_embedding_model_that_fails_is_a_503(
    server: ServerUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await new_store(server, "text")

    async def fail(*_given: Any, **_options: Any) -> None:
        raise BackendUnreachable("No connection.")

    monkeypatch.setattr(HashedEmbedder, "embed", fail)
    answer = await server.client.post(f"{STORES}/{store['id']}/search", json={"query": "text"})
    assert error_of(answer) == (503, None, "embedding_unavailable")
    assert "retry-after" in answer.headers


async def test_a_server_without_a_store_has_none(make_creator: MakeCreator) -> None:
    async with open_server(make_creator) as server:
        server.app.mount(services_of(make_creator(stores=no_stores())))
        for answer in (
            await server.client.post(STORES, json={}),
            await server.client.get(STORES),
            await server.client.get(f"{STORES}/vs_1"),
            await server.client.post(f"{STORES}/vs_1/search", json={"query": "x"}),
            await server.client.get(f"{STORES}/vs_1/files"),
        ):
            assert error_of(answer) == (400, None, "unsupported_parameter")
            assert "no vector stores" in answer.json()["error"]["message"]
