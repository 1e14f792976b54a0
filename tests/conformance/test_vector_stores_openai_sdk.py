"""The official SDK's calls of vector stores, against a server process whose embedding model is an upstream."""

from collections.abc import AsyncGenerator
from pathlib import Path

import msgspec
import openai
import pytest

from tests.documents.pdf_file import pdf_file
from tests.embeddings.embedding_server import run_embedding_server
from tests.serving import run_server

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("conformance"),
    pytest.mark.requirement("VECTOR-STORES/sdk-helpers"),
]


@pytest.fixture
async def client(tmp_path: Path) -> AsyncGenerator[openai.AsyncOpenAI, None]:
    async with run_embedding_server() as embeddings:
        rows = [{"base_url": embeddings.url, "models": ["m"], "embedding_models": ["theirs"]}]
        environment = {
            "ANTIPHON_UPSTREAMS": msgspec.json.encode(rows).decode(),
            "ANTIPHON_EMBEDDINGS__LOCAL": "false",
        }
        with run_server(tmp_path, "--store", f"sqlite:{tmp_path}/a.db", environment=environment) as served:
            async with openai.AsyncOpenAI(base_url=served.base_url, api_key="none", max_retries=0) as client:
                yield client


async def test_a_file_is_uploaded_polled_searched_and_removed(client: openai.AsyncOpenAI) -> None:
    store = await client.vector_stores.create(name="handbook", metadata={"team": "a"})
    file = await client.vector_stores.files.upload_and_poll(
        vector_store_id=store.id,
        file=("facts.pdf", pdf_file("Owls hunt at night.", "Whales sing in the sea.")),
    )
    assert (file.status, file.last_error, file.vector_store_id) == ("completed", None, store.id)
    found = await client.vector_stores.search(store.id, query="whales sing", max_num_results=1)
    assert found.data[0].content[0].text == "Whales sing in the sea."
    assert (found.data[0].file_id, found.data[0].filename) == (file.id, "facts.pdf")
    texts = [
        part.text
        async for part in await client.vector_stores.files.content(file.id, vector_store_id=store.id)
    ]
    assert texts == ["Owls hunt at night.", "Whales sing in the sea."]
    await client.vector_stores.files.update(file.id, vector_store_id=store.id, attributes={"year": 2020})
    none = await client.vector_stores.search(
        store.id, query="whales", filters={"type": "lt", "key": "year", "value": 2000}
    )
    assert none.data == []
    deleted = await client.vector_stores.files.delete(file.id, vector_store_id=store.id)
    assert (deleted.deleted, deleted.object) == (True, "vector_store.file.deleted")
    with pytest.raises(openai.NotFoundError):
        await client.vector_stores.files.retrieve(file.id, vector_store_id=store.id)
    assert (await client.vector_stores.delete(store.id)).deleted


async def test_a_batch_is_uploaded_and_polled(client: openai.AsyncOpenAI) -> None:
    store = await client.vector_stores.create(expires_after={"anchor": "last_active_at", "days": 3})
    files = [(f"{number}.txt", f"Text number {number}".encode()) for number in range(8)]
    batch = await client.vector_stores.file_batches.upload_and_poll(
        store.id, files=[*files, ("blank.txt", b" \n")]
    )
    assert (batch.status, batch.file_counts.completed, batch.file_counts.failed) == ("completed", 8, 1)
    failed = await client.vector_stores.file_batches.list_files(
        batch.id, vector_store_id=store.id, filter="failed"
    )
    assert [file.last_error.code for file in failed.data if file.last_error] == ["invalid_file"]
    listed = [file.id async for file in client.vector_stores.files.list(store.id, limit=4)]
    assert len(set(listed)) == 9
    changed = await client.vector_stores.update(store.id, name="renamed")
    assert (changed.name, changed.file_counts.total) == ("renamed", 9)
    stores = [found.id async for found in client.vector_stores.list(limit=1)]
    assert store.id in stores


async def test_errors_are_those_of_the_api(client: openai.AsyncOpenAI) -> None:
    with pytest.raises(openai.NotFoundError):
        await client.vector_stores.retrieve("vs_none")
    store = await client.vector_stores.create()
    with pytest.raises(openai.BadRequestError) as refused:
        await client.vector_stores.search(store.id, query="x", filters={"type": "eq", "key": "a"})  # pyright: ignore[reportArgumentType] -- on purpose
    assert refused.value.param == "filters.value"
    with pytest.raises(openai.BadRequestError) as refused:
        await client.vector_stores.files.create(
            store.id, file_id="file-x", attributes={str(number): number for number in range(17)}
        )
    assert refused.value.param == "attributes"
