"""The memory of a connection, and the order of its eviction."""

import msgspec
from msgspec.structs import replace

from antiphon.protocol.items import Message
from antiphon.protocol.parse_create import create_from
from antiphon.protocol.response import Response, new_response
from antiphon.service.responses.session import ITEM_BYTES, MAX_CONTINUED_BYTES, ConnectionMemory, Session
from antiphon.store.base import Continuation
from antiphon.tenant_budget import TenantBudget

ITEM = Message(role="user", content="hi")
TOOL = {"type": "function", "name": "f"}


def connection_memory(budget: TenantBudget | None = None, **limits: int) -> ConnectionMemory:
    return ConnectionMemory(budget or TenantBudget(2**30), "t", **limits)


def text(characters: int) -> Message:
    return Message(role="user", content="x" * characters)


def response(response_id: str, parent: str | None = None) -> Response:
    made = new_response(create_from(model="m", input="hi"), id=response_id, created_at=0)
    return replace(made, previous_response_id=parent)


def remember(session: Session, response_id: str, parent: str | None = None, items: int = 1) -> None:
    session.remember(response(response_id, parent), Continuation([ITEM] * items, ()))


def known(session: Session, *ids: str) -> list[str]:
    return [response_id for response_id in ids if session.recall(response_id) is not None]


def test_a_session_recalls_responses_of_all_sessions_of_its_connection() -> None:
    memory = connection_memory()
    one, other = memory.session(), memory.session()
    tools = create_from(model="m", input="hi", tools=[TOOL]).tools
    one.remember(response("r"), Continuation((ITEM, ITEM), tools))
    recalled = other.recall("r")
    assert recalled is not None
    assert (recalled.items, recalled.tools) == ((ITEM, ITEM), tools)
    assert connection_memory().session().recall("r") is None


def test_histories_share_their_items() -> None:
    session = connection_memory().session()
    session.remember(response("r"), Continuation([ITEM], ()))
    session.remember(response("s", "r"), Continuation([ITEM, ITEM], ()))
    first, second = session.recall("r"), session.recall("s")
    assert first is not None
    assert second is not None
    assert first.items[0] is second.items[0]


def test_a_session_evicts_only_its_own_responses() -> None:
    memory = connection_memory()
    one, other = memory.session(), memory.session()
    remember(one, "r")
    other.evict("r")
    assert known(other, "r") == ["r"]
    one.evict("r")
    one.evict("r")
    one.evict("unknown")
    assert known(other, "r") == []


def test_continued_responses_are_evicted_first() -> None:
    session = connection_memory(max_responses=3).session()
    remember(session, "idle")
    remember(session, "a")
    remember(session, "b", "a")
    remember(session, "c", "b")
    assert known(session, "idle", "a", "b", "c") == ["idle", "b", "c"]


def test_recently_recalled_responses_are_evicted_last_of_the_continued() -> None:
    session = connection_memory(max_responses=3).session()
    remember(session, "root")
    remember(session, "a", "root")
    remember(session, "b", "a")
    session.recall("root")
    remember(session, "c", "b")
    assert known(session, "root", "a", "b", "c") == ["root", "b", "c"]


def test_then_the_oldest_is_evicted() -> None:
    session = connection_memory(max_responses=2).session()
    for response_id in "abc":
        remember(session, response_id)
    assert known(session, "a", "b", "c") == ["b", "c"]


def test_items_are_counted_over_all_histories() -> None:
    session = connection_memory(max_items=10).session()
    remember(session, "a", items=4)
    remember(session, "b", items=6)
    assert known(session, "a", "b") == ["a", "b"]
    remember(session, "c", items=1)
    assert known(session, "a", "b", "c") == ["b", "c"]
    session.evict("b")
    remember(session, "d", items=9)
    assert known(session, "c", "d") == ["c", "d"]


def test_the_newest_is_kept_whatever_its_size() -> None:
    session = connection_memory(max_items=1).session()
    remember(session, "a", items=5)
    remember(session, "b", "a", items=6)
    assert known(session, "a", "b") == ["b"]


def test_the_newest_is_forgotten_if_it_is_too_large() -> None:
    session = connection_memory(max_bytes=10_000).session()
    session.remember(response("small"), Continuation([text(5_000)]))
    session.remember(response("large"), Continuation([text(10_000)]))
    assert known(session, "small", "large") == ["small"]


def test_bytes_are_counted_over_all_histories() -> None:
    session = connection_memory(max_bytes=10_000).session()
    for response_id in "abc":
        session.remember(response(response_id), Continuation([text(4_000)]))
    assert known(session, "a", "b", "c") == ["b", "c"]


def test_continued_responses_are_dropped_earlier() -> None:
    session = connection_memory().session()
    items = [text(MAX_CONTINUED_BYTES // 4)]
    session.remember(response("a"), Continuation(items))
    session.remember(response("b", "a"), Continuation([*items, *items]))
    assert known(session, "a", "b") == ["a", "b"]
    session.remember(response("c", "b"), Continuation([*items, *items, *items]))
    assert known(session, "a", "b", "c") == ["c"]


def test_the_bytes_of_a_history_are_those_of_its_items_and_private_sides() -> None:
    budget = TenantBudget(2**30)
    memory = connection_memory(budget)
    session = memory.session()
    one, two = text(3_000), text(2_000)
    session.remember(response("a"), Continuation([one], private={"p": "x" * 100}))
    first = ITEM_BYTES + len(msgspec.json.encode([one])) + 100
    assert room_of(budget) == 2**30 - first
    session.remember(response("b", "a"), Continuation([one, two], private={"p": "x" * 100, "q": "y" * 50}))
    second = ITEM_BYTES + len(msgspec.json.encode([two])) + 50
    assert room_of(budget) == 2**30 - 2 * first - second
    # A compaction replaces the history: its bytes do not count any longer.
    session.remember(response("c", "b"), Continuation([two]))
    alone = ITEM_BYTES + len(msgspec.json.encode([two]))
    assert room_of(budget) == 2**30 - 2 * first - second - alone
    memory.clear()
    assert known(session, "a", "b", "c") == []
    assert room_of(budget) == 2**30


def test_connections_of_a_tenant_share_half_of_the_budget() -> None:
    budget = TenantBudget(20_000)
    one, other = connection_memory(budget), ConnectionMemory(budget, "t")
    first, second = one.session(), other.session()
    first.remember(response("a"), Continuation([text(7_000)]))
    second.remember(response("b"), Continuation([text(7_000)]))
    assert known(second, "b") == []
    stranger = ConnectionMemory(budget, "u").session()
    stranger.remember(response("c"), Continuation([text(7_000)]))
    assert known(stranger, "c") == ["c"]
    first.remember(response("d"), Continuation([text(8_000)]))
    assert known(first, "a", "d") == ["d"]
    one.clear()
    second.remember(response("e"), Continuation([text(7_000)]))
    assert known(second, "e") == ["e"]


def room_of(budget: TenantBudget) -> int:
    """The most bytes that another tenant can use now."""
    low, high = 0, 2**31
    while low < high:
        middle = (low + high + 1) // 2
        if budget.charge("another", middle):
            budget.release("another", middle)
            low = middle
        else:
            high = middle - 1
    return low
