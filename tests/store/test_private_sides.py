"""Private sides of items and sealed tools: stored with the public side, read for the next turn, never
listed.
"""

import msgspec
import pytest
from msgspec.structs import replace

from antiphon.errors import NotFound
from antiphon.protocol.tool_items import FileSearchCall
from antiphon.store.base import Conversation, StoredItem
from antiphon.store.ports import Stores
from tests.store.conftest import CountRows
from tests.store.values import ALL_ITEMS, ended, events, message, queued, turn

CANARY = "canary-7f3a"
PRIVATE = msgspec.json.encode({"results": [{"text": CANARY}]}).decode()
SEARCH = FileSearchCall(id="fs_1", status="completed", queries=["q"])
CONVERSATION = Conversation(id="conv_1", created_at=1)


def without(value: object) -> bool:
    return CANARY not in repr(value)


async def test_the_next_turn_reads_private_sides_that_are_not_listed(store: Stores) -> None:
    first = turn("1")
    searched = replace(first.response, output=[SEARCH, *first.response.output])
    await store.responses.save("t", replace(first, response=searched, private={"fs_1": PRIVATE}))
    await store.responses.save("t", turn("2", "1"))

    assert (await store.responses.continuation("t", "resp_1")).private == {"fs_1": PRIVATE}
    assert (await store.responses.continuation("t", "resp_2")).private == {"fs_1": PRIVATE}
    assert await store.responses.item("t", "fs_1") == StoredItem(SEARCH, PRIVATE)

    assert await store.responses.response("t", "resp_1") == searched
    assert without(await store.responses.response("t", "resp_1"))
    assert without(await store.responses.input_items("t", "resp_2", ALL_ITEMS))
    assert without(await store.responses.list_responses("t", limit=10))


async def test_a_private_side_is_erased_with_its_item(store: Stores, count_rows: CountRows) -> None:
    await store.responses.save("t", replace(turn("1"), private={"msg_1?": PRIVATE}))
    await store.responses.delete("t", "resp_1")
    with pytest.raises(NotFound):
        await store.responses.item("t", "msg_1?")
    assert await count_rows("items") == 0


async def test_items_of_a_conversation_have_private_sides(store: Stores) -> None:
    await store.conversations.add_conversation("t", CONVERSATION, [message("a")], {"msg_a": PRIVATE})
    await store.conversations.add_items("t", "conv_1", [message("b"), SEARCH], {"fs_1": PRIVATE})
    entered = await store.conversations.enter("t", "conv_1", "resp_1", 60)
    assert entered.private == {"msg_a": PRIVATE, "fs_1": PRIVATE}
    assert without(entered.items)
    await store.conversations.leave("t", "conv_1", "resp_1")

    assert without(await store.conversations.conversation_items("t", "conv_1", ALL_ITEMS))
    assert without(await store.conversations.conversation_item("t", "conv_1", "fs_1"))
    await store.conversations.delete_item("t", "conv_1", "fs_1")
    entered = await store.conversations.enter("t", "conv_1", "resp_1", 60)
    assert entered.private == {"msg_a": PRIVATE}


async def test_a_background_response_has_private_sides_from_the_start(store: Stores) -> None:
    waiting = replace(queued("1"), private={"msg_1?": PRIVATE}, sealed_tools="sealed")
    await store.background.submit("t", waiting, b"{}", events(0), "owner")
    assert without(await store.responses.input_items("t", "resp_1", ALL_ITEMS))
    claim = await store.background.claim("t", "resp_1")
    assert claim is not None
    assert (claim.private, claim.sealed_tools) == ({"msg_1?": PRIVATE}, "sealed")

    final = replace(ended("1"), private={"msg_1?": PRIVATE, "msg_1!": PRIVATE}, sealed_tools="sealed")
    await store.background.finish("t", claim.token, final, events(1))
    continued = await store.responses.continuation("t", "resp_1")
    assert continued.private == {"msg_1?": PRIVATE, "msg_1!": PRIVATE}
    assert continued.sealed_tools == "sealed"

    await store.background.submit("t", queued("2", "1"), b"{}", events(0), "owner")
    assert (await store.background.base("t", "resp_2")).private == continued.private


async def test_sealed_tools_are_read_only_for_the_next_turn(store: Stores) -> None:
    await store.responses.save("t", replace(turn("1"), sealed_tools=CANARY))
    await store.responses.save("t", turn("2", "1"))
    assert (await store.responses.continuation("t", "resp_1")).sealed_tools == CANARY
    assert (await store.responses.continuation("t", "resp_2")).sealed_tools is None
    assert without(await store.responses.response("t", "resp_1"))
    assert without(await store.responses.list_responses("t", limit=10))


async def test_a_conversation_has_the_sealed_tools_of_its_last_response(store: Stores) -> None:
    await store.conversations.add_conversation("t", CONVERSATION, [])
    await store.conversations.enter("t", "conv_1", "resp_1", 60)
    await store.responses.save("t", replace(turn("1", conversation="conv_1"), sealed_tools="sealed"))
    assert (await store.conversations.enter("t", "conv_1", "resp_2", 60)).sealed_tools == "sealed"
