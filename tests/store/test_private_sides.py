"""Private sides of items and sealed tools: stored beside what is public, read for the next turn, never listed."""

import msgspec
import pytest
from msgspec.structs import replace

from antiphon.errors import NotFound
from antiphon.protocol.hosted_items import FileSearchCall
from antiphon.store.base import Conversation, Store, StoredItem
from tests.store.conftest import CountRows
from tests.store.values import WHOLE, ended, events, queued, says, turn

CANARY = "canary-7f3a"
PRIVATE = msgspec.json.encode({"results": [{"text": CANARY}]}).decode()
SEARCH = FileSearchCall(id="fs_1", status="completed", queries=["q"])
CONVERSATION = Conversation(id="conv_1", created_at=1)


def without(value: object) -> bool:
    return CANARY not in repr(value)


async def test_the_next_turn_reads_what_no_listing_shows(store: Store) -> None:
    first = turn("1")
    searched = replace(first.response, output=[SEARCH, *first.response.output])
    await store.save("t", replace(first, response=searched, private={"fs_1": PRIVATE}))
    await store.save("t", turn("2", "1"))

    assert (await store.continuation("t", "resp_1")).private == {"fs_1": PRIVATE}
    assert (await store.continuation("t", "resp_2")).private == {"fs_1": PRIVATE}
    assert await store.item("t", "fs_1") == StoredItem(SEARCH, PRIVATE)

    assert await store.response("t", "resp_1") == searched
    assert without(await store.response("t", "resp_1"))
    assert without(await store.input_items("t", "resp_2", WHOLE))
    assert without(await store.list_responses("t", limit=10))


async def test_a_private_side_is_erased_with_its_item(store: Store, count_rows: CountRows) -> None:
    await store.save("t", replace(turn("1"), private={"msg_1?": PRIVATE}))
    await store.delete("t", "resp_1")
    with pytest.raises(NotFound):
        await store.item("t", "msg_1?")
    assert await count_rows("items") == 0


async def test_items_of_a_conversation_have_private_sides(store: Store) -> None:
    await store.add_conversation("t", CONVERSATION, [says("a")], {"msg_a": PRIVATE})
    await store.add_items("t", "conv_1", [says("b"), SEARCH], {"fs_1": PRIVATE})
    entered = await store.enter("t", "conv_1", "resp_1", 60)
    assert entered.private == {"msg_a": PRIVATE, "fs_1": PRIVATE}
    assert without(entered.items)
    await store.leave("t", "conv_1", "resp_1")

    assert without(await store.conversation_items("t", "conv_1", WHOLE))
    assert without(await store.conversation_item("t", "conv_1", "fs_1"))
    await store.delete_item("t", "conv_1", "fs_1")
    entered = await store.enter("t", "conv_1", "resp_1", 60)
    assert entered.private == {"msg_a": PRIVATE}


async def test_a_response_in_the_background_has_them_from_the_beginning(store: Store) -> None:
    waiting = replace(queued("1"), private={"msg_1?": PRIVATE}, sealed_tools="sealed")
    await store.submit("t", waiting, b"{}", events(0), "owner")
    assert without(await store.input_items("t", "resp_1", WHOLE))
    claim = await store.claim("t", "resp_1", "owner")
    assert claim is not None
    assert (claim.private, claim.sealed_tools) == ({"msg_1?": PRIVATE}, "sealed")

    final = replace(ended("1"), private={"msg_1?": PRIVATE, "msg_1!": PRIVATE}, sealed_tools="sealed")
    await store.finish("t", claim.token, final, events(1))
    continued = await store.continuation("t", "resp_1")
    assert continued.private == {"msg_1?": PRIVATE, "msg_1!": PRIVATE}
    assert continued.sealed_tools == "sealed"

    await store.submit("t", queued("2", "1"), b"{}", events(0), "owner")
    assert (await store.base("t", "resp_2")).private == continued.private


async def test_sealed_tools_are_read_for_the_next_turn_alone(store: Store) -> None:
    await store.save("t", replace(turn("1"), sealed_tools=CANARY))
    await store.save("t", turn("2", "1"))
    assert (await store.continuation("t", "resp_1")).sealed_tools == CANARY
    assert (await store.continuation("t", "resp_2")).sealed_tools is None
    assert without(await store.response("t", "resp_1"))
    assert without(await store.list_responses("t", limit=10))


async def test_a_conversation_has_the_sealed_tools_of_its_last_response(store: Store) -> None:
    await store.add_conversation("t", CONVERSATION, [])
    await store.enter("t", "conv_1", "resp_1", 60)
    await store.save("t", replace(turn("1", conversation="conv_1"), sealed_tools="sealed"))
    assert (await store.enter("t", "conv_1", "resp_2", 60)).sealed_tools == "sealed"
