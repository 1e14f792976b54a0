"""Builders of stored responses, and a durable store that a test fills and reads."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from antiphon.protocol.content import InputText, OutputText
from antiphon.protocol.items import Item, Message
from antiphon.protocol.requests import TextFormat, TextOptions
from antiphon.protocol.response import (
    InputTokensDetails,
    OutputTokensDetails,
    Response,
    ResponseStatus,
    Usage,
)
from antiphon.settings import Settings, StoreSettings
from antiphon.store.base import StoredResponse
from antiphon.store.ports import Stores
from antiphon.wiring import open_stores

USAGE = Usage(7, InputTokensDetails(), 5, OutputTokensDetails(), 12)


def turn(
    id: str,
    parent: str | None = None,
    *,
    prompt: str = "Hello?",
    answer: str | None = "Hi.",
    status: ResponseStatus = "completed",
    conversation: str | None = None,
    created_at: int = 1_000_000,
    **fields: Any,
) -> StoredResponse:
    """A question and its answer."""
    output: list[Any] = []
    if answer is not None:
        part = OutputText(text=answer)
        output.append(Message(id=f"msg_{id}", role="assistant", status="completed", content=[part]))
    response = Response(
        id=id,
        created_at=created_at,
        status=status,
        model=fields.pop("model", "tiny"),
        output=output,
        previous_response_id=parent,
        text=TextOptions(TextFormat(type="text"), "medium"),
        usage=fields.pop("usage", USAGE),
        **fields,
    )
    return StoredResponse(
        response=response, parent=parent, conversation=conversation, input=(question(id, prompt),)
    )


def question(id: str, text: str) -> Item:
    """A user message."""
    return Message(id=f"in_{id}", role="user", status="completed", content=[InputText(text=text)])


T = TypeVar("T")


def in_store(url: str, do: Callable[[Stores], Awaitable[T]]) -> T:
    """Run a coroutine function with the store at this URL."""

    async def run() -> T:
        async with open_stores(Settings(store=StoreSettings(url=url))) as store:
            return await do(store)

    return asyncio.run(run())


def save_responses(url: str, *turns: StoredResponse, tenant: str = "default") -> None:
    """Save these responses in order."""

    async def save(store: Stores) -> None:
        for stored in turns:
            await store.responses.save(tenant, stored)

    in_store(url, save)
