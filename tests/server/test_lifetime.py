"""Turns end when their client disconnects, or when the drain timeout of the server expires."""

import asyncio
import gc
import weakref
from collections.abc import AsyncGenerator
from dataclasses import dataclass

import pytest

from antiphon.backends.scripted import ScriptedBackend, Step
from antiphon.errors import BackendTimeout, Unavailable
from antiphon.server.app import App
from antiphon.server.lifetime import SWEEP_SECONDS, ClientGone, Lifetimes
from antiphon.server.memory import memory_client
from antiphon.server.types import Message
from antiphon.turn.chunks import TextDelta
from antiphon.turn.context import TurnRequest
from tests.server.conftest import make_creator, never_opened, options, services_of
from tests.server.test_app import BODY, events_of
from tests.service.conftest import MakeCreator
from tests.turn.order import check_order

__all__ = ["make_creator"]


class Upstream:
    """A backend that sends one text delta and then hangs; records that it was stopped."""

    def __init__(self) -> None:
        self.stopped = asyncio.Event()
        self.backend = ScriptedBackend(self.steps)

    async def steps(self, _turn: TurnRequest) -> AsyncGenerator[Step, None]:
        try:
            yield [TextDelta("a")]
            await asyncio.Event().wait()
        finally:
            self.stopped.set()


async def never() -> Message:
    await asyncio.Event().wait()
    raise AssertionError


async def gone() -> Message:
    return {"type": "http.disconnect"}


@pytest.mark.parametrize("stream", [True, False])
async def test_a_client_disconnect_stops_the_upstream(make_creator: MakeCreator, stream: bool) -> None:
    upstream = Upstream()
    app = App(never_opened, lambda: "req_1", options())
    app.mount(services_of(make_creator(upstream.backend)))
    sent: list[Message] = []
    bodies = iter([b'{"model":"m","input":"hi","stream":%b}' % (b"true" if stream else b"false")])

    async def receive() -> Message:
        for body in bodies:
            return {"type": "http.request", "body": body}
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": "/v1/responses", "headers": [(b"host", b"localhost")]}
    await asyncio.wait_for(app(scope, receive, send), 2)
    assert upstream.stopped.is_set()
    assert not any(message.get("status") == 500 for message in sent)


async def test_open_streams_get_their_time_and_then_a_proper_end(make_creator: MakeCreator) -> None:
    upstream = Upstream()
    app = App(never_opened, lambda: "req_1", options())
    app.mount(services_of(make_creator(upstream.backend)))
    async with memory_client(app) as client:
        async with client.stream("POST", "/v1/responses", json={**BODY, "stream": True}) as answer:
            pieces = answer.aiter_text()
            text = await anext(pieces)
            app.lifetimes.drain(0.05)
            async for piece in pieces:
                text += piece
        refused = await client.post("/v1/responses", json=BODY)
        assert refused.status_code == 503
        assert refused.headers["retry-after"] == "1"
        assert (await client.get("/readyz")).status_code == 503
        assert (await client.get("/healthz")).status_code == 200
    events = events_of(text)
    check_order(events)
    assert events[-2]["error"]["code"] == "server_unavailable"
    assert upstream.stopped.is_set()


async def test_a_json_request_that_outlives_the_drain_is_a_503(make_creator: MakeCreator) -> None:
    app = App(never_opened, lambda: "req_1", options())
    app.mount(services_of(make_creator(Upstream().backend)))
    async with memory_client(app) as client:
        request = asyncio.create_task(client.post("/v1/responses", json=BODY))
        await asyncio.sleep(0.01)
        app.lifetimes.drain(0.01)
        app.lifetimes.drain(99)
        assert (await request).status_code == 503


async def test_a_lease_raises_why_it_ended() -> None:
    lifetimes = Lifetimes()
    with pytest.raises(ClientGone), lifetimes.lease(gone) as lease:
        lease.expect_body(9)
        lease.expect_disconnect()
        await asyncio.wait_for(asyncio.Event().wait(), 2)
    with pytest.raises(Unavailable), lifetimes.lease(never):
        lifetimes.drain(0)
        await asyncio.wait_for(asyncio.Event().wait(), 2)
    with pytest.raises(Unavailable):
        lifetimes.lease(never)


async def test_an_external_cancellation_is_propagated() -> None:
    async def work() -> None:
        with Lifetimes().lease(never):
            await asyncio.Event().wait()

    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@dataclass
class SlowTurn:
    total_seconds: float


@dataclass
class SlowWork:
    """Work whose turn does not end."""

    turn: SlowTurn | None


async def test_an_answer_is_freed_with_its_lease_without_the_garbage_collector() -> None:
    lifetimes, work = Lifetimes(), SlowWork(None)
    alive = weakref.ref(work)
    gc.disable()
    try:
        with lifetimes.lease(never) as lease:
            lease.limit_turns(work)
            await asyncio.sleep(2 * SWEEP_SECONDS)  # from the first sweep on, the client is watched
        del lease, work
        await asyncio.sleep(0.01)
        assert alive() is None
    finally:
        gc.enable()


async def test_a_turn_ends_at_its_total_time_whoever_is_slow() -> None:
    lifetimes, work = Lifetimes(), SlowWork(SlowTurn(0.3))
    with pytest.raises(BackendTimeout, match=r"longer than 0\.3 s"), lifetimes.lease() as lease:
        lease.limit_turns(work)
        await asyncio.sleep(10)


async def test_each_turn_has_its_own_time() -> None:
    lifetimes, work = Lifetimes(), SlowWork(SlowTurn(1.5))
    with lifetimes.lease() as lease:
        lease.limit_turns(work)
        for _ in range(4):
            await asyncio.sleep(0.6)
            work.turn = SlowTurn(1.5)
        work.turn = None
        await asyncio.sleep(2.0)
