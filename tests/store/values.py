"""Small responses, items and events for the tests of stores."""

from collections.abc import Iterable

import msgspec
from msgspec.structs import replace

from antiphon.protocol.content import OutputText
from antiphon.protocol.items import FunctionCall, Item, Message
from antiphon.protocol.parse_create import create_from
from antiphon.protocol.response import Response, ResponseStatus, new_response
from antiphon.protocol.stored_items import item_id
from antiphon.store.base import Events, Page, StoredResponse
from antiphon.store.ports import Stores

ALL_ITEMS = Page(limit=1000, order="asc")
REQUEST = create_from(model="m", input="x")


def message(text: str) -> Message:
    return Message(id=f"msg_{text}", role="user", content=text)


def answers(text: str) -> Message:
    part = OutputText(text=text, annotations=[{"type": "url_citation", "index": 1}])
    return Message(id=f"msg_{text}", status="completed", role="assistant", content=[part])


def calls(name: str) -> FunctionCall:
    return FunctionCall(id=f"fc_{name}", call_id=f"call_{name}", name=name, arguments='{"a": 1}')


def response(
    response_id: str, text: str | None = None, *, status: ResponseStatus = "completed", created_at: int = 1
) -> Response:
    """A response whose output is one message with this text."""
    fresh = new_response(REQUEST, id=response_id, created_at=created_at)
    return replace(fresh, status=status, output=[] if text is None else [answers(text)])


def turn(
    name: str,
    parent: str | None = None,
    *,
    status: ResponseStatus = "completed",
    conversation: str | None = None,
    expires_at: int | None = None,
    created_at: int = 1,
) -> StoredResponse:
    """The response `resp_NAME` with the input `NAME?` and the output `NAME!`."""
    return StoredResponse(
        response=response(f"resp_{name}", f"{name}!", status=status, created_at=created_at),
        parent=None if parent is None else f"resp_{parent}",
        conversation=conversation,
        input=(message(f"{name}?"),),
        expires_at=expires_at,
    )


def queued(name: str, parent: str | None = None, *, conversation: str | None = None) -> StoredResponse:
    """The same response before it is claimed."""
    complete = turn(name, parent, conversation=conversation)
    return replace(complete, response=replace(complete.response, status="queued", output=[], background=True))


def ended(name: str, parent: str | None = None, *, conversation: str | None = None) -> StoredResponse:
    """The same response after completion."""
    complete = turn(name, parent, conversation=conversation)
    return replace(complete, response=replace(complete.response, background=True))


def events(first: int, count: int = 1) -> Events:
    """Rendered events with these numbers."""
    data = "".join(f"event: e\ndata: {number} ü\n\n" for number in range(first, first + count))
    return Events(first, count, data.encode())


def texts(items: Iterable[Item]) -> list[str]:
    """The texts of items: their ids without the prefix."""
    return [item_id(item).partition("_")[2] for item in items]


def names(listed: Iterable[StoredResponse]) -> list[str]:
    """The names of responses: their ids without the prefix."""
    return [stored.response.id.partition("_")[2] for stored in listed]


def encoded(value: object) -> bytes:
    return msgspec.json.encode(value)


async def history(store: Stores, name: str, tenant: str = "t") -> list[str]:
    """The history for a continuation of `resp_NAME`."""
    return texts((await store.responses.continuation(tenant, f"resp_{name}")).items)
