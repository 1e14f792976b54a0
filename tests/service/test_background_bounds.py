"""Background responses of a model that floods, and of a store that is slow: bounded, and cancelled at once."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from typing import Any

import msgspec
import pytest

from antiphon.backends.scripted import ScriptedBackend, Step
from antiphon.caller import Caller
from antiphon.errors import StoreUnavailable
from antiphon.jobs.worker import Worker
from antiphon.protocol.parse_create import parse_create
from antiphon.protocol.response import Response
from antiphon.service import event_log
from antiphon.service import stored as stored_module
from antiphon.service.background import Background
from antiphon.service.routing.router import Route, Router
from antiphon.service.stored import StoredResponses
from antiphon.store.base import EVENT_PAGE_BYTES, EVENT_PAGE_ROWS, Claim, Events, Job
from antiphon.store.ports import BackgroundStore, Stores
from antiphon.turn.chunks import Chunk, Finished, TextDelta
from antiphon.turn.context import TurnRequest
from tests.service.conftest import MakeCreator
from tests.service.test_background import followed
from tests.turn.order import check_order

CALLER = Caller.of("t")
TIMEOUT_SECONDS = 20.0
BATCH = 500
SMALL_BATCH = [TextDelta("x")] * BATCH
LARGE_BATCH = [TextDelta("x" * 50_000)]
AMPLE_LOG_BYTES = 1 << 40  # A fast machine fills the default before a test cancels.


class Flood:
    """Sends batches of deltas, without end or `batches` of them."""

    def __init__(self, batches: int | None = None, batch: Sequence[Chunk] = SMALL_BATCH) -> None:
        self._batch = batch
        self.sent = 0
        self.closed = asyncio.Event()
        self._batches = batches

    async def __call__(self, _turn: TurnRequest, /) -> AsyncGenerator[Step, None]:
        try:
            while self.sent != self._batches:
                self.sent += 1
                yield self._batch
                await asyncio.sleep(0)
            yield [Finished("stop")]
        finally:
            self.closed.set()


class SlowAppends:
    """A store whose log is written slowly, or not at all while `gate` is not set."""

    def __init__(self, store: BackgroundStore, monkeypatch: pytest.MonkeyPatch) -> None:
        self.rows: list[Events] = []
        self.seconds = 0.0
        self.claims = 0
        self.gate = asyncio.Event()
        self.gate.set()
        self._append, self._claim = store.append, store.claim
        monkeypatch.setattr(store, "append", self._slowly)
        monkeypatch.setattr(store, "claim", self._count_claims)

    async def _slowly(self, tenant: str, response_id: str, token: int, events: Events) -> None:
        self.rows.append(events)
        await asyncio.sleep(self.seconds)
        await self.gate.wait()
        await self._append(tenant, response_id, token, events)

    async def _count_claims(self, tenant: str, response_id: str, job: Job | None = None) -> Claim | None:
        self.claims += 1
        return await self._claim(tenant, response_id, job)


@pytest.fixture
def appends(store: Stores, monkeypatch: pytest.MonkeyPatch) -> SlowAppends:
    return SlowAppends(store.background, monkeypatch)


def background_of(make_creator: MakeCreator, flood: Flood, **fields: Any) -> Background:
    backend = ScriptedBackend(flood)
    route = Route("m", backend, total_seconds=fields.pop("total_seconds", 3600.0))
    creator = make_creator(router=Router([route], chance=lambda: 0.5))
    jobs = Worker(creator.store.jobs, creator.store.signals, owner="process")
    return Background(creator, jobs, **fields)


async def submit(background: Background) -> Response:
    body = msgspec.json.encode({"model": "m", "input": "hi", "background": True})
    return await background.submit(parse_create(body), body, CALLER)


async def stored(background: Background, response: Response) -> Response:
    return await background.creator.store.responses.response("t", response.id)


async def until_ended(background: Background, response: Response) -> Response:
    async with asyncio.timeout(TIMEOUT_SECONDS):
        while (found := await stored(background, response)).status in ("queued", "in_progress"):  # noqa: ASYNC110 -- it polls, as clients do
            await asyncio.sleep(0.02)
    return found


async def test_the_log_of_a_response_is_bounded(make_creator: MakeCreator) -> None:
    flood = Flood()
    background = background_of(make_creator, flood, max_log_bytes=200_000)
    response = await until_ended(background, await submit(background))
    assert response.status == "incomplete"
    assert isinstance(response.downgrades, list)
    assert "200000 bytes of stored events" in response.downgrades[0]
    assert flood.closed.is_set()
    events = await followed(background, response.id)
    check_order(events)
    assert len(msgspec.json.encode(events)) < 2_000_000
    await background.jobs.aclose()


async def test_a_model_waits_for_a_slow_store(make_creator: MakeCreator, appends: SlowAppends) -> None:
    flood = Flood(40)
    background = background_of(make_creator, flood)
    appends.gate.clear()
    response = await submit(background)
    await asyncio.sleep(0.5)
    assert flood.sent * BATCH <= event_log.MAX_WAITING_EVENTS + 2 * BATCH
    appends.gate.set()
    ended = await until_ended(background, response)
    assert ended.status == "completed"
    assert all(row.count <= event_log.MAX_ROW_EVENTS for row in appends.rows)
    events = await followed(background, response.id)
    check_order(events)
    assert sum(event["type"] == "response.output_text.delta" for event in events) == 40 * BATCH
    await background.jobs.aclose()


async def test_a_model_of_large_deltas_waits_for_a_slow_store(
    make_creator: MakeCreator, appends: SlowAppends
) -> None:
    flood = Flood(100, LARGE_BATCH)
    background = background_of(make_creator, flood)
    appends.gate.clear()
    response = await submit(background)
    await asyncio.sleep(0.5)
    assert flood.sent * 50_000 <= event_log.MAX_WAITING_BYTES + 2 * 50_000
    appends.gate.set()
    ended = await until_ended(background, response)
    assert ended.status == "completed"
    assert all(len(row.data) <= event_log.MAX_ROW_BYTES for row in appends.rows)
    events = await followed(background, response.id)
    check_order(events)
    assert len(events[-1]["response"]["output"][0]["content"][0]["text"]) == 100 * 50_000
    await background.jobs.aclose()


async def test_the_large_events_of_an_end_have_rows_and_pages_of_their_own(
    make_creator: MakeCreator, store: Stores
) -> None:
    background = background_of(make_creator, Flood(40, LARGE_BATCH))
    response = await until_ended(background, await submit(background))
    pages, after, ended = list[Sequence[Events]](), -1, False
    while not ended:
        rows, ended = await store.background.events("t", response.id, after)
        after += sum(row.count for row in rows)
        pages.append(rows)
    large = [row for page in pages for row in page if len(row.data) > EVENT_PAGE_BYTES]
    assert [row.count for row in large] == [1, 1, 1, 1], "the text, its part, its item and the response"
    for page in pages:
        assert sum(len(row.data) for row in page[:-1]) < EVENT_PAGE_BYTES
    await background.jobs.aclose()


async def test_an_answer_that_is_over_is_not_ended_again_by_a_cancellation(
    make_creator: MakeCreator, monkeypatch: pytest.MonkeyPatch
) -> None:
    background = background_of(make_creator, Flood(2))
    finish, gate, ends = background.creator.store.background.finish, asyncio.Event(), list[Any]()

    async def slowly(*arguments: Any) -> None:
        ends.append(arguments)
        await gate.wait()
        await finish(*arguments)

    monkeypatch.setattr(background.creator.store.background, "finish", slowly)
    response = await submit(background)
    async with asyncio.timeout(TIMEOUT_SECONDS):
        while not ends:  # noqa: ASYNC110 -- until the end is being stored
            await asyncio.sleep(0.01)
        cancelling = asyncio.create_task(background.cancel(CALLER, response.id))
        await asyncio.sleep(0.1)
        gate.set()
        assert (await cancelling).status == "completed"
    assert len(ends) == 1
    await background.jobs.aclose()


async def test_a_cancellation_is_answered_before_a_slow_end_is_stored(
    make_creator: MakeCreator, monkeypatch: pytest.MonkeyPatch
) -> None:
    flood = Flood()
    background = background_of(make_creator, flood, max_log_bytes=AMPLE_LOG_BYTES)
    store = background.creator.store
    finish, gate = store.background.finish, asyncio.Event()

    async def slowly(*arguments: Any) -> None:
        await gate.wait()
        await finish(*arguments)

    async def no_read(*_arguments: Any) -> Response:
        raise AssertionError("a read may wait for large ones of others")

    monkeypatch.setattr(store.background, "finish", slowly)
    stored_responses = StoredResponses(store.responses, background)
    response = await submit(background)
    await asyncio.sleep(0.2)
    async with asyncio.timeout(TIMEOUT_SECONDS):
        with monkeypatch.context() as unreadable:
            unreadable.setattr(store.responses, "response", no_read)
            answered = await stored_responses.cancel(CALLER, response.id)
        assert answered.status == "in_progress"
        assert answered == await stored_responses.retrieve(CALLER, response.id)
        await flood.closed.wait()
        deleting = asyncio.create_task(stored_responses.delete(CALLER, response.id))
        await asyncio.sleep(0.1)
        assert not deleting.done(), "a response that is not ended is not deleted"
        gate.set()
        await deleting
    await background.jobs.aclose()


async def test_a_slow_cancellation_goes_on_after_its_answer(
    make_creator: MakeCreator, monkeypatch: pytest.MonkeyPatch
) -> None:
    background = background_of(make_creator, Flood(), max_log_bytes=AMPLE_LOG_BYTES)
    monkeypatch.setattr(stored_module, "CANCEL_SECONDS", 0.0)
    response = await submit(background)
    await asyncio.sleep(0.2)
    stored_responses = StoredResponses(background.creator.store.responses, background)
    assert (await stored_responses.cancel(CALLER, response.id)).status == "in_progress"
    assert (await until_ended(background, response)).status == "cancelled"
    await background.jobs.aclose()


async def test_the_total_time_holds_while_a_model_waits_for_the_store(
    make_creator: MakeCreator, appends: SlowAppends
) -> None:
    flood = Flood()
    background = background_of(make_creator, flood, total_seconds=0.3)
    appends.gate.clear()
    response = await submit(background)
    await asyncio.wait_for(flood.closed.wait(), TIMEOUT_SECONDS)
    appends.gate.set()
    ended = await until_ended(background, response)
    assert ended.error is not None
    assert "took longer than 0.3 s" in ended.error.message
    await background.jobs.aclose()


@pytest.mark.parametrize("seconds", [0.0, 0.1])
async def test_a_flood_is_cancelled_at_once_and_without_reading_its_log(
    make_creator: MakeCreator, appends: SlowAppends, seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    flood = Flood()
    background = background_of(make_creator, flood, max_log_bytes=AMPLE_LOG_BYTES)
    responses, reads = background.creator.store.responses, list[str]()
    read = responses.response

    async def counted(tenant: str, response_id: str) -> Response:
        reads.append(response_id)
        return await read(tenant, response_id)

    monkeypatch.setattr(responses, "response", counted)
    appends.seconds = seconds
    response = await submit(background)
    await asyncio.sleep(0.4)
    loop = asyncio.get_running_loop()
    begun, claims = loop.time(), appends.claims
    cancelled = await background.cancel(CALLER, response.id)
    assert loop.time() - begun < 1.0
    assert cancelled.status == "cancelled"
    assert appends.claims == claims
    assert not reads
    assert cancelled == await read("t", response.id)
    assert flood.closed.is_set()
    events = await followed(background, response.id)
    check_order(events)
    assert events[-1]["response"]["status"] == "cancelled"
    assert events[-1]["response"]["output"][0]["status"] == "incomplete"
    await background.jobs.aclose()


async def test_a_run_that_cannot_store_its_end_is_cancelled_from_its_log(
    make_creator: MakeCreator, appends: SlowAppends, monkeypatch: pytest.MonkeyPatch
) -> None:
    flood = Flood()
    background = background_of(make_creator, flood, max_log_bytes=AMPLE_LOG_BYTES)
    response = await submit(background)
    await asyncio.sleep(0.2)
    finish = background.creator.store.background.finish
    failures = iter([StoreUnavailable()])

    async def fail_once(*arguments: Any) -> None:
        for error in failures:
            raise error
        await finish(*arguments)

    monkeypatch.setattr(background.creator.store.background, "finish", fail_once)
    assert (await background.cancel(CALLER, response.id)).status == "cancelled"
    events = await followed(background, response.id)
    check_order(events)
    await background.jobs.aclose()


async def test_a_follower_reads_a_long_log_in_pages(
    make_creator: MakeCreator, store: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    flood = Flood(60)
    background = background_of(make_creator, flood)
    response = await until_ended(background, await submit(background))
    read, pages = store.background.events, list[int]()

    async def counted(*arguments: Any) -> Any:
        rows, ended = await read(*arguments)
        pages.append(len(rows))
        return rows, ended

    monkeypatch.setattr(store.background, "events", counted)
    async with asyncio.timeout(TIMEOUT_SECONDS):
        events = await followed(background, response.id)
    check_order(events)
    assert len(pages) > 3
    assert 1 < max(pages) <= EVENT_PAGE_ROWS
    await background.jobs.aclose()
