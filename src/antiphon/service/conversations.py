"""Conversations: named lists of items that responses, and callers by hand, append to."""

from collections.abc import Sequence
from dataclasses import dataclass

from antiphon.protocol.ids import Clock, IdSource
from antiphon.protocol.items import Item
from antiphon.protocol.parse_conversations import NewConversation
from antiphon.service.resolve import with_id
from antiphon.store.base import Conversation, Store


@dataclass(frozen=True, slots=True)
class Conversations:
    """What a caller does with conversations beyond reading them, which is the store's alone."""

    store: Store
    ids: IdSource
    clock: Clock

    async def create(self, tenant: str, new: NewConversation) -> Conversation:
        """A conversation with its first items."""
        conversation = Conversation(
            id=self.ids.new("conv"), created_at=int(self.clock()), metadata=new.metadata
        )
        await self.store.add_conversation(tenant, conversation, self._with_ids(new.items))
        return conversation

    async def add(self, tenant: str, conversation_id: str, items: Sequence[Item]) -> Sequence[Item]:
        """Append items; they come back as they are kept."""
        kept = self._with_ids(items)
        await self.store.add_items(tenant, conversation_id, kept)
        return kept

    async def remove(self, tenant: str, conversation_id: str, item_id: str) -> Conversation:
        """Take one item out; the conversation that it was in."""
        await self.store.delete_item(tenant, conversation_id, item_id)
        return await self.store.conversation(tenant, conversation_id)

    def _with_ids(self, items: Sequence[Item]) -> list[Item]:
        return [with_id(item, self.ids.new) for item in items]
