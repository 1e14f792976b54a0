"""Loads the exchange after which a chat continues, from the store or from a server."""

from collections.abc import Iterable
from contextlib import aclosing
from dataclasses import dataclass
from urllib.parse import quote

import msgspec
from msgspec import Struct

from antiphon.caller import DEFAULT_TENANT
from antiphon.cli.answers import Answer
from antiphon.cli.clients import open_server_client
from antiphon.cli.stored.export import all_responses
from antiphon.errors import BackendBroken, NotFound
from antiphon.protocol.content import JsonObject
from antiphon.protocol.items import Item, OpaqueItem
from antiphon.settings import Settings
from antiphon.store.base import Page
from antiphon.store.ports import ResponseStore
from antiphon.wiring import open_stores

NEWEST = "newest"
"""Means the newest completed response."""

MAX_SEARCHED_ITEMS = 20
"""Items before an answer that are searched for the question."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """A question and its answer. The question is empty if no user message has text."""

    question: str
    answer: Answer


class _Part(Struct, frozen=True):
    text: str = ""


class _Message(Struct, frozen=True):
    content: str | list[_Part] = ""

    @property
    def text(self) -> str:
        if isinstance(self.content, str):
            return self.content
        return "\n".join(part.text for part in self.content if part.text)


class _Items(Struct, frozen=True):
    data: list[JsonObject]


async def load_from_server(base_url: str, response_id: str) -> Exchange:
    """An exchange that is stored at a server."""
    path = f"responses/{quote(response_id, safe='')}"
    async with open_server_client(base_url) as remote:
        answer = await remote.get(path)
        items = await remote.get(f"{path}/input_items?order=desc&limit={MAX_SEARCHED_ITEMS}")
    return Exchange(_question(msgspec.convert(items, _Items).data), Answer.of(answer))


async def load_from_store(settings: Settings, response_id: str) -> Exchange:
    """An exchange in the store; `NEWEST` means the newest completed one."""
    async with open_stores(settings) as stores:
        store = stores.responses
        if response_id == NEWEST:
            response_id = await _newest(store)
        response = await store.response(DEFAULT_TENANT, response_id)
        page = await store.input_items(
            DEFAULT_TENANT, response_id, Page(limit=MAX_SEARCHED_ITEMS, order="desc")
        )
    return Exchange(_question(map(_body, page.items)), Answer.of(msgspec.to_builtins(response)))


async def newest_in_store(settings: Settings) -> str:
    """The id of the newest completed response in the store."""
    async with open_stores(settings) as stores:
        return await _newest(stores.responses)


async def _newest(store: ResponseStore) -> str:
    async with aclosing(all_responses(store, DEFAULT_TENANT)) as responses:
        async for stored in responses:
            if stored.response.status == "completed":
                return stored.response.id
    raise NotFound("There is no completed response to continue. Start with `antiphon chat`.")


def _body(item: Item) -> JsonObject:
    return item.body if isinstance(item, OpaqueItem) else msgspec.to_builtins(item)


def _question(newest_first: Iterable[JsonObject]) -> str:
    """The text of the newest user message."""
    asked = next((item for item in newest_first if item.get("role") == "user"), None)
    try:
        return "" if asked is None else msgspec.convert(asked, _Message).text
    except msgspec.ValidationError as error:
        raise BackendBroken(f"The question is not a message: {error}.") from None
