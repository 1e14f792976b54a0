"""``/v1/conversations``: conversations and their items."""

from typing import ClassVar

import msgspec
from msgspec import Struct

from antiphon.caller import DELETE, READ, WRITE
from antiphon.protocol.content import Metadata
from antiphon.protocol.ids import CONVERSATION_ID
from antiphon.protocol.item_lists import list_items, shown
from antiphon.protocol.parse_conversations import parse_conversation, parse_metadata, parse_new_items
from antiphon.server.exchange import BodyReader, Exchange
from antiphon.server.routing import Route
from antiphon.service.conversations import Conversations
from antiphon.store.base import Conversation


class _Conversation(Struct, frozen=True, kw_only=True):
    """A conversation on the wire."""

    id: str
    object: str = "conversation"
    created_at: int
    metadata: Metadata


class ConversationRoutes:
    """The routes of `/v1/conversations`."""

    def __init__(self, conversations: Conversations, bodies: BodyReader) -> None:
        self._conversations = conversations
        self._bodies = bodies

    async def create(self, exchange: Exchange) -> None:
        """A new conversation."""
        new = parse_conversation(await self._bodies.read(exchange))
        await _send(exchange, await self._conversations.create(exchange.caller, new))

    async def retrieve(self, exchange: Exchange, conversation_id: str) -> None:
        """One conversation, without its items."""
        await _send(exchange, await self._conversations.retrieve(exchange.caller, conversation_id))

    async def update(self, exchange: Exchange, conversation_id: str) -> None:
        """Replace the metadata."""
        metadata = parse_metadata(await self._bodies.read(exchange))
        await _send(
            exchange, await self._conversations.set_metadata(exchange.caller, conversation_id, metadata)
        )

    async def delete(self, exchange: Exchange, conversation_id: str) -> None:
        """Delete a conversation; the responses that were made in it stay."""
        await self._conversations.delete(exchange.caller, conversation_id)
        deleted = {"id": conversation_id, "object": "conversation.deleted", "deleted": True}
        await exchange.send_json(msgspec.json.encode(deleted))

    async def add_items(self, exchange: Exchange, conversation_id: str) -> None:
        """Append items; the answer has them with their ids."""
        exchange.query().check_include()
        new = parse_new_items(await self._bodies.read(exchange))
        added = await self._conversations.add(exchange.caller, conversation_id, new)
        await exchange.send_json(msgspec.json.encode(list_items(added)))

    async def list_items(self, exchange: Exchange, conversation_id: str) -> None:
        """A page of the items."""
        page = exchange.query().page()
        found = await self._conversations.items(exchange.caller, conversation_id, page)
        await exchange.send_json(msgspec.json.encode(list_items(found.items, has_more=found.has_more)))

    async def retrieve_item(self, exchange: Exchange, conversation_id: str, item_id: str) -> None:
        """One item."""
        exchange.query().check_include()
        item = await self._conversations.item(exchange.caller, conversation_id, item_id)
        await exchange.send_json(msgspec.json.encode(shown(item)))

    async def delete_item(self, exchange: Exchange, conversation_id: str, item_id: str) -> None:
        """Remove one item; the answer is the conversation."""
        await _send(exchange, await self._conversations.remove(exchange.caller, conversation_id, item_id))

    _ONE, _ITEMS = "/v1/conversations/{id}", "/v1/conversations/{id}/items"
    ROUTES: ClassVar = (
        Route("POST /v1/conversations", create, WRITE, stateful=True),
        Route(f"GET {_ONE}", retrieve, READ, stateful=True, id_form=CONVERSATION_ID),
        Route(f"POST {_ONE}", update, WRITE, stateful=True, id_form=CONVERSATION_ID),
        Route(f"DELETE {_ONE}", delete, DELETE, stateful=True, id_form=CONVERSATION_ID),
        Route(f"POST {_ITEMS}", add_items, WRITE, stateful=True, id_form=CONVERSATION_ID),
        Route(f"GET {_ITEMS}", list_items, READ, stateful=True, id_form=CONVERSATION_ID),
        Route(f"GET {_ITEMS}/{{item_id}}", retrieve_item, READ, stateful=True, id_form=CONVERSATION_ID),
        Route(f"DELETE {_ITEMS}/{{item_id}}", delete_item, DELETE, stateful=True, id_form=CONVERSATION_ID),
    )


async def _send(exchange: Exchange, conversation: Conversation) -> None:
    wire = _Conversation(
        id=conversation.id, created_at=conversation.created_at, metadata=conversation.metadata
    )
    await exchange.send_json(msgspec.json.encode(wire))
