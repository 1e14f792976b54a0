"""Conversations: ids and times are given here, and what comes back is what is kept."""

import pytest

from antiphon.caller import Caller
from antiphon.errors import NotFound
from antiphon.protocol.items import Message, OpaqueItem
from antiphon.protocol.parse_conversations import NewConversation
from antiphon.protocol.stored_items import item_id
from antiphon.service.conversations import Conversations
from antiphon.store.base import Page
from tests.service.conftest import MakeCreator

CALLER = Caller.of("t")

SAID = Message(role="user", content="x")


async def test_items_without_ids_get_them_by_their_kind(make_creator: MakeCreator) -> None:
    creator = make_creator()
    conversations = Conversations(
        creator.store.conversations, creator.ids, creator.clock, creator.parts.sealer
    )
    made = await conversations.create(CALLER, NewConversation((SAID,), {"a": "b"}))
    assert (made.id[:5], made.created_at, made.metadata) == ("conv_", 1000, {"a": "b"})
    mine = Message(id="msg_mine", role="user", content="y")
    kept = await conversations.add(CALLER, made.id, [SAID, OpaqueItem("program", {"type": "program"}), mine])
    assert [item_id(item).partition("_")[0] for item in kept] == ["msg", "item", "msg"]
    assert kept[2] == mine
    held = await creator.store.conversations.conversation_items("t", made.id, Page(order="asc"))
    assert list(held.items[1:]) == list(kept)
    assert len({item_id(item) for item in held.items}) == 4


@pytest.mark.requirement("PROTOCOL/conversations-item-removed")
async def test_taking_an_item_out_gives_the_conversation(make_creator: MakeCreator) -> None:
    creator = make_creator()
    conversations = Conversations(
        creator.store.conversations, creator.ids, creator.clock, creator.parts.sealer
    )
    made = await conversations.create(CALLER, NewConversation((), {}))
    (kept,) = await conversations.add(CALLER, made.id, [SAID])
    assert await conversations.remove(CALLER, made.id, item_id(kept)) == made
    with pytest.raises(NotFound):
        await conversations.remove(CALLER, made.id, item_id(kept))
