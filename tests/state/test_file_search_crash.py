"""kill -9 in the loop of hosted tools: a search that has finished is not run again, and its passages are kept."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from openai import APIError, AsyncOpenAI

from tests.embeddings.embedding_server import EmbeddingServer, run_embedding_server
from tests.serving import Served, run_server
from tests.turn.order import check_order
from tests.upstream import Upstream, run_upstream

pytestmark = [pytest.mark.slow, pytest.mark.requirement("HOSTED/loop-resume")]

QUESTION = "How long is the warranty of a kettle?"
WARRANTY = b"# Warranty\n\nThe warranty of every kettle lasts two years.\n"


def environment(upstream: Upstream, embeddings: EmbeddingServer) -> dict[str, str]:
    rows = [
        {"base_url": upstream.url, "models": ["searches"]},
        {"name": "vectors", "base_url": embeddings.url, "models": ["none"], "embedding_models": ["theirs"]},
    ]
    return {
        "ANTIPHON_UPSTREAMS": msgspec.json.encode(rows).decode(),
        "ANTIPHON_EMBEDDINGS__LOCAL": "false",
    }


def searches(embeddings: EmbeddingServer) -> int:
    return sum(QUESTION in request["input"] for request in embeddings.requests)


async def make_store(client: AsyncOpenAI) -> str:
    store = await client.vector_stores.create(name="handbook")
    await client.vector_stores.files.upload_and_poll(vector_store_id=store.id, file=("warranty.md", WARRANTY))
    return store.id


async def begun(client: AsyncOpenAI, store_id: str) -> str:
    """A background response that has searched, and whose model has begun to answer."""
    tools: Any = [{"type": "file_search", "vector_store_ids": [store_id]}]
    response = await client.responses.create(model="searches", input=QUESTION, background=True, tools=tools)
    async with asyncio.timeout(60):
        async for event in await client.responses.retrieve(response.id, stream=True):
            if event.type == "response.output_text.delta":
                break
    return response.id


async def follow(client: AsyncOpenAI, response_id: str) -> Sequence[dict[str, Any]]:
    async with asyncio.timeout(60):
        return [event.to_dict() async for event in await client.responses.retrieve(response_id, stream=True)]


def client_of(served: Served) -> AsyncOpenAI:
    return AsyncOpenAI(base_url=served.base_url, api_key="-", max_retries=0, timeout=60)


async def test_a_finished_search_survives_a_kill(tmp_path: Path) -> None:
    with run_upstream() as upstream:
        async with run_embedding_server() as embeddings:
            variables = environment(upstream, embeddings)
            with run_server(tmp_path, environment=variables) as first:
                async with client_of(first) as client:
                    store_id = await make_store(client)
                    response_id = await begun(client, store_id)
                    first.process.kill()
                    with pytest.raises(APIError):
                        await client.models.list()
            assert searches(embeddings) == 1

            upstream.gate.set()
            with run_server(tmp_path, environment=variables) as second:
                async with client_of(second) as client:
                    events = await follow(client, response_id)
                    after = await client.responses.create(
                        model="searches", input="Sure?", previous_response_id=response_id
                    )
    check_order(events)
    final = events[-1]["response"]
    assert final["status"] == "completed"
    assert [item["type"] for item in final["output"]] == ["file_search_call", "message", "message"]
    assert final["output"][2]["content"][0]["annotations"][0]["filename"] == "warranty.md"
    assert searches(embeddings) == 1
    answered = [body["messages"] for body in upstream.requests if body["messages"][-1]["role"] == "tool"]
    assert all("lasts two years" in messages[-1]["content"] for messages in answered[:2])
    assert "lasts two years" in str(upstream.requests[-1]["messages"])
    assert after.status == "completed"
