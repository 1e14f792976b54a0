"""Conversations: ids and times are assigned here, and stored values are returned."""

import pytest

from antiphon.caller import Caller
from antiphon.errors import NotFound
from antiphon.protocol.items import Message, OpaqueItem
from antiphon.protocol.parse_conversations import NewConversation, NewItems
from antiphon.protocol.stored_items import item_id
from antiphon.service.conversations import Conversations
from antiphon.store.base import Page
from tests.service.conftest import MakeCreator

CALLER = Caller.of("t")

MESSAGE = Message(role="user", content="x")


async def test_items_without_ids_get_them_by_their_kind(make_creator: MakeCreator) -> None:
    creator = make_creator()
    conversations = Conversations(
        creator.store.conversations,
        creator.ids,
        creator.clock,
        creator.parts.seal_key,
        creator.parts.contexts.checks,
    )
    created = await conversations.create(CALLER, NewConversation(NewItems((MESSAGE,), ()), {"a": "b"}))
    assert (created.id[:5], created.created_at, created.metadata) == ("conv_", 1000, {"a": "b"})
    mine = Message(id="msg_mine", role="user", content="y")
    added = await conversations.add(
        CALLER, created.id, NewItems((MESSAGE, OpaqueItem("program", {"type": "program"}), mine), ())
    )
    assert [item_id(item).partition("_")[0] for item in added] == ["msg", "item", "msg"]
    assert added[2] == mine
    held = await creator.store.conversations.conversation_items("t", created.id, Page(order="asc"))
    assert list(held.items[1:]) == list(added)
    assert len({item_id(item) for item in held.items}) == 4


@pytest.mark.requirement("PROTOCOL/conversations-item-removed")
async def test_removing_an_item_returns_the_conversation(make_creator: MakeCreator) -> None:
    creator = make_creator()
    conversations = Conversations(
        creator.store.conversations,
        creator.ids,
        creator.clock,
        creator.parts.seal_key,
        creator.parts.contexts.checks,
    )
    created = await conversations.create(CALLER, NewConversation(NewItems((), ()), {}))
    (added,) = await conversations.add(CALLER, created.id, NewItems((MESSAGE,), ()))
    assert await conversations.remove(CALLER, created.id, item_id(added)) == created
    with pytest.raises(NotFound):
        await conversations.remove(CALLER, created.id, item_id(added))
