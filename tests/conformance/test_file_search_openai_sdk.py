"""File search with the official client, on real vector stores: from a file to a cited answer."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import openai
import pytest
from openai.types.responses import (
    ResponseFileSearchToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
    ResponseOutputTextAnnotationAddedEvent,
)
from openai.types.responses.response_output_text import AnnotationFileCitation

from antiphon import Antiphon, Route, ScriptedBackend, Settings
from antiphon.settings import SealSettings, UpstreamSettings
from antiphon.settings.sections import EmbeddingsSettings
from antiphon.turn.chunks import Finished, TextDelta
from tests.embeddings.embedding_server import run_embedding_server
from tests.service.responses.searches import LOOK, SEARCH, call, outputs

WARRANTY = "# Warranty\n\nThe warranty of every kettle lasts two years.\n"
RETURNS = "# Returns\n\nA toaster can be returned within thirty days.\n"


@asynccontextmanager
async def running(*turns: Any) -> AsyncGenerator[tuple[openai.AsyncOpenAI, ScriptedBackend, str]]:
    """A client, the model, and a vector store with two files."""
    backend = ScriptedBackend(*([list(turn)] for turn in turns))
    async with run_embedding_server() as embeddings:
        settings = Settings(
            seal=SealSettings(key="test"),
            embeddings=EmbeddingsSettings(local=False),
            upstreams=(
                UpstreamSettings(base_url=embeddings.url, models=("m",), embedding_models=("theirs",)),
            ),
        )
        async with Antiphon(settings, routes=[Route("m", backend)]) as service:
            client = service.openai_client()
            store = await client.vector_stores.create(name="handbook")
            for name, text in (("warranty.md", WARRANTY), ("returns.md", RETURNS)):
                added = await client.vector_stores.files.upload_and_poll(
                    vector_store_id=store.id, file=(name, text.encode())
                )
                assert added.status == "completed"
            yield client, backend, store.id


def answer(text: str) -> list[Any]:
    return [TextDelta(text), Finished("stop")]


@pytest.mark.requirement("HOSTED/loop-rounds", "HOSTED/citations-markers", "SEED-004/why-retrieval")
async def test_a_question_is_answered_with_citations() -> None:
    search = [*call("warranty of a kettle"), Finished("tool_calls")]
    async with running(search, answer("Two years [1].")) as (client, backend, store_id):
        tool: Any = {"type": "file_search", "vector_store_ids": [store_id], "max_num_results": 1}
        async with client.responses.stream(
            model="m", input="How long is the warranty?", tools=[tool]
        ) as stream:
            events = [event async for event in stream]
            final = await stream.get_final_response()
    types = [event.type for event in events if "file_search_call" in event.type]
    assert types == [
        "response.file_search_call.in_progress",
        "response.file_search_call.searching",
        "response.file_search_call.completed",
    ]
    assert any(isinstance(event, ResponseOutputTextAnnotationAddedEvent) for event in events)
    searched, message = final.output
    assert isinstance(searched, ResponseFileSearchToolCall)
    assert (searched.status, searched.queries, searched.results) == (
        "completed",
        ["warranty of a kettle"],
        None,
    )
    assert isinstance(message, ResponseOutputMessage)
    (part,) = message.content
    assert isinstance(part, ResponseOutputText)
    (citation,) = part.annotations
    assert isinstance(citation, AnnotationFileCitation)
    assert (citation.filename, citation.index, part.text) == ("warranty.md", 10, "Two years .")
    assert citation.to_dict()["antiphon"]["vector_store_id"] == store_id  # pyright: ignore[reportIndexIssue]
    assert "lasts two years" in outputs(backend)[0]
    assert "toaster" not in outputs(backend)[0]


async def test_results_and_filters_are_typed() -> None:
    search = [*call("warranty", "returned toaster"), Finished("tool_calls")]
    async with running(search, answer("No.")) as (client, _, store_id):
        for entry in (await client.vector_stores.files.list(store_id)).data:
            await client.vector_stores.files.update(
                entry.id, vector_store_id=store_id, attributes={"kind": entry.id}
            )
        wanted = (await client.vector_stores.files.list(store_id)).data[0]
        tool: Any = {
            "type": "file_search",
            "vector_store_ids": [store_id],
            "filters": {"type": "eq", "key": "kind", "value": wanted.id},
        }
        response = await client.responses.create(
            model="m", input="hi", tools=[tool], include=["file_search_call.results"]
        )
        searched = response.output[0]
        assert isinstance(searched, ResponseFileSearchToolCall)
        assert searched.results
        assert {result.file_id for result in searched.results} == {wanted.id}
        assert searched.results[0].attributes == {"kind": wanted.id}
        assert 0 <= (searched.results[0].score or 0) <= 1


async def test_a_client_tool_and_the_next_turn() -> None:
    look = [*call(name="look", index=1), *call("kettle"), Finished("tool_calls")]
    async with running(look, answer("Two years [1].")) as (client, backend, store_id):
        tools: Any = [{"type": "file_search", "vector_store_ids": [store_id]}, LOOK]
        first = await client.responses.create(model="m", input="hi", tools=tools)
        calls = [item for item in first.output if item.type == "function_call"]
        outcome: Any = [{"type": "function_call_output", "call_id": calls[0].call_id, "output": "seen"}]
        second = await client.responses.create(model="m", input=outcome, previous_response_id=first.id)
    assert second.output_text == "Two years ."
    assert any("lasts two years" in shown for shown in outputs(backend))


async def test_a_store_that_does_not_exist_is_a_404() -> None:
    async with running(SEARCH) as (client, _, store_id):
        await client.vector_stores.delete(store_id)
        tools: Any = [{"type": "file_search", "vector_store_ids": [store_id]}]
        with pytest.raises(openai.NotFoundError) as refused:
            await client.responses.create(model="m", input="hi", tools=tools)
        body: Any = refused.value.body
        assert body["param"] == "tools[0].vector_store_ids"
