"""Conversations: named lists of items that responses, and callers by hand, append to."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from antiphon.errors import NotFound
from antiphon.protocol.ids import Clock, IdSource
from antiphon.protocol.items import Item
from antiphon.protocol.parse_conversations import NewConversation
from antiphon.protocol.stored_items import item_id
from antiphon.service.responses.history import identified
from antiphon.store.base import Conversation
from antiphon.store.ports import ConversationStore


@dataclass(frozen=True, slots=True)
class Conversations:
    """What a caller does with conversations beyond reading them, which is the store's alone."""

    store: ConversationStore
    ids: IdSource
    clock: Clock

    async def create(self, tenant: str, new: NewConversation) -> Conversation:
        """A conversation with its first items."""
        conversation = Conversation(
            id=self.ids.new("conv"), created_at=int(self.clock()), metadata=new.metadata
        )
        await self.store.add_conversation(tenant, conversation, identified(new.items, self.ids.new))
        return conversation

    async def add(self, tenant: str, conversation_id: str, items: Sequence[Item]) -> Sequence[Item]:
        """Append items; they come back as they are kept."""
        kept = identified(items, self.ids.new, await self._known(tenant, conversation_id, items))
        await self.store.add_items(tenant, conversation_id, kept)
        return kept

    async def remove(self, tenant: str, conversation_id: str, item_id: str) -> Conversation:
        """Take one item out; the conversation that it was in."""
        await self.store.delete_item(tenant, conversation_id, item_id)
        return await self.store.conversation(tenant, conversation_id)

    async def _known(self, tenant: str, conversation_id: str, items: Sequence[Item]) -> list[Item]:
        """Those of these items whose ids are taken in the conversation."""
        known: list[Item] = []
        for given in {item_id(item) for item in items} - {""}:
            with suppress(NotFound):
                known.append(await self.store.conversation_item(tenant, conversation_id, given))
        return known
