"""Background responses: created once, followed identically by every client, and never lost."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any

import msgspec
import pytest

from antiphon.backends.scripted import ScriptedBackend, Step
from antiphon.caller import Caller
from antiphon.errors import (
    BackendRefused,
    BackendTimeout,
    InvalidRequest,
    NotFound,
    StoreUnavailable,
    Unavailable,
)
from antiphon.jobs.worker import CANCEL_TOPIC, Worker
from antiphon.protocol.items import FunctionCall, Message, Reasoning
from antiphon.protocol.parse_create import parse_create
from antiphon.protocol.response import Response
from antiphon.protocol.sse import COMMENT, SseReader
from antiphon.service.background import Background
from antiphon.service.responses.create import Creator
from antiphon.service.routing.router import Router
from antiphon.store import retry
from antiphon.store.base import RESPONSE_JOB, Conversation, Events, Page
from antiphon.store.ports import Stores
from antiphon.store.working import MAX_ATTEMPTS
from antiphon.turn.chunks import CallDelta, CallStarted, Finished, ReasoningDelta, TextDelta
from antiphon.turn.context import TurnRequest
from tests.service.conftest import MakeCreator
from tests.turn.order import check_order

Make = Callable[[ScriptedBackend], Background]

CALLER = Caller.of("t")


@pytest.fixture
async def make(make_creator: MakeCreator) -> AsyncGenerator[Make, None]:
    """Builds background services that share one store."""
    services: list[Background] = []

    def one(backend: ScriptedBackend) -> Background:
        creator: Creator = make_creator(backend)
        jobs = Worker(creator.store.jobs, creator.store.signals, owner=f"process {len(services)}")
        services.append(Background(creator, jobs))
        return services[-1]

    yield one
    for background in services:
        await background.jobs.aclose()


async def submit(background: Background, **params: Any) -> Response:
    body = msgspec.json.encode({"model": "m", "input": "hi", "background": True, **params})
    return await background.submit(parse_create(body), body, CALLER)


async def followed(background: Background, response_id: str, after: int = -1) -> list[dict[str, Any]]:
    reader, events = SseReader(), list[dict[str, Any]]()
    async with aclosing(background.follow(CALLER, response_id, after)) as pieces:
        async for piece in pieces:
            events += [msgspec.json.decode(data) for data in reader.feed(piece)]
    return events


class Stalling:
    """Sends some chunks, and then nothing until it is cancelled."""

    def __init__(self, *steps: Step) -> None:
        self.steps = steps
        self.steps_sent = asyncio.Event()
        self.stopped = asyncio.Event()

    async def __call__(self, _turn: TurnRequest, /) -> AsyncGenerator[Step, None]:
        try:
            for step in self.steps:
                yield step
            self.steps_sent.set()
            await asyncio.Event().wait()
        finally:
            self.stopped.set()


async def interrupted_response(make: Make, *steps: Step) -> str:
    """A response whose process ended during the run, with these steps in its log."""
    stalling = Stalling(*steps)
    first = make(ScriptedBackend(stalling))
    response = await submit(first)
    async with asyncio.timeout(10):
        await stalling.steps_sent.wait()
        await first.jobs.aclose()
    return response.id


async def taken_up(make: Make, response_id: str, backend: ScriptedBackend) -> list[dict[str, Any]]:
    second = make(backend)
    second.jobs.adopt()
    async with asyncio.timeout(10):
        events = await followed(second, response_id)
    check_order(events)
    return events


@pytest.mark.requirement("PROTOCOL/stream-queued")
async def test_a_queued_response_is_created_and_followed(make: Make) -> None:
    background = make(ScriptedBackend.saying("Hel", "lo"))
    response = await submit(background)
    assert response.status == "queued"
    events = await followed(background, response.id)
    check_order(events)
    assert [event["type"] for event in events[:3]] == [
        "response.created",
        "response.queued",
        "response.in_progress",
    ]
    assert events[-1]["response"]["status"] == "completed"
    saved = await background.creator.store.responses.response("t", response.id)
    assert msgspec.to_builtins(saved) == events[-1]["response"]


@pytest.mark.requirement("PROTOCOL/background-resume")
async def test_all_followers_receive_the_same_events_from_any_position(make: Make) -> None:
    background = make(ScriptedBackend.saying(*"abcdef"))
    response = await submit(background, stream=True)
    all_events, again = await asyncio.gather(
        followed(background, response.id), followed(background, response.id)
    )
    assert all_events == again
    for after in range(len(all_events)):
        assert await followed(background, response.id, after) == all_events[after + 1 :]


@pytest.mark.requirement("PROTOCOL/background-resume-refused")
async def test_a_response_that_cannot_be_followed_is_rejected(make: Make) -> None:
    background = make(ScriptedBackend.saying("a"))
    response = await submit(background)
    last = len(await followed(background, response.id)) - 1
    with pytest.raises(InvalidRequest) as beyond:
        await followed(background, response.id, last + 1)
    assert beyond.value.param == "starting_after"
    with pytest.raises(NotFound):
        await followed(background, "resp_unknown")
    body = msgspec.json.encode({"model": "m", "input": "hi"})
    foreground = await background.creator.start(parse_create(body), CALLER).result()
    with pytest.raises(InvalidRequest) as refused:
        await followed(background, foreground.id)
    assert refused.value.param == "stream"


@pytest.mark.requirement("PROTOCOL/background-cancel")
async def test_cancelling_stops_the_model_and_ends_the_stream(make: Make) -> None:
    stalling = Stalling([TextDelta("Hel")])
    background = make(ScriptedBackend(stalling))
    response = await submit(background)
    following = asyncio.create_task(followed(background, response.id))
    async with asyncio.timeout(10):
        await stalling.steps_sent.wait()
        cancelled = await background.cancel(CALLER, response.id)
        await stalling.stopped.wait()
        events = await following
    assert cancelled.status == "cancelled"
    assert await background.cancel(CALLER, response.id) == cancelled
    check_order(events)
    assert events[-1]["response"] == msgspec.to_builtins(cancelled)


@pytest.mark.requirement("PROTOCOL/background-cancel-foreground")
async def test_only_background_responses_are_cancelled(make: Make) -> None:
    background = make(ScriptedBackend.saying("a"))
    body = msgspec.json.encode({"model": "m", "input": "hi"})
    foreground = await background.creator.start(parse_create(body), CALLER).result()
    with pytest.raises(InvalidRequest, match="Cannot cancel a synchronous response"):
        await background.cancel(CALLER, foreground.id)
    with pytest.raises(NotFound):
        await background.cancel(Caller.of("other"), foreground.id)


@pytest.mark.requirement("PROTOCOL/background-cancel-ended")
async def test_an_ended_response_is_not_changed(make: Make) -> None:
    background = make(ScriptedBackend.saying("a"))
    response = await submit(background)
    await followed(background, response.id)
    assert (await background.cancel(CALLER, response.id)).status == "completed"


@pytest.mark.requirement("PROTOCOL/background-failed")
async def test_a_failing_backend_fails_the_response(make: Make) -> None:
    background = make(ScriptedBackend([BackendTimeout()]))
    response = await submit(background)
    events = await followed(background, response.id)
    check_order(events)
    assert [event["type"] for event in events[-2:]] == ["error", "response.failed"]


@pytest.mark.requirement("PROTOCOL/background-refused")
async def test_invalid_requests_are_rejected_on_submission(make: Make) -> None:
    background = make(ScriptedBackend.saying("a"))
    refused: list[dict[str, Any]] = [
        {"previous_response_id": "resp_unknown"},
        {"conversation": "conv_unknown"},
        {"tools": [{"type": "file_search", "vector_store_ids": ["vs_1"]}]},
        {"model": "unknown"},
    ]
    for params in refused:
        with pytest.raises((NotFound, InvalidRequest)):
            await submit(background, **params)
    assert await background.creator.store.responses.list_responses("t", limit=10) == []


async def test_an_incomplete_message_is_closed_and_the_answer_repeated(make: Make) -> None:
    response_id = await interrupted_response(make, [ReasoningDelta("hm")], [TextDelta("Hel")])
    backend = ScriptedBackend.saying("Hello")
    events = await taken_up(make, response_id, backend)
    output = events[-1]["response"]["output"]
    assert [(item["type"], item["status"]) for item in output] == [
        ("reasoning", "completed"),
        ("message", "incomplete"),
        ("message", "completed"),
    ]
    question, reasoning = backend.turns[0].items
    assert isinstance(question, Message)
    assert isinstance(reasoning, Reasoning), "the model continues after the last complete item"


async def test_complete_calls_are_not_requested_again(make: Make) -> None:
    calls = [
        CallStarted(0, "call_1", "f"),
        CallDelta(0, "{}"),
        CallStarted(1, "call_2", "g"),
        CallDelta(1, '{"a'),
    ]
    response_id = await interrupted_response(make, calls)
    backend = ScriptedBackend.saying("never asked")
    events = await taken_up(make, response_id, backend)
    assert events[-1]["type"] == "response.completed"
    output = events[-1]["response"]["output"]
    assert [(item["call_id"], item["status"]) for item in output] == [
        ("call_1", "completed"),
        ("call_2", "incomplete"),
    ]
    await continues(make, response_id)


async def continues(make: Make, response_id: str) -> None:
    """The interrupted call is not shown to the model; the complete one is, with its output."""
    backend = ScriptedBackend.saying("done")
    body = msgspec.json.encode(
        {
            "model": "m",
            "previous_response_id": response_id,
            "input": [{"type": "function_call_output", "call_id": "call_1", "output": "1"}],
        }
    )
    await make(backend).creator.start(parse_create(body), CALLER).result()
    shown = [item.call_id for item in backend.turns[0].items if isinstance(item, FunctionCall)]
    assert shown == ["call_1"]


async def test_a_response_that_crashes_repeatedly_fails(make: Make, store: Stores) -> None:
    response_id = await interrupted_response(make, [TextDelta("x")])
    for number in range(MAX_ATTEMPTS + 1):
        assert await store.jobs.claim_one(f"process that died {number}", RESPONSE_JOB, "t", response_id, 0.0)
    backend = ScriptedBackend.saying("never asked")
    events = await taken_up(make, response_id, backend)
    assert events[-1]["type"] == "response.failed"
    assert "Given up" in events[-1]["response"]["error"]["message"]


async def test_a_fenced_process_stops_and_writes_no_more(make: Make, store: Stores) -> None:
    stalling = Stalling([TextDelta("Hel")])
    background = make(ScriptedBackend(stalling))
    response = await submit(background)
    async with asyncio.timeout(10):
        await stalling.steps_sent.wait()
        job = await store.jobs.claim_one("somebody else", RESPONSE_JOB, "t", response.id, 0.0)
        assert job is not None
        assert await store.background.claim("t", response.id, job) is not None
        store.signals.publish(CANCEL_TOPIC)
        await stalling.stopped.wait()
    rows, ended = await store.background.events("t", response.id, -1)
    assert not ended
    again = await store.background.claim("t", response.id, job)
    assert again is not None
    assert sum(row.count for row in rows) == sum(row.count for row in again.events)


async def test_a_database_that_is_away_is_waited_for(
    make: Make, store: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    append, away, back = store.background.append, 3, asyncio.Event()

    async def sometimes(tenant: str, response_id: str, token: int, events: Events) -> None:
        nonlocal away
        away -= 1
        if away >= 0:
            raise StoreUnavailable
        back.set()
        await append(tenant, response_id, token, events)

    async def slowly(_turn: TurnRequest) -> AsyncGenerator[Step, None]:
        yield [TextDelta("a")]
        await back.wait()
        yield [TextDelta("b")]
        yield [Finished("stop")]

    monkeypatch.setattr(store.background, "append", sometimes)
    monkeypatch.setattr(retry, "RETRY_SECONDS", 0.01)
    background = make(ScriptedBackend(slowly))
    response = await submit(background)
    async with asyncio.timeout(10):
        events = await followed(background, response.id)
    check_order(events)
    assert events[-1]["response"]["status"] == "completed"


async def test_a_rejected_submission_stores_nothing(
    make: Make, store: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    background = make(ScriptedBackend.saying("a"))

    await background.jobs.aclose()
    with pytest.raises(Unavailable):
        await submit(background)
    assert await store.responses.list_responses("t", limit=10) == []


async def test_a_conversation_is_locked_while_a_response_is_created_in_it(make: Make, store: Stores) -> None:
    await store.conversations.add_conversation("t", Conversation(id="conv_1", created_at=1), [])
    stalling = Stalling([TextDelta("Hel")])
    background = make(ScriptedBackend(stalling))
    response = await submit(background, conversation="conv_1")
    async with asyncio.timeout(10):
        await stalling.steps_sent.wait()
        with pytest.raises(InvalidRequest) as locked:
            await submit(background, conversation={"id": "conv_1"})
        assert locked.value.code == "conversation_locked"
        await background.cancel(CALLER, response.id)
    assert (await store.conversations.conversation_items("t", "conv_1", Page())).items == [], (
        "it had no effect"
    )
    second = await submit(background, conversation="conv_1")
    await background.cancel(CALLER, second.id)


async def test_a_follower_of_a_silent_response_receives_heartbeats(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("antiphon.store.working.HEARTBEAT_SECONDS", 0.0)
    monkeypatch.setattr("antiphon.store.working.POLL_SECONDS", 0.01)
    background = make(ScriptedBackend(Stalling([TextDelta("a")])))
    response = await submit(background)
    async with asyncio.timeout(10), aclosing(background.follow(CALLER, response.id)) as pieces:
        async for piece in pieces:
            if piece == COMMENT:
                break
    assert SseReader().feed(COMMENT) == []


async def test_a_client_disconnect_during_the_submission_leaves_no_partial_state(
    make: Make, store: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    background = make(ScriptedBackend.saying("a"))
    save, submit_called, ready = store.background.submit, asyncio.Event(), asyncio.Event()

    async def slow_save(*args: Any) -> None:
        await save(*args)
        submit_called.set()
        await ready.wait()

    monkeypatch.setattr(store.background, "submit", slow_save)
    submitting = asyncio.create_task(submit(background))
    async with asyncio.timeout(10):
        await submit_called.wait()
        submitting.cancel()
        ready.set()
        [queued] = await store.responses.list_responses("t", limit=10)
        events = await followed(background, queued.response.id)
    assert events[-1]["response"]["status"] == "completed"


async def test_a_process_resumes_its_own_orphaned_job(make: Make, store: Stores) -> None:
    background = make(ScriptedBackend.saying("a"))
    response_id = await interrupted_response(make, [TextDelta("x")])
    assert await store.jobs.claim_one(background.jobs.owner, RESPONSE_JOB, "t", response_id, 0.0)
    other = await submit(background)
    background.jobs.adopt()
    store.signals.publish(CANCEL_TOPIC)
    async with asyncio.timeout(10):
        events = await followed(background, response_id)
        await followed(background, other.id)
    assert events[-1]["response"]["status"] == "completed"


async def test_a_response_with_a_removed_model_fails(make: Make, make_creator: MakeCreator) -> None:
    response_id = await interrupted_response(make, [TextDelta("x")])
    other = make_creator(ScriptedBackend.saying("a"), router=Router([], chance=lambda: 0.5))
    background = Background(other, Worker(other.store.jobs, other.store.signals, owner="after a change"))
    await background.jobs.resume(RESPONSE_JOB, "t", response_id)
    events = await followed(background, response_id)
    await background.jobs.aclose()
    check_order(events)
    assert "does not exist" in events[-1]["response"]["error"]["message"]


async def test_a_concurrently_deleted_parent_is_still_continued(make: Make, store: Stores) -> None:
    body = msgspec.json.encode({"model": "m", "input": "first"})
    stalling = Stalling([TextDelta("x")])
    first = make(ScriptedBackend([[TextDelta("one"), Finished("stop")]], stalling))
    parent = await first.creator.start(parse_create(body), CALLER).result()
    response = await submit(first, input="second", previous_response_id=parent.id)
    async with asyncio.timeout(10):
        await stalling.steps_sent.wait()
        await first.jobs.aclose()
    await store.responses.delete("t", parent.id)
    backend = ScriptedBackend.saying("two")
    events = await taken_up(make, response.id, backend)
    assert events[-1]["response"]["status"] == "completed"
    assert len(backend.turns[0].items) == 3


async def test_an_orderly_shutdown_is_no_failed_attempt(make: Make, store: Stores) -> None:
    response_id = await interrupted_response(make, [TextDelta("x")])
    for number in range(2 * MAX_ATTEMPTS):
        assert await store.jobs.claim_one(f"deploy {number}", RESPONSE_JOB, "t", response_id, 0.0)
        await store.jobs.release(f"deploy {number}")
    events = await taken_up(make, response_id, ScriptedBackend.saying("done"))
    assert events[-1]["response"]["status"] == "completed"


async def test_downgrades_of_a_later_attempt_are_reported(make: Make) -> None:
    too_long = BackendRefused("too long", status=400, code="context_length_exceeded")
    # The submission also prepares a turn, to detect a rejection.
    background = make(ScriptedBackend([], [too_long], [[TextDelta("a"), Finished("stop")]]))
    items = [{"role": "user", "content": f"{number} " * 50} for number in range(9)]
    response = await submit(background, input=items, truncation="auto")
    events = await followed(background, response.id)
    assert "left out" in events[-1]["response"]["downgrades"][0]
