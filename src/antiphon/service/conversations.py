"""Conversations: named lists of items that responses, and callers by hand, append to."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from antiphon.caller import Caller
from antiphon.errors import NotFound
from antiphon.protocol.content import Metadata
from antiphon.protocol.ids import Clock, IdSource
from antiphon.protocol.items import Item
from antiphon.protocol.parse_conversations import NewConversation, NewItems
from antiphon.protocol.stored_items import item_id
from antiphon.service.checks import Checks
from antiphon.service.responses.history import identified
from antiphon.store.base import Conversation, ItemPage, Page, PrivateSides
from antiphon.store.ports import ConversationStore
from antiphon.turn.private_sides import public_side
from antiphon.turn.sealing import SealKey


@dataclass(frozen=True, slots=True)
class Conversations:
    """The operations on conversations."""

    store: ConversationStore
    ids: IdSource
    clock: Clock
    seal_key: SealKey
    checks: Checks

    async def create(self, caller: Caller, new: NewConversation) -> Conversation:
        """A conversation with its first items."""
        conversation = Conversation(
            id=self.ids.new("conv"), created_at=int(self.clock()), metadata=new.metadata
        )
        await self.checks.definitions(caller.tenant, new.items.unchecked)
        items, private = self._with_private(identified(new.items.items, self.ids.new), caller.tenant)
        await self.store.add_conversation(caller.tenant, conversation, items, private)
        return conversation

    async def retrieve(self, caller: Caller, conversation_id: str) -> Conversation:
        """One conversation, without its items."""
        return await self.store.conversation(caller.tenant, conversation_id)

    async def set_metadata(self, caller: Caller, conversation_id: str, metadata: Metadata) -> Conversation:
        """Replace the metadata."""
        return await self.store.set_metadata(caller.tenant, conversation_id, metadata)

    async def delete(self, caller: Caller, conversation_id: str) -> None:
        """Delete a conversation; the responses that were made in it stay."""
        await self.store.delete_conversation(caller.tenant, conversation_id)

    async def add(self, caller: Caller, conversation_id: str, new: NewItems) -> Sequence[Item]:
        """Append items; returns them as they are stored."""
        await self.checks.definitions(caller.tenant, new.unchecked)
        known = await self._known(caller.tenant, conversation_id, new.items)
        added = identified(new.items, self.ids.new, known)
        public, private = self._with_private(added, caller.tenant)
        await self.store.add_items(caller.tenant, conversation_id, public, private)
        return public

    async def items(self, caller: Caller, conversation_id: str, page: Page) -> ItemPage:
        """A page of the items."""
        return await self.store.conversation_items(caller.tenant, conversation_id, page)

    async def item(self, caller: Caller, conversation_id: str, item_id: str) -> Item:
        """One item."""
        return await self.store.conversation_item(caller.tenant, conversation_id, item_id)

    async def remove(self, caller: Caller, conversation_id: str, item_id: str) -> Conversation:
        """Remove one item; returns the conversation."""
        await self.store.delete_item(caller.tenant, conversation_id, item_id)
        return await self.store.conversation(caller.tenant, conversation_id)

    def _with_private(self, items: Sequence[Item], tenant: str) -> tuple[Sequence[Item], PrivateSides]:
        """The items without the secrets of tools that they declare, and those, sealed."""
        sealer = self.seal_key.sealer(tenant)
        sides = [public_side(item, sealer) for item in items]
        private = {item_id(item): side for item, side in sides if side is not None}
        return [item for item, _ in sides], private

    async def _known(self, tenant: str, conversation_id: str, items: Sequence[Item]) -> list[Item]:
        """The items of the conversation that have an id of one of these items."""
        known: list[Item] = []
        for given in {item_id(item) for item in items} - {""}:
            with suppress(NotFound):
                known.append(await self.store.conversation_item(tenant, conversation_id, given))
        return known
