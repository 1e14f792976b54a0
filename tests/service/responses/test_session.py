"""The memory of a connection, and the order of its eviction."""

from msgspec.structs import replace

from antiphon.protocol.items import Message
from antiphon.protocol.parse_create import create_from
from antiphon.protocol.response import Response, new_response
from antiphon.service.responses.session import ConnectionMemory, Session
from antiphon.store.base import Continuation

ITEM = Message(role="user", content="hi")
TOOL = {"type": "function", "name": "f"}


def response(response_id: str, parent: str | None = None) -> Response:
    made = new_response(create_from(model="m", input="hi"), id=response_id, created_at=0)
    return replace(made, previous_response_id=parent)


def remember(session: Session, response_id: str, parent: str | None = None, items: int = 1) -> None:
    session.remember(response(response_id, parent), Continuation([ITEM] * items, ()))


def known(session: Session, *ids: str) -> list[str]:
    return [response_id for response_id in ids if session.recall(response_id) is not None]


def test_a_session_recalls_responses_of_all_sessions_of_its_connection() -> None:
    memory = ConnectionMemory()
    one, other = memory.session(), memory.session()
    tools = create_from(model="m", input="hi", tools=[TOOL]).tools
    one.remember(response("r"), Continuation((ITEM, ITEM), tools))
    recalled = other.recall("r")
    assert recalled is not None
    assert (recalled.items, recalled.tools) == ((ITEM, ITEM), tools)
    assert ConnectionMemory().session().recall("r") is None


def test_histories_share_their_items() -> None:
    session = ConnectionMemory().session()
    session.remember(response("r"), Continuation([ITEM], ()))
    session.remember(response("s", "r"), Continuation([ITEM, ITEM], ()))
    first, second = session.recall("r"), session.recall("s")
    assert first is not None
    assert second is not None
    assert first.items[0] is second.items[0]


def test_a_session_evicts_only_its_own_responses() -> None:
    memory = ConnectionMemory()
    one, other = memory.session(), memory.session()
    remember(one, "r")
    other.evict("r")
    assert known(other, "r") == ["r"]
    one.evict("r")
    one.evict("r")
    one.evict("unknown")
    assert known(other, "r") == []


def test_continued_responses_are_evicted_first() -> None:
    session = ConnectionMemory(max_responses=3).session()
    remember(session, "idle")
    remember(session, "a")
    remember(session, "b", "a")
    remember(session, "c", "b")
    assert known(session, "idle", "a", "b", "c") == ["idle", "b", "c"]


def test_recently_recalled_responses_are_evicted_last_of_the_continued() -> None:
    session = ConnectionMemory(max_responses=3).session()
    remember(session, "root")
    remember(session, "a", "root")
    remember(session, "b", "a")
    session.recall("root")
    remember(session, "c", "b")
    assert known(session, "root", "a", "b", "c") == ["root", "b", "c"]


def test_then_the_oldest_is_evicted() -> None:
    session = ConnectionMemory(max_responses=2).session()
    for response_id in "abc":
        remember(session, response_id)
    assert known(session, "a", "b", "c") == ["b", "c"]


def test_items_are_counted_over_all_histories() -> None:
    session = ConnectionMemory(max_items=10).session()
    remember(session, "a", items=4)
    remember(session, "b", items=6)
    assert known(session, "a", "b") == ["a", "b"]
    remember(session, "c", items=1)
    assert known(session, "a", "b", "c") == ["b", "c"]
    session.evict("b")
    remember(session, "d", items=9)
    assert known(session, "c", "d") == ["c", "d"]


def test_the_newest_is_kept_whatever_its_size() -> None:
    session = ConnectionMemory(max_items=1).session()
    remember(session, "a", items=5)
    remember(session, "b", "a", items=6)
    assert known(session, "a", "b") == ["b"]
