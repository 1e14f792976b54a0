"""Responses in the background: made once, heard alike by everybody, and never lost."""

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


@pytest.fixture
async def make(make_creator: MakeCreator) -> AsyncGenerator[Make, None]:
    """A process that works in the background; several share one store."""
    made: list[Background] = []

    def one(backend: ScriptedBackend) -> Background:
        creator: Creator = make_creator(backend)
        jobs = Worker(creator.store.jobs, creator.store.signals, owner=f"process {len(made)}")
        made.append(Background(creator, jobs))
        return made[-1]

    yield one
    for background in made:
        await background.jobs.aclose()


async def submit(background: Background, **params: Any) -> Response:
    body = msgspec.json.encode({"model": "m", "input": "hi", "background": True, **params})
    return await background.submit(parse_create(body), body, "t")


async def heard(background: Background, response_id: str, after: int = -1) -> list[dict[str, Any]]:
    reader, events = SseReader(), list[dict[str, Any]]()
    async with aclosing(background.follow("t", response_id, after)) as pieces:
        async for piece in pieces:
            events += [msgspec.json.decode(data) for data in reader.feed(piece)]
    return events


class Stalling:
    """Says some chunks, and then nothing until it is let go."""

    def __init__(self, *steps: Step) -> None:
        self.steps = steps
        self.said = asyncio.Event()
        self.stopped = asyncio.Event()

    async def __call__(self, _turn: TurnRequest, /) -> AsyncGenerator[Step, None]:
        try:
            for step in self.steps:
                yield step
            self.said.set()
            await asyncio.Event().wait()
        finally:
            self.stopped.set()


async def leave_behind(make: Make, *steps: Step) -> str:
    """A response that a process was working on when it ended: this much of it is in the log."""
    stalling = Stalling(*steps)
    first = make(ScriptedBackend(stalling))
    response = await submit(first)
    async with asyncio.timeout(10):
        await stalling.said.wait()
        await first.jobs.aclose()
    return response.id


async def taken_up(make: Make, response_id: str, backend: ScriptedBackend) -> list[dict[str, Any]]:
    second = make(backend)
    second.jobs.adopt()
    async with asyncio.timeout(10):
        events = await heard(second, response_id)
    check_order(events)
    return events


@pytest.mark.requirement("PROTOCOL/stream-queued")
async def test_a_queued_response_is_made_and_heard(make: Make) -> None:
    background = make(ScriptedBackend.saying("Hel", "lo"))
    response = await submit(background)
    assert response.status == "queued"
    events = await heard(background, response.id)
    check_order(events)
    assert [event["type"] for event in events[:3]] == [
        "response.created",
        "response.queued",
        "response.in_progress",
    ]
    assert events[-1]["response"]["status"] == "completed"
    kept = await background.creator.store.responses.response("t", response.id)
    assert msgspec.to_builtins(kept) == events[-1]["response"]


@pytest.mark.requirement("PROTOCOL/background-resume")
async def test_everybody_hears_the_same_from_anywhere(make: Make) -> None:
    background = make(ScriptedBackend.saying(*"abcdef"))
    response = await submit(background, stream=True)
    whole, again = await asyncio.gather(heard(background, response.id), heard(background, response.id))
    assert whole == again
    for after in range(len(whole)):
        assert await heard(background, response.id, after) == whole[after + 1 :]


@pytest.mark.requirement("PROTOCOL/background-resume-refused")
async def test_what_cannot_be_followed_is_refused(make: Make) -> None:
    background = make(ScriptedBackend.saying("a"))
    response = await submit(background)
    last = len(await heard(background, response.id)) - 1
    with pytest.raises(InvalidRequest) as beyond:
        await heard(background, response.id, last + 1)
    assert beyond.value.param == "starting_after"
    with pytest.raises(NotFound):
        await heard(background, "resp_unknown")
    body = msgspec.json.encode({"model": "m", "input": "hi"})
    foreground = await background.creator.start(parse_create(body), Caller.of("t")).result()
    with pytest.raises(InvalidRequest) as refused:
        await heard(background, foreground.id)
    assert refused.value.param == "stream"


@pytest.mark.requirement("PROTOCOL/background-cancel")
async def test_cancelling_stops_the_model_and_ends_the_stream(make: Make) -> None:
    stalling = Stalling([TextDelta("Hel")])
    background = make(ScriptedBackend(stalling))
    response = await submit(background)
    following = asyncio.create_task(heard(background, response.id))
    async with asyncio.timeout(10):
        await stalling.said.wait()
        cancelled = await background.cancel("t", response.id)
        await stalling.stopped.wait()
        events = await following
    assert cancelled.status == "cancelled"
    assert await background.cancel("t", response.id) == cancelled
    check_order(events)
    assert events[-1]["response"] == msgspec.to_builtins(cancelled)


@pytest.mark.requirement("PROTOCOL/background-cancel-foreground")
async def test_only_background_responses_are_cancelled(make: Make) -> None:
    background = make(ScriptedBackend.saying("a"))
    body = msgspec.json.encode({"model": "m", "input": "hi"})
    foreground = await background.creator.start(parse_create(body), Caller.of("t")).result()
    with pytest.raises(InvalidRequest, match="background"):
        await background.cancel("t", foreground.id)
    with pytest.raises(NotFound):
        await background.cancel("other", foreground.id)


@pytest.mark.requirement("PROTOCOL/background-cancel-ended")
async def test_a_response_that_has_ended_stays_as_it_is(make: Make) -> None:
    background = make(ScriptedBackend.saying("a"))
    response = await submit(background)
    await heard(background, response.id)
    assert (await background.cancel("t", response.id)).status == "completed"


@pytest.mark.requirement("PROTOCOL/background-failed")
async def test_a_failing_backend_fails_the_response(make: Make) -> None:
    background = make(ScriptedBackend([BackendTimeout()]))
    response = await submit(background)
    events = await heard(background, response.id)
    check_order(events)
    assert [event["type"] for event in events[-2:]] == ["error", "response.failed"]


@pytest.mark.requirement("PROTOCOL/background-refused")
async def test_what_would_be_refused_later_is_refused_at_once(make: Make) -> None:
    background = make(ScriptedBackend.saying("a"))
    refused: list[dict[str, Any]] = [
        {"previous_response_id": "resp_unknown"},
        {"conversation": "conv_unknown"},
        {"tools": [{"type": "file_search", "vector_store_ids": []}]},
        {"model": "unknown"},
    ]
    for params in refused:
        with pytest.raises((NotFound, InvalidRequest)):
            await submit(background, **params)
    assert await background.creator.store.responses.list_responses("t", limit=10) == []


async def test_a_half_message_is_closed_and_the_answer_said_anew(make: Make) -> None:
    response_id = await leave_behind(make, [ReasoningDelta("hm")], [TextDelta("Hel")])
    backend = ScriptedBackend.saying("Hello")
    events = await taken_up(make, response_id, backend)
    output = events[-1]["response"]["output"]
    assert [(item["type"], item["status"]) for item in output] == [
        ("reasoning", "completed"),
        ("message", "incomplete"),
        ("message", "completed"),
    ]
    question, thought = backend.turns[0].items
    assert isinstance(question, Message)
    assert isinstance(thought, Reasoning), "the model goes on from the last whole item"


async def test_whole_calls_are_never_paid_for_twice(make: Make) -> None:
    calls = [
        CallStarted(0, "call_1", "f"),
        CallDelta(0, "{}"),
        CallStarted(1, "call_2", "g"),
        CallDelta(1, '{"a'),
    ]
    response_id = await leave_behind(make, calls)
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
    """The call that broke off is not shown to the model; the whole one is, with its output."""
    backend = ScriptedBackend.saying("done")
    body = msgspec.json.encode(
        {
            "model": "m",
            "previous_response_id": response_id,
            "input": [{"type": "function_call_output", "call_id": "call_1", "output": "1"}],
        }
    )
    await make(backend).creator.start(parse_create(body), Caller.of("t")).result()
    shown = [item.call_id for item in backend.turns[0].items if isinstance(item, FunctionCall)]
    assert shown == ["call_1"]


async def test_a_response_that_breaks_its_process_again_and_again_is_given_up(
    make: Make, store: Stores
) -> None:
    response_id = await leave_behind(make, [TextDelta("x")])
    for number in range(MAX_ATTEMPTS + 1):
        assert await store.jobs.claim_one(f"process that died {number}", RESPONSE_JOB, "t", response_id, 0.0)
    backend = ScriptedBackend.saying("never asked")
    events = await taken_up(make, response_id, backend)
    assert events[-1]["type"] == "response.failed"
    assert "Given up" in events[-1]["response"]["error"]["message"]


async def test_who_is_fenced_lets_go_and_writes_nothing_more(make: Make, store: Stores) -> None:
    stalling = Stalling([TextDelta("Hel")])
    background = make(ScriptedBackend(stalling))
    response = await submit(background)
    async with asyncio.timeout(10):
        await stalling.said.wait()
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
    monkeypatch.setattr(retry, "PAUSE", 0.01)
    background = make(ScriptedBackend(slowly))
    response = await submit(background)
    async with asyncio.timeout(10):
        events = await heard(background, response.id)
    check_order(events)
    assert events[-1]["response"]["status"] == "completed"


async def test_what_the_engine_refuses_leaves_nothing_behind(
    make: Make, store: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    background = make(ScriptedBackend.saying("a"))

    await background.jobs.aclose()
    with pytest.raises(Unavailable):
        await submit(background)
    assert await store.responses.list_responses("t", limit=10) == []


async def test_a_conversation_is_locked_while_a_response_is_made_in_it(make: Make, store: Stores) -> None:
    await store.conversations.add_conversation("t", Conversation(id="conv_1", created_at=1), [])
    stalling = Stalling([TextDelta("Hel")])
    background = make(ScriptedBackend(stalling))
    response = await submit(background, conversation="conv_1")
    async with asyncio.timeout(10):
        await stalling.said.wait()
        with pytest.raises(InvalidRequest) as locked:
            await submit(background, conversation={"id": "conv_1"})
        assert locked.value.code == "conversation_locked"
        await background.cancel("t", response.id)
    assert (await store.conversations.conversation_items("t", "conv_1", Page())).items == [], (
        "nothing came of it"
    )
    second = await submit(background, conversation="conv_1")
    await background.cancel("t", second.id)


async def test_a_follower_of_a_silent_response_is_sent_a_sign_of_life(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("antiphon.store.working.HEARTBEAT", 0.0)
    monkeypatch.setattr("antiphon.store.working.POLL", 0.01)
    background = make(ScriptedBackend(Stalling([TextDelta("a")])))
    response = await submit(background)
    async with asyncio.timeout(10), aclosing(background.follow("t", response.id)) as pieces:
        async for piece in pieces:
            if piece == COMMENT:
                break
    assert SseReader().feed(COMMENT) == []


async def test_a_client_that_leaves_during_the_submission_leaves_no_half_of_it(
    make: Make, store: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    background = make(ScriptedBackend.saying("a"))
    save, asked, ready = store.background.submit, asyncio.Event(), asyncio.Event()

    async def slow_save(*args: Any) -> None:
        await save(*args)
        asked.set()
        await ready.wait()

    monkeypatch.setattr(store.background, "submit", slow_save)
    submitting = asyncio.create_task(submit(background))
    async with asyncio.timeout(10):
        await asked.wait()
        submitting.cancel()
        ready.set()
        [queued] = await store.responses.list_responses("t", limit=10)
        events = await heard(background, queued.response.id)
    assert events[-1]["response"]["status"] == "completed"


async def test_what_slipped_from_its_own_hands_is_taken_up_again(make: Make, store: Stores) -> None:
    background = make(ScriptedBackend.saying("a"))
    response_id = await leave_behind(make, [TextDelta("x")])
    assert await store.jobs.claim_one(background.jobs.owner, RESPONSE_JOB, "t", response_id, 0.0)
    other = await submit(background)
    background.jobs.adopt()
    store.signals.publish(CANCEL_TOPIC)
    async with asyncio.timeout(10):
        events = await heard(background, response_id)
        await heard(background, other.id)
    assert events[-1]["response"]["status"] == "completed"


async def test_a_response_whose_model_is_gone_fails(make: Make, make_creator: MakeCreator) -> None:
    response_id = await leave_behind(make, [TextDelta("x")])
    other = make_creator(ScriptedBackend.saying("a"), router=Router([], chance=lambda: 0.5))
    background = Background(other, Worker(other.store.jobs, other.store.signals, owner="after a change"))
    await background.jobs.resume(RESPONSE_JOB, "t", response_id)
    events = await heard(background, response_id)
    await background.jobs.aclose()
    check_order(events)
    assert "does not exist" in events[-1]["response"]["error"]["message"]


async def test_a_parent_that_is_deleted_meanwhile_is_still_what_is_gone_on_from(
    make: Make, store: Stores
) -> None:
    body = msgspec.json.encode({"model": "m", "input": "first"})
    stalling = Stalling([TextDelta("x")])
    first = make(ScriptedBackend([[TextDelta("one"), Finished("stop")]], stalling))
    parent = await first.creator.start(parse_create(body), Caller.of("t")).result()
    response = await submit(first, input="second", previous_response_id=parent.id)
    async with asyncio.timeout(10):
        await stalling.said.wait()
        await first.jobs.aclose()
    await store.responses.delete("t", parent.id)
    backend = ScriptedBackend.saying("two")
    events = await taken_up(make, response.id, backend)
    assert events[-1]["response"]["status"] == "completed"
    assert len(backend.turns[0].items) == 3


async def test_letting_go_in_good_order_is_no_failed_attempt(make: Make, store: Stores) -> None:
    response_id = await leave_behind(make, [TextDelta("x")])
    for number in range(2 * MAX_ATTEMPTS):
        assert await store.jobs.claim_one(f"deploy {number}", RESPONSE_JOB, "t", response_id, 0.0)
        await store.jobs.release(f"deploy {number}")
    events = await taken_up(make, response_id, ScriptedBackend.saying("done"))
    assert events[-1]["response"]["status"] == "completed"


async def test_what_a_later_attempt_leaves_out_is_said(make: Make) -> None:
    too_long = BackendRefused("too long", status=400, code="context_length_exceeded")
    # The submission prepares a turn too, to see whether it would be refused.
    background = make(ScriptedBackend([], [too_long], [[TextDelta("a"), Finished("stop")]]))
    items = [{"role": "user", "content": f"{number} " * 50} for number in range(9)]
    response = await submit(background, input=items, truncation="auto")
    events = await heard(background, response.id)
    assert "left out" in events[-1]["response"]["downgrades"][0]
