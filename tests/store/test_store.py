"""The contract of every store; and what the one that keeps nothing says."""

import pytest

from antiphon.errors import NotFound, Unsupported
from antiphon.protocol.items import Item, Message, OpaqueItem
from antiphon.protocol.parse_create import create_from
from antiphon.protocol.response import new_response
from antiphon.store.base import Store, StoredResponse
from antiphon.store.memory import MemoryStore
from antiphon.store.none import NoStore


@pytest.fixture(params=["memory"])
def store(request: pytest.FixtureRequest) -> Store:
    return {"memory": MemoryStore}[request.param]()


def stored(response_id: str, parent: str | None = None, *items: Item) -> StoredResponse:
    response = new_response(create_from(model="m", input="x"), id=response_id, created_at=1)
    return StoredResponse(response=response, parent=parent, input=items, tools=())


def says(text: str) -> Message:
    return Message(id=f"msg_{text}", role="user", content=text)


async def test_what_was_saved_is_loaded(store: Store) -> None:
    await store.save("t", stored("resp_1", None, says("a")))
    assert await store.load("t", "resp_1") == stored("resp_1", None, says("a"))
    assert await store.item("t", "msg_a") == says("a")


async def test_history_follows_the_parents(store: Store) -> None:
    await store.save("t", stored("resp_1", None, says("a")))
    await store.save("t", stored("resp_2", "resp_1", says("b"), OpaqueItem("program", {"type": "program"})))
    await store.save("t", stored("resp_3", "resp_1", says("c")))
    assert list(await store.history("t", "resp_3")) == [says("a"), says("c")]
    assert len(await store.history("t", "resp_2")) == 3


async def test_unknown_and_foreign_are_the_same(store: Store) -> None:
    await store.save("t", stored("resp_1", None, says("a")))
    for tenant, response_id in (("t", "resp_x"), ("other", "resp_1")):
        with pytest.raises(NotFound):
            await store.load(tenant, response_id)
        with pytest.raises(NotFound):
            await store.history(tenant, response_id)
    with pytest.raises(NotFound):
        await store.item("other", "msg_a")
    await store.aclose()


async def test_memory_forgets_the_oldest_and_never_cuts_a_chain() -> None:
    store = MemoryStore(limit=2)
    await store.save("t", stored("resp_1", None, says("a")))
    await store.save("t", stored("resp_2", "resp_1", says("b")))
    await store.save("t", stored("resp_3", "resp_2", says("c")))
    with pytest.raises(NotFound):
        await store.history("t", "resp_3")
    with pytest.raises(NotFound):
        await store.item("t", "msg_a")
    assert await store.item("t", "msg_b")


async def test_no_store_says_to_send_the_history() -> None:
    store = NoStore()
    await store.save("t", stored("resp_1"))
    with pytest.raises(NotFound):
        await store.load("t", "resp_1")
    with pytest.raises(Unsupported, match="full conversation history"):
        await store.history("t", "resp_1")
    with pytest.raises(Unsupported, match="full conversation history"):
        await store.item("t", "msg_1")
    await store.aclose()
