"""The official `openai` SDK on stored objects: responses, their input, conversations, token counts."""

from collections.abc import AsyncGenerator

import openai
import pytest
from openai.types.conversations import Message

from antiphon import Antiphon, Route, ScriptedBackend, Settings
from antiphon.settings import SealSettings, StoreSettings

SETTINGS = Settings(store=StoreSettings(url="memory:"), seal=SealSettings(key="test"))


@pytest.fixture
async def client() -> AsyncGenerator[openai.AsyncOpenAI, None]:
    backend = ScriptedBackend.saying("Hel", "lo")
    async with (
        Antiphon(SETTINGS, routes=[Route("m", backend)]) as antiphon,
        antiphon.openai_client() as client,
    ):
        yield client


def text_of(item: object) -> str:
    assert isinstance(item, Message)
    part = item.content[0]
    assert part.type in ("input_text", "output_text")
    return part.text  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownVariableType]


@pytest.mark.requirement("PROTOCOL/state-retrieve")
async def test_a_response_is_retrieved_and_deleted(client: openai.AsyncOpenAI) -> None:
    created = await client.responses.create(model="m", input="hi", metadata={"a": "b"})
    retrieved = await client.responses.retrieve(created.id, include=["message.output_text.logprobs"])
    assert retrieved == created
    assert retrieved.output_text == "Hello"
    await client.responses.delete(created.id)
    with pytest.raises(openai.NotFoundError) as caught:
        await client.responses.retrieve(created.id)
    assert caught.value.code == "not_found"


@pytest.mark.requirement("PROTOCOL/background-completes")
async def test_a_background_response_is_awaited_streamed_and_stored(client: openai.AsyncOpenAI) -> None:
    created = await client.responses.create(model="m", input="hi", background=True)
    assert created.status in ("queued", "in_progress", "completed")
    stream = await client.responses.retrieve(created.id, stream=True)
    events = [event async for event in stream]
    assert events[-1].type == "response.completed"
    rest = await client.responses.retrieve(created.id, stream=True, starting_after=events[1].sequence_number)
    assert [event.sequence_number async for event in rest] == [event.sequence_number for event in events[2:]]
    assert (await client.responses.retrieve(created.id)).output_text == "Hello"
    assert (await client.responses.cancel(created.id)).status == "completed"


@pytest.mark.requirement("PROTOCOL/background-cancel-foreground")
async def test_a_foreground_response_cannot_be_cancelled(client: openai.AsyncOpenAI) -> None:
    created = await client.responses.create(model="m", input="hi")
    with pytest.raises(openai.BadRequestError):
        await client.responses.cancel(created.id)


@pytest.mark.requirement("PROTOCOL/state-input-items-pages")
async def test_input_items_come_page_by_page(client: openai.AsyncOpenAI) -> None:
    sent = [{"role": "user", "content": str(number)} for number in range(7)]
    created = await client.responses.create(model="m", input=sent)  # pyright: ignore[reportArgumentType] -- plain JSON
    page = await client.responses.input_items.list(created.id, limit=3, order="asc")
    assert len(page.data) == 3
    assert page.has_more is True
    texts = [item.content[0].text async for item in page]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownVariableType, reportOptionalSubscript]
    assert texts == ["0", "1", "2", "3", "4", "5", "6"]
    newest = await client.responses.input_items.list(created.id, limit=1)
    assert newest.data[0].content[0].text == "6"  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportOptionalSubscript]


@pytest.mark.requirement("PROTOCOL/endpoints-input-tokens")
async def test_input_tokens_are_counted(client: openai.AsyncOpenAI) -> None:
    few = await client.responses.input_tokens.count(model="m", input="hi")
    first = await client.responses.create(model="m", input="a long question " * 20)
    more = await client.responses.input_tokens.count(
        model="m", input="hi", instructions="Be kind.", previous_response_id=first.id
    )
    assert few.object == "response.input_tokens"
    assert 0 < few.input_tokens < 20 < more.input_tokens


@pytest.mark.requirement("PROTOCOL/conversations-create")
async def test_conversations_are_created_changed_and_deleted(client: openai.AsyncOpenAI) -> None:
    new_conversation = await client.conversations.create(metadata={"topic": "a"})
    assert new_conversation.object == "conversation"
    assert (await client.conversations.retrieve(new_conversation.id)) == new_conversation
    changed = await client.conversations.update(new_conversation.id, metadata={"topic": "b"})
    assert changed.metadata == {"topic": "b"}
    deleted = await client.conversations.delete(new_conversation.id)
    assert (deleted.id, deleted.object, deleted.deleted) == (
        new_conversation.id,
        "conversation.deleted",
        True,
    )
    with pytest.raises(openai.NotFoundError):
        await client.conversations.retrieve(new_conversation.id)


@pytest.mark.requirement("PROTOCOL/conversations-items")
async def test_items_of_a_conversation(client: openai.AsyncOpenAI) -> None:
    new_conversation = await client.conversations.create(items=[{"role": "user", "content": "one"}])
    added = await client.conversations.items.create(
        new_conversation.id,
        items=[
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "two"}]},
            {"role": "assistant", "content": "three"},
        ],
    )
    assert [text_of(item) for item in added.data] == ["two", "three"]
    pages = client.conversations.items.list(new_conversation.id, limit=1, order="asc")
    assert [text_of(item) async for item in pages] == ["one", "two", "three"]
    second = added.data[0]
    assert second.id is not None
    assert await client.conversations.items.retrieve(second.id, conversation_id=new_conversation.id) == second
    remaining = await client.conversations.items.delete(second.id, conversation_id=new_conversation.id)
    assert remaining.id == new_conversation.id
    rest = client.conversations.items.list(new_conversation.id)
    assert [text_of(item) async for item in rest] == ["three", "one"]


async def test_responses_go_on_in_a_conversation(client: openai.AsyncOpenAI) -> None:
    new_conversation = await client.conversations.create()
    created = await client.responses.create(model="m", input="hi", conversation=new_conversation.id)
    assert created.conversation is not None
    assert created.conversation.id == new_conversation.id
    items = client.conversations.items.list(new_conversation.id, order="asc")
    assert [text_of(item) async for item in items] == ["hi", "Hello"]
