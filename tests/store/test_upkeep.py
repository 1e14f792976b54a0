"""Upkeep: expired objects are erased, and a bounded store stays bounded."""

import pytest
from msgspec.structs import replace

from antiphon.errors import InvalidRequest, NotFound
from antiphon.store import approvals, upkeep
from antiphon.store.base import Conversation
from antiphon.store.ports import Stores
from antiphon.store.signals import LocalSignals
from antiphon.store.sql_stores import sql_stores
from tests.store.conftest import Clock, CountRows, Opened
from tests.store.values import ended, events, history, message, queued, turn


async def test_expired_responses_are_erased_as_if_deleted(
    store: Stores, clock: Clock, count_rows: CountRows
) -> None:
    await store.responses.save("t", turn("1", expires_at=1010))
    await store.responses.save("t", turn("2", "1", expires_at=1030))
    await store.responses.save("u", turn("3", expires_at=1010))
    await store.responses.save("t", turn("4"))
    await store.background.submit("t", replace(queued("5"), expires_at=1010), b"{}", events(0), "nobody")
    assert await store.upkeep.sweep() == 0
    clock.now = 1010.0
    assert await store.upkeep.sweep() == 3
    assert await store.upkeep.sweep() == 0
    assert await count_rows("responses") == 2
    assert await count_rows("events") == 0
    assert await history(store, "2") == ["1?", "1!", "2?", "2!"]
    clock.now = 1030.0
    assert await store.upkeep.sweep() == 1
    assert await count_rows("items") == 2
    assert await count_rows("chains") == 1


async def test_a_sweep_is_done_in_batches(
    store: Stores, clock: Clock, count_rows: CountRows, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "MAX_BATCH_ROWS", 2)
    for number in range(5):
        await store.responses.save(
            "t", turn(f"{number}", f"{number - 1}" if number else None, expires_at=1001)
        )
    clock.now = 1001.0
    assert [await store.upkeep.sweep() for _ in range(4)] == [2, 2, 1, 0]
    assert await count_rows("items") == await count_rows("chains") == 0


async def test_items_of_a_conversation_outlive_its_expired_responses(
    store: Stores, clock: Clock, count_rows: CountRows
) -> None:
    await store.conversations.add_conversation("t", Conversation(id="conv_1", created_at=1), [message("a")])
    await store.responses.save("t", turn("1", conversation="conv_1", expires_at=1001))
    clock.now = 1001.0
    assert await store.upkeep.sweep() == 1
    assert await count_rows("items") == 3
    assert await store.responses.item("t", "msg_1!")


async def test_event_logs_are_erased_some_time_after_the_end(
    opened: Opened, clock: Clock, count_rows: CountRows
) -> None:
    patient = sql_stores(opened.database, LocalSignals(), clock)
    hasty = sql_stores(opened.database, LocalSignals(), clock, log_lifetime=-1.0)
    for name in ("1", "2"):
        await patient.background.submit("t", queued(name), b"{}", events(0), "nobody")
    claim = await patient.background.claim("t", "resp_1")
    assert claim is not None
    await patient.background.finish("t", claim.token, ended("1"), events(1))
    assert await patient.upkeep.sweep() == 0
    assert await hasty.upkeep.sweep() == 1
    assert await hasty.upkeep.sweep() == 0
    assert await patient.background.events("t", "resp_1", -1) == ([], True)
    assert (await patient.responses.response("t", "resp_1")).status == "completed"
    assert await count_rows("events") == 1, "the other one is not over"


async def test_dead_owners_are_removed(
    store: Stores, count_rows: CountRows, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.jobs.beat("o1")
    assert await store.upkeep.sweep() == 0
    monkeypatch.setattr(upkeep, "FORGET_OWNER_SECONDS", -1.0)
    assert await store.upkeep.sweep() == 1
    assert await count_rows("owners") == 0


async def test_a_bounded_store_forgets_the_oldest_and_cuts_no_history(
    opened: Opened, clock: Clock, count_rows: CountRows
) -> None:
    store = sql_stores(opened.database, LocalSignals(), clock, limit=2)
    await store.background.submit("t", queued("waiting"), b"{}", events(0), "nobody")
    await store.responses.save("t", turn("1", created_at=1))
    await store.responses.save("t", turn("2", "1", created_at=2))
    await store.responses.save("t", turn("3", "2", created_at=3))
    with pytest.raises(NotFound):
        await store.responses.response("t", "resp_1")
    with pytest.raises(NotFound):
        await store.responses.item("t", "msg_1?")
    assert await history(store, "3") == ["1?", "1!", "2?", "2!", "3?", "3!"]
    assert await count_rows("responses") == 3
    for number in range(4, 7):
        await store.responses.save("t", turn(f"{number}", created_at=number))
    assert await count_rows("items") == 4, "the complete chain is erased by now"
    assert await store.responses.response("t", "resp_waiting")


async def test_a_bounded_store_looks_only_now_and_then(
    opened: Opened, clock: Clock, count_rows: CountRows
) -> None:
    store = sql_stores(opened.database, LocalSignals(), clock, limit=40)
    for number in range(100):
        await store.responses.save("t", turn(f"{number}", created_at=number))
    assert 40 <= await count_rows("responses") <= 42


async def test_answers_to_requests_that_are_not_stored_expire(
    store: Stores, clock: Clock, count_rows: CountRows
) -> None:
    await store.responses.take_approvals("t", ["mcpr_1", "mcpr_2"])
    await store.responses.take_approvals("u", ["mcpr_1"])
    clock.now += approvals.TAKEN_LIFETIME_SECONDS
    await store.responses.take_approvals("t", ["mcpr_3"])
    assert await store.upkeep.sweep() == 0
    with pytest.raises(InvalidRequest, match="'mcpr_1' was already answered"):
        await store.responses.take_approvals("t", ["mcpr_4", "mcpr_1"])
    clock.now += 1
    assert await store.upkeep.sweep() == 3
    assert await count_rows("approvals") == 1, "those that were taken with a refused one are not"


async def test_the_newest_answers_of_a_tenant_are_remembered(
    store: Stores, clock: Clock, count_rows: CountRows, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(approvals, "MAX_TAKEN_APPROVALS", 2)
    for number in range(4):
        clock.now += 1
        await store.responses.take_approvals("t", [f"mcpr_{number}"])
        await store.responses.take_approvals("u", ["mcpr_0"] if not number else [])
    assert await count_rows("approvals") == 3
    with pytest.raises(InvalidRequest, match="'mcpr_2'"):
        await store.responses.take_approvals("t", ["mcpr_2"])
    await store.responses.take_approvals("t", ["mcpr_1"])
    with pytest.raises(InvalidRequest, match="'mcpr_0'"):
        await store.responses.take_approvals("u", ["mcpr_0"])
