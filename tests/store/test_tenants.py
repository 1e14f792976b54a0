"""Tenants: another tenant's objects are as unknown as missing ones."""

from collections.abc import Awaitable, Callable

import pytest

from antiphon.errors import AntiphonError
from antiphon.store.base import Conversation, Fenced
from antiphon.store.ports import Stores
from tests.store.values import ALL_ITEMS, ended, events, message, queued, texts, turn

CALLS: dict[str, Callable[[Stores, str], Awaitable[object]]] = {
    "response": lambda store, known: store.responses.response("b", f"resp_{known}"),
    "continuation": lambda store, known: store.responses.continuation("b", f"resp_{known}"),
    "item": lambda store, known: store.responses.item("b", f"msg_{known}?"),
    "input_items": lambda store, known: store.responses.input_items("b", f"resp_{known}", ALL_ITEMS),
    "delete": lambda store, known: store.responses.delete("b", f"resp_{known}"),
    "list_after": lambda store, known: store.responses.list_responses("b", limit=1, after=f"resp_{known}"),
    "list_conversation": lambda store, known: store.responses.list_responses(
        "b", limit=1, conversation=f"conv_{known}"
    ),
    "save_after": lambda store, known: store.responses.save("b", turn("new", known)),
    "save_into": lambda store, known: store.responses.save("b", turn("new", conversation=f"conv_{known}")),
    "conversation": lambda store, known: store.conversations.conversation("b", f"conv_{known}"),
    "set_metadata": lambda store, known: store.conversations.set_metadata("b", f"conv_{known}", {}),
    "delete_conversation": lambda store, known: store.conversations.delete_conversation("b", f"conv_{known}"),
    "add_items": lambda store, known: store.conversations.add_items("b", f"conv_{known}", [message("new")]),
    "conversation_items": lambda store, known: store.conversations.conversation_items(
        "b", f"conv_{known}", ALL_ITEMS
    ),
    "conversation_item": lambda store, known: store.conversations.conversation_item(
        "b", f"conv_{known}", f"msg_{known}"
    ),
    "delete_item": lambda store, known: store.conversations.delete_item("b", f"conv_{known}", f"msg_{known}"),
    "enter": lambda store, known: store.conversations.enter("b", f"conv_{known}", "resp_new", 1000.0),
    "history": lambda store, known: store.conversations.history("b", f"conv_{known}"),
    "renew": lambda store, known: store.conversations.renew("b", f"conv_{known}", "resp_new", 1000.0),
    "leave": lambda store, known: store.conversations.leave("b", f"conv_{known}", "resp_new"),
    "submit_after": lambda store, known: store.background.submit(
        "b", queued("new", known), b"{}", events(0), "nobody"
    ),
    "claim": lambda store, known: store.background.claim("b", f"resp_run{known}"),
    "append": lambda store, known: store.background.append("b", f"resp_run{known}", 1, events(1)),
    "finish": lambda store, known: store.background.finish("b", 1, ended(f"run{known}"), events(1)),
    "events": lambda store, known: store.background.events("b", f"resp_run{known}", -1),
}


@pytest.fixture
async def foreign(store: Stores) -> Stores:
    """A store in which everything belongs to tenant `a`."""
    await store.responses.save("a", turn("known"))
    await store.conversations.add_conversation(
        "a", Conversation(id="conv_known", created_at=1), [message("known")]
    )
    await store.conversations.enter("a", "conv_known", "resp_new", 1000.0)
    await store.background.submit("a", queued("runknown"), b"{}", events(0), "nobody")
    await store.background.claim("a", "resp_runknown")
    return store


async def outcome(store: Stores, call: str, name: str) -> str:
    try:
        return repr(await CALLS[call](store, name)).replace(name, "…")
    except AntiphonError as error:
        return f"{type(error)} {error.to_wire()}".replace(name, "…")
    except Fenced as error:
        return str(error).replace(name, "…")


@pytest.mark.parametrize("call", CALLS)
async def test_foreign_is_the_same_as_unknown(foreign: Stores, call: str) -> None:
    assert await outcome(foreign, call, "known") == await outcome(foreign, call, "nobody")
    assert (await foreign.responses.response("a", "resp_known")).id == "resp_known"
    assert texts((await foreign.conversations.conversation_items("a", "conv_known", ALL_ITEMS)).items) == [
        "known"
    ]
    assert await foreign.background.events("a", "resp_runknown", -1) == ([events(0)], False)


async def test_two_tenants_may_use_the_same_ids(foreign: Stores) -> None:
    await foreign.responses.save("b", turn("known"))
    await foreign.responses.save("b", turn("next", "known"))
    await foreign.responses.delete("b", "resp_known")
    assert texts((await foreign.responses.continuation("b", "resp_next")).items) == [
        "known?",
        "known!",
        "next?",
        "next!",
    ]
    assert texts((await foreign.responses.continuation("a", "resp_known")).items) == ["known?", "known!"]
    assert [each.response.id for each in await foreign.responses.list_responses("b", limit=5)] == [
        "resp_next"
    ]
