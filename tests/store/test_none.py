"""The store that keeps nothing says so."""

import pytest

from antiphon.errors import NotFound, Unsupported
from antiphon.store.base import ApiKey, Conversation, Fenced
from antiphon.store.none import no_stores
from antiphon.store.ports import Stores
from tests.store.values import WHOLE, ended, events, queued, turn

KEY = ApiKey(id="key_1", tenant="t", name="n", digest="d", scopes=(), created_at=1)


@pytest.fixture
def nothing() -> Stores:
    return no_stores()


async def test_whoever_asks_for_state_is_told_to_send_the_history(nothing: Stores) -> None:
    await nothing.responses.check()
    await nothing.responses.save("t", turn("1"))
    for call, param in (
        (nothing.responses.continuation("t", "resp_1"), "previous_response_id"),
        (nothing.responses.item("t", "msg_1?"), "input"),
        (nothing.conversations.enter("t", "conv_1", "resp_1", 1.0), "conversation"),
        (
            nothing.conversations.add_conversation("t", Conversation(id="conv_1", created_at=1), []),
            "conversation",
        ),
    ):
        with pytest.raises(Unsupported, match="full conversation history") as refused:
            await call
        assert refused.value.param == param


async def test_nothing_is_made_in_the_background(nothing: Stores) -> None:
    with pytest.raises(Unsupported, match="background"):
        await nothing.background.submit("t", queued("1"), b"{}", events(0), "nobody")
    assert await nothing.background.claim("t", "resp_1") is None
    assert await nothing.jobs.held("o") == ()
    for call in (
        nothing.background.append("t", "resp_1", 1, events(0)),
        nothing.background.finish("t", 1, ended("1"), events(0)),
    ):
        with pytest.raises(Fenced):
            await call
    await nothing.jobs.beat("o")
    await nothing.jobs.release("o")


async def test_lookups_find_nothing(nothing: Stores) -> None:
    assert await nothing.responses.list_responses("t", limit=1) == ()
    for call in (
        nothing.responses.response("t", "resp_1"),
        nothing.responses.input_items("t", "resp_1", WHOLE),
        nothing.responses.delete("t", "resp_1"),
        nothing.background.events("t", "resp_1", -1),
        nothing.conversations.conversation("t", "conv_1"),
        nothing.conversations.set_metadata("t", "conv_1", {}),
        nothing.conversations.delete_conversation("t", "conv_1"),
        nothing.conversations.add_items("t", "conv_1", []),
        nothing.conversations.conversation_items("t", "conv_1", WHOLE),
        nothing.conversations.conversation_item("t", "conv_1", "msg_1"),
        nothing.conversations.delete_item("t", "conv_1", "msg_1"),
        nothing.keys.revoke_key("key_1", 1),
    ):
        with pytest.raises(NotFound):
            await call
    await nothing.conversations.leave("t", "conv_1", "resp_1")


async def test_it_has_no_keys(nothing: Stores) -> None:
    with pytest.raises(Unsupported, match=r"server\.api_keys"):
        await nothing.keys.add_key(KEY)
    assert await nothing.keys.list_keys() == ()
    assert await nothing.upkeep.sweep() == 0
    await nothing.aclose()
