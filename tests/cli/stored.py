"""Responses to be stored, made in one line."""

from typing import Any

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
from antiphon.store.base import StoredResponse

USAGE = Usage(7, InputTokensDetails(), 5, OutputTokensDetails(), 12)


def turn(
    id: str,
    parent: str | None = None,
    *,
    asked: str = "Hello?",
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
        response=response, parent=parent, conversation=conversation, input=(question(id, asked),)
    )


def question(id: str, text: str) -> Item:
    """What a user said."""
    return Message(id=f"in_{id}", role="user", status="completed", content=[InputText(text=text)])
