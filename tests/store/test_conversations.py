"""Conversations: a list of items to which one response at a time appends."""

import pytest
from msgspec.structs import replace

from antiphon.errors import InvalidRequest, NotFound
from antiphon.protocol.parse_create import create_from
from antiphon.protocol.response import ResponseStatus, new_response
from antiphon.store.base import Conversation, StoredResponse
from antiphon.store.ports import Stores
from tests.store.conftest import CountRows
from tests.store.values import ALL_ITEMS, encoded, history, message, texts, turn

LONG = 1000.0


@pytest.fixture
async def talk(store: Stores) -> Stores:
    """A store with the conversation `conv_1`, which holds one item."""
    await store.conversations.add_conversation(
        "t", Conversation(id="conv_1", created_at=5), [message("first")]
    )
    return store


async def held(store: Stores) -> list[str]:
    return texts((await store.conversations.conversation_items("t", "conv_1", ALL_ITEMS)).items)


async def save_turn(store: Stores, name: str) -> None:
    """Create a response in the conversation."""
    await store.conversations.enter("t", "conv_1", f"resp_{name}", LONG)
    await store.responses.save("t", turn(name, conversation="conv_1"))


async def test_a_conversation_reads_back_with_its_metadata(store: Stores) -> None:
    conversation = Conversation(id="conv_1", created_at=5, metadata={"b": "1", "a": "ü"})
    await store.conversations.add_conversation("t", conversation, [])
    assert await store.conversations.conversation("t", "conv_1") == conversation
    changed = await store.conversations.set_metadata("t", "conv_1", {"c": "2"})
    assert changed == Conversation(id="conv_1", created_at=5, metadata={"c": "2"})
    assert await store.conversations.conversation("t", "conv_1") == changed


async def test_a_missing_conversation_is_not_found(talk: Stores) -> None:
    for call in (
        talk.conversations.conversation("t", "conv_x"),
        talk.conversations.set_metadata("t", "conv_x", {}),
        talk.conversations.delete_conversation("t", "conv_x"),
        talk.conversations.add_items("t", "conv_x", [message("a")]),
        talk.conversations.conversation_items("t", "conv_x", ALL_ITEMS),
        talk.conversations.conversation_item("t", "conv_x", "msg_first"),
        talk.conversations.conversation_item("t", "conv_1", "msg_x"),
        talk.conversations.delete_item("t", "conv_x", "msg_first"),
        talk.conversations.delete_item("t", "conv_1", "msg_x"),
        talk.conversations.enter("t", "conv_x", "resp_1", LONG),
        talk.responses.save("t", turn("1", conversation="conv_x")),
    ):
        with pytest.raises(NotFound):
            await call


async def test_items_are_appended_by_hand(talk: Stores) -> None:
    await talk.conversations.add_items("t", "conv_1", [message("a"), message("b")])
    await talk.conversations.add_items("t", "conv_1", [])
    assert await held(talk) == ["first", "a", "b"]
    assert await talk.conversations.conversation_item("t", "conv_1", "msg_a") == message("a")
    assert (await talk.responses.item("t", "msg_a")).item == message("a")


async def test_responses_append_their_input_and_output(talk: Stores) -> None:
    await save_turn(talk, "1")
    entered = await talk.conversations.enter("t", "conv_1", "resp_2", LONG)
    assert texts(entered.items) == ["first", "1?", "1!"]
    await talk.responses.save("t", turn("2", conversation="conv_1", status="incomplete"))
    assert await held(talk) == ["first", "1?", "1!", "2?", "2!"]
    assert await history(talk, "1") == ["first", "1?", "1!"]
    assert encoded(await talk.responses.response("t", "resp_1")) == encoded(
        turn("1", conversation="conv_1").response
    )


@pytest.mark.parametrize("status", ["failed", "cancelled"])
async def test_a_failed_response_is_not_appended_but_has_its_history(
    talk: Stores, status: ResponseStatus
) -> None:
    await talk.conversations.enter("t", "conv_1", "resp_1", LONG)
    await talk.responses.save("t", turn("1", conversation="conv_1", status=status))
    assert await held(talk) == ["first"]
    assert await history(talk, "1") == ["first", "1?", "1!"]
    await save_turn(talk, "2")
    assert await held(talk) == ["first", "2?", "2!"]


async def test_two_responses_cannot_be_created_at_once(talk: Stores) -> None:
    await talk.conversations.enter("t", "conv_1", "resp_1", LONG)
    for call in (
        talk.conversations.enter("t", "conv_1", "resp_2", LONG),
        talk.conversations.add_items("t", "conv_1", [message("a")]),
        talk.conversations.delete_item("t", "conv_1", "msg_first"),
        talk.responses.save("t", turn("2", conversation="conv_1")),
    ):
        with pytest.raises(InvalidRequest) as refused:
            await call
        assert (refused.value.code, refused.value.param) == ("conversation_locked", "conversation")
    await talk.conversations.enter("t", "conv_1", "resp_1", LONG)
    await talk.conversations.leave("t", "conv_1", "resp_2")
    with pytest.raises(InvalidRequest):
        await talk.conversations.enter("t", "conv_1", "resp_2", LONG)
    await talk.conversations.leave("t", "conv_1", "resp_1")
    await talk.conversations.enter("t", "conv_1", "resp_2", LONG)


async def test_a_lock_is_renewed_by_the_response_that_holds_it(talk: Stores) -> None:
    await talk.conversations.enter("t", "conv_1", "resp_1", 0.0)
    await talk.conversations.renew("t", "conv_1", "resp_1", LONG)
    for again in (talk.conversations.enter, talk.conversations.renew):
        with pytest.raises(InvalidRequest) as refused:
            await again("t", "conv_1", "resp_2", LONG)
        assert refused.value.code == "conversation_locked"


async def test_a_response_that_lost_the_lock_cannot_append(talk: Stores) -> None:
    await talk.conversations.enter("t", "conv_1", "resp_1", 0.0)
    await talk.conversations.enter("t", "conv_1", "resp_2", LONG)
    with pytest.raises(InvalidRequest) as refused:
        await talk.responses.save("t", turn("1", conversation="conv_1"))
    assert refused.value.code == "conversation_locked"
    assert await held(talk) == ["first"]
    await talk.responses.save("t", turn("1", conversation="conv_1", status="failed"))
    with pytest.raises(InvalidRequest):
        await talk.conversations.enter("t", "conv_1", "resp_3", LONG)


async def test_an_expired_lock_does_not_block(talk: Stores) -> None:
    await talk.conversations.enter("t", "conv_1", "resp_1", 0.0)
    await talk.conversations.add_items("t", "conv_1", [message("a")])
    await talk.responses.save("t", turn("1", conversation="conv_1"))
    assert await held(talk) == ["first", "a", "1?", "1!"]


async def test_the_tools_of_the_last_response_come_with_the_lock(talk: Stores) -> None:
    tool = {"type": "function", "name": "look"}
    response = new_response(create_from(model="m", input="x", tools=[tool]), id="resp_1", created_at=1)
    stored = StoredResponse(response=replace(response, status="completed"), conversation="conv_1")
    await talk.responses.save("t", stored)
    [found] = (await talk.conversations.enter("t", "conv_1", "resp_2", LONG)).tools
    assert "look" in str(found)


async def test_continuing_a_response_of_a_conversation_branches_off(talk: Stores) -> None:
    await save_turn(talk, "1")
    await talk.responses.save("t", turn("2", "1"))
    assert await held(talk) == ["first", "1?", "1!"]
    assert await history(talk, "2") == ["first", "1?", "1!", "2?", "2!"]


async def test_a_removed_item_stays_in_responses_created_with_it(talk: Stores) -> None:
    await save_turn(talk, "1")
    await talk.responses.save("t", turn("branch", "1"))
    for item in ("msg_first", "msg_1!"):
        await talk.conversations.delete_item("t", "conv_1", item)
        with pytest.raises(NotFound):
            await talk.conversations.conversation_item("t", "conv_1", item)
    await save_turn(talk, "2")
    await talk.responses.save("t", turn("later", "2"))
    assert await held(talk) == ["1?", "2?", "2!"]
    assert await history(talk, "2") == ["1?", "2?", "2!"]
    assert await history(talk, "later") == ["1?", "2?", "2!", "later?", "later!"]
    assert await history(talk, "1") == ["first", "1?", "1!"]
    assert await history(talk, "branch") == ["first", "1?", "1!", "branch?", "branch!"]
    assert encoded(await talk.responses.response("t", "resp_1")) == encoded(
        turn("1", conversation="conv_1").response
    )
    with pytest.raises(NotFound):
        await talk.responses.item("t", "msg_first")


async def test_a_response_that_fails_after_an_item_was_taken_out_is_without_it(talk: Stores) -> None:
    await save_turn(talk, "1")
    await talk.conversations.delete_item("t", "conv_1", "msg_first")
    await talk.responses.save("t", turn("2", conversation="conv_1", status="failed"))
    assert await history(talk, "2") == ["1?", "1!", "2?", "2!"]
    assert await history(talk, "1") == ["first", "1?", "1!"]


async def test_a_removed_item_is_erased_once_it_is_unreferenced(talk: Stores, count_rows: CountRows) -> None:
    await talk.conversations.add_items("t", "conv_1", [message("a")])
    await talk.conversations.delete_item("t", "conv_1", "msg_a")
    assert await count_rows("items") == 1
    await save_turn(talk, "1")
    await talk.conversations.delete_item("t", "conv_1", "msg_1?")
    assert await count_rows("items") == 3
    await talk.responses.delete("t", "resp_1")
    assert await count_rows("items") == 2
    assert await held(talk) == ["first", "1!"]


async def test_deleting_a_response_does_not_change_the_conversation(talk: Stores) -> None:
    await save_turn(talk, "1")
    await talk.responses.delete("t", "resp_1")
    assert await held(talk) == ["first", "1?", "1!"]
    assert await talk.responses.item("t", "msg_1!")


async def test_deleting_a_conversation_does_not_delete_its_responses(
    talk: Stores, count_rows: CountRows
) -> None:
    await save_turn(talk, "1")
    await talk.conversations.add_items("t", "conv_1", [message("late")])
    await talk.conversations.delete_conversation("t", "conv_1")
    with pytest.raises(NotFound):
        await talk.conversations.conversation("t", "conv_1")
    for item in ("msg_first", "msg_late"):
        with pytest.raises(NotFound):
            await talk.responses.item("t", item)
    assert await count_rows("items") == 3, "the last one is unreferenced"
    assert await history(talk, "1") == ["first", "1?", "1!"]
    assert await talk.responses.item("t", "msg_1!")
    await talk.responses.save("t", turn("2", "1"))
    assert await history(talk, "2") == ["first", "1?", "1!", "2?", "2!"]
    await talk.responses.delete("t", "resp_2")
    await talk.responses.delete("t", "resp_1")
    for table in ("items", "chains", "conversations", "responses"):
        assert await count_rows(table) == 0


async def test_a_conversation_without_responses_is_erased_completely(
    talk: Stores, count_rows: CountRows
) -> None:
    await talk.conversations.delete_conversation("t", "conv_1")
    assert await count_rows("items") == await count_rows("chains") == 0
