"""Conversations: a list of items that one response at a time adds to."""

import pytest
from msgspec.structs import replace

from antiphon.errors import InvalidRequest, NotFound
from antiphon.protocol.parse_create import create_from
from antiphon.protocol.response import ResponseStatus, new_response
from antiphon.store.base import Conversation, StoredResponse
from antiphon.store.ports import Stores
from tests.store.conftest import CountRows
from tests.store.values import WHOLE, encoded, history, says, texts, turn

LONG = 1000.0


@pytest.fixture
async def talk(store: Stores) -> Stores:
    """A store with the conversation `conv_1`, which holds one item."""
    await store.conversations.add_conversation("t", Conversation(id="conv_1", created_at=5), [says("first")])
    return store


async def held(store: Stores) -> list[str]:
    return texts((await store.conversations.conversation_items("t", "conv_1", WHOLE)).items)


async def made(store: Stores, name: str) -> None:
    """A response is made in the conversation."""
    await store.conversations.enter("t", "conv_1", f"resp_{name}", LONG)
    await store.responses.save("t", turn(name, conversation="conv_1"))


async def test_a_conversation_reads_back_with_its_metadata(store: Stores) -> None:
    conversation = Conversation(id="conv_1", created_at=5, metadata={"b": "1", "a": "ü"})
    await store.conversations.add_conversation("t", conversation, [])
    assert await store.conversations.conversation("t", "conv_1") == conversation
    changed = await store.conversations.set_metadata("t", "conv_1", {"c": "2"})
    assert changed == Conversation(id="conv_1", created_at=5, metadata={"c": "2"})
    assert await store.conversations.conversation("t", "conv_1") == changed


async def test_what_is_not_there_is_not_found(talk: Stores) -> None:
    for call in (
        talk.conversations.conversation("t", "conv_x"),
        talk.conversations.set_metadata("t", "conv_x", {}),
        talk.conversations.delete_conversation("t", "conv_x"),
        talk.conversations.add_items("t", "conv_x", [says("a")]),
        talk.conversations.conversation_items("t", "conv_x", WHOLE),
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
    await talk.conversations.add_items("t", "conv_1", [says("a"), says("b")])
    await talk.conversations.add_items("t", "conv_1", [])
    assert await held(talk) == ["first", "a", "b"]
    assert await talk.conversations.conversation_item("t", "conv_1", "msg_a") == says("a")
    assert (await talk.responses.item("t", "msg_a")).item == says("a")


async def test_responses_append_what_they_took_and_said(talk: Stores) -> None:
    await made(talk, "1")
    entered = await talk.conversations.enter("t", "conv_1", "resp_2", LONG)
    assert texts(entered.items) == ["first", "1?", "1!"]
    await talk.responses.save("t", turn("2", conversation="conv_1", status="incomplete"))
    assert await held(talk) == ["first", "1?", "1!", "2?", "2!"]
    assert await history(talk, "1") == ["first", "1?", "1!"]
    assert encoded(await talk.responses.response("t", "resp_1")) == encoded(
        turn("1", conversation="conv_1").response
    )


@pytest.mark.parametrize("status", ["failed", "cancelled"])
async def test_what_failed_is_not_added_but_has_its_history(talk: Stores, status: ResponseStatus) -> None:
    await talk.conversations.enter("t", "conv_1", "resp_1", LONG)
    await talk.responses.save("t", turn("1", conversation="conv_1", status=status))
    assert await held(talk) == ["first"]
    assert await history(talk, "1") == ["first", "1?", "1!"]
    await made(talk, "2")
    assert await held(talk) == ["first", "2?", "2!"]


async def test_two_responses_cannot_be_made_at_once(talk: Stores) -> None:
    await talk.conversations.enter("t", "conv_1", "resp_1", LONG)
    for call in (
        talk.conversations.enter("t", "conv_1", "resp_2", LONG),
        talk.conversations.add_items("t", "conv_1", [says("a")]),
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


async def test_whoever_lost_the_lock_cannot_add_any_more(talk: Stores) -> None:
    await talk.conversations.enter("t", "conv_1", "resp_1", 0.0)
    await talk.conversations.enter("t", "conv_1", "resp_2", LONG)
    with pytest.raises(InvalidRequest) as refused:
        await talk.responses.save("t", turn("1", conversation="conv_1"))
    assert refused.value.code == "conversation_locked"
    assert await held(talk) == ["first"]
    await talk.responses.save("t", turn("1", conversation="conv_1", status="failed"))
    with pytest.raises(InvalidRequest):
        await talk.conversations.enter("t", "conv_1", "resp_3", LONG)


async def test_a_lock_that_ran_out_holds_nobody_up(talk: Stores) -> None:
    await talk.conversations.enter("t", "conv_1", "resp_1", 0.0)
    await talk.conversations.add_items("t", "conv_1", [says("a")])
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
    await made(talk, "1")
    await talk.responses.save("t", turn("2", "1"))
    assert await held(talk) == ["first", "1?", "1!"]
    assert await history(talk, "2") == ["first", "1?", "1!", "2?", "2!"]


async def test_an_item_that_was_taken_out_stays_in_responses_that_were_made_with_it(talk: Stores) -> None:
    await made(talk, "1")
    await talk.responses.save("t", turn("branch", "1"))
    for item in ("msg_first", "msg_1!"):
        await talk.conversations.delete_item("t", "conv_1", item)
        with pytest.raises(NotFound):
            await talk.conversations.conversation_item("t", "conv_1", item)
    await made(talk, "2")
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
    await made(talk, "1")
    await talk.conversations.delete_item("t", "conv_1", "msg_first")
    await talk.responses.save("t", turn("2", conversation="conv_1", status="failed"))
    assert await history(talk, "2") == ["1?", "1!", "2?", "2!"]
    assert await history(talk, "1") == ["first", "1?", "1!"]


async def test_an_item_that_was_taken_out_is_erased_once_nobody_needs_it(
    talk: Stores, count_rows: CountRows
) -> None:
    await talk.conversations.add_items("t", "conv_1", [says("a")])
    await talk.conversations.delete_item("t", "conv_1", "msg_a")
    assert await count_rows("items") == 1
    await made(talk, "1")
    await talk.conversations.delete_item("t", "conv_1", "msg_1?")
    assert await count_rows("items") == 3
    await talk.responses.delete("t", "resp_1")
    assert await count_rows("items") == 2
    assert await held(talk) == ["first", "1!"]


async def test_deleting_a_response_leaves_the_conversation_as_it_is(talk: Stores) -> None:
    await made(talk, "1")
    await talk.responses.delete("t", "resp_1")
    assert await held(talk) == ["first", "1?", "1!"]
    assert await talk.responses.item("t", "msg_1!")


async def test_a_deleted_conversation_leaves_its_responses(talk: Stores, count_rows: CountRows) -> None:
    await made(talk, "1")
    await talk.conversations.add_items("t", "conv_1", [says("late")])
    await talk.conversations.delete_conversation("t", "conv_1")
    with pytest.raises(NotFound):
        await talk.conversations.conversation("t", "conv_1")
    for item in ("msg_first", "msg_late"):
        with pytest.raises(NotFound):
            await talk.responses.item("t", item)
    assert await count_rows("items") == 3, "nobody needs the last one"
    assert await history(talk, "1") == ["first", "1?", "1!"]
    assert await talk.responses.item("t", "msg_1!")
    await talk.responses.save("t", turn("2", "1"))
    assert await history(talk, "2") == ["first", "1?", "1!", "2?", "2!"]
    await talk.responses.delete("t", "resp_2")
    await talk.responses.delete("t", "resp_1")
    for table in ("items", "chains", "conversations", "responses"):
        assert await count_rows(table) == 0


async def test_a_conversation_without_responses_is_erased_whole(talk: Stores, count_rows: CountRows) -> None:
    await talk.conversations.delete_conversation("t", "conv_1")
    assert await count_rows("items") == await count_rows("chains") == 0
