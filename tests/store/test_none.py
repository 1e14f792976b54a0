"""The store that keeps nothing says so."""

import pytest

from antiphon.errors import NotFound, Unsupported
from antiphon.store.base import ApiKey, Conversation, Fenced, Store
from antiphon.store.none import NoStore
from tests.store.values import WHOLE, ended, events, queued, turn

KEY = ApiKey(id="key_1", tenant="t", name="n", digest="d", scopes=(), created_at=1)


@pytest.fixture
def nothing() -> Store:
    return NoStore()


async def test_whoever_asks_for_state_is_told_to_send_the_history(nothing: Store) -> None:
    await nothing.check()
    await nothing.save("t", turn("1"))
    for call, param in (
        (nothing.continuation("t", "resp_1"), "previous_response_id"),
        (nothing.item("t", "msg_1?"), "input"),
        (nothing.enter("t", "conv_1", "resp_1", 1.0), "conversation"),
        (nothing.add_conversation("t", Conversation(id="conv_1", created_at=1), []), "conversation"),
    ):
        with pytest.raises(Unsupported, match="full conversation history") as refused:
            await call
        assert refused.value.param == param


async def test_nothing_is_made_in_the_background(nothing: Store) -> None:
    with pytest.raises(Unsupported, match="background"):
        await nothing.submit("t", queued("1"), b"{}", events(0), "nobody")
    assert await nothing.claim("t", "resp_1", "o") is None
    assert await nothing.unowned(1.0) == ()
    for call in (nothing.append("t", "resp_1", 1, events(0)), nothing.finish("t", 1, ended("1"), events(0))):
        with pytest.raises(Fenced):
            await call
    await nothing.beat("o")
    await nothing.release("o")


async def test_lookups_find_nothing(nothing: Store) -> None:
    assert await nothing.list_responses("t", limit=1) == ()
    for call in (
        nothing.response("t", "resp_1"),
        nothing.input_items("t", "resp_1", WHOLE),
        nothing.delete("t", "resp_1"),
        nothing.events("t", "resp_1", -1),
        nothing.conversation("t", "conv_1"),
        nothing.set_metadata("t", "conv_1", {}),
        nothing.delete_conversation("t", "conv_1"),
        nothing.add_items("t", "conv_1", []),
        nothing.conversation_items("t", "conv_1", WHOLE),
        nothing.conversation_item("t", "conv_1", "msg_1"),
        nothing.delete_item("t", "conv_1", "msg_1"),
        nothing.revoke_key("key_1", 1),
    ):
        with pytest.raises(NotFound):
            await call
    await nothing.leave("t", "conv_1", "resp_1")


async def test_it_has_no_keys(nothing: Store) -> None:
    with pytest.raises(Unsupported, match=r"server\.api_keys"):
        await nothing.add_key(KEY)
    assert await nothing.keys() == ()
    assert await nothing.sweep() == 0
    await nothing.aclose()
