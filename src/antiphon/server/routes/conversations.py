"""``/v1/conversations``: conversations and their items."""

import msgspec
from msgspec import Struct

from antiphon.protocol.item_lists import list_items, shown
from antiphon.protocol.parse_conversations import parse_conversation, parse_metadata, parse_new_items
from antiphon.protocol.requests import Metadata
from antiphon.server.exchange import Bodies, Exchange
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

    def __init__(self, conversations: Conversations, bodies: Bodies) -> None:
        self._conversations = conversations
        self._store = conversations.store
        self._bodies = bodies

    async def create(self, exchange: Exchange) -> None:
        """A new conversation."""
        new = parse_conversation(await self._bodies.read(exchange))
        await _send(exchange, await self._conversations.create(exchange.tenant, new))

    async def retrieve(self, exchange: Exchange, conversation_id: str) -> None:
        """One conversation, without its items."""
        await _send(exchange, await self._store.conversation(exchange.tenant, conversation_id))

    async def update(self, exchange: Exchange, conversation_id: str) -> None:
        """Replace the metadata."""
        metadata = parse_metadata(await self._bodies.read(exchange))
        await _send(exchange, await self._store.set_metadata(exchange.tenant, conversation_id, metadata))

    async def delete(self, exchange: Exchange, conversation_id: str) -> None:
        """Forget a conversation; the responses that were made in it stay."""
        await self._store.delete_conversation(exchange.tenant, conversation_id)
        deleted = {"id": conversation_id, "object": "conversation.deleted", "deleted": True}
        await exchange.send_json(msgspec.json.encode(deleted))

    async def add_items(self, exchange: Exchange, conversation_id: str) -> None:
        """Append items; they come back with their ids."""
        exchange.query().check_include()
        items = parse_new_items(await self._bodies.read(exchange))
        kept = await self._conversations.add(exchange.tenant, conversation_id, items)
        await exchange.send_json(msgspec.json.encode(list_items(kept)))

    async def list_items(self, exchange: Exchange, conversation_id: str) -> None:
        """A page of the items."""
        page = exchange.query().page()
        found = await self._store.conversation_items(exchange.tenant, conversation_id, page)
        await exchange.send_json(msgspec.json.encode(list_items(found.items, has_more=found.has_more)))

    async def retrieve_item(self, exchange: Exchange, conversation_id: str, item_id: str) -> None:
        """One item."""
        exchange.query().check_include()
        item = await self._store.conversation_item(exchange.tenant, conversation_id, item_id)
        await exchange.send_json(msgspec.json.encode(shown(item)))

    async def delete_item(self, exchange: Exchange, conversation_id: str, item_id: str) -> None:
        """Take one item out; the answer is the conversation."""
        await _send(exchange, await self._conversations.remove(exchange.tenant, conversation_id, item_id))


async def _send(exchange: Exchange, conversation: Conversation) -> None:
    wire = _Conversation(
        id=conversation.id, created_at=conversation.created_at, metadata=conversation.metadata
    )
    await exchange.send_json(msgspec.json.encode(wire))
