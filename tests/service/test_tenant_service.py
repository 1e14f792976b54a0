"""The service for one tenant, called from within."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

import pytest
from msgspec import to_builtins

from antiphon.backends.scripted import ScriptedBackend, Step
from antiphon.caller import Caller
from antiphon.errors import InvalidRequest, NotFound
from antiphon.jobs.worker import Worker
from antiphon.protocol.events import OutputTextDelta, ResponseCreated
from antiphon.service.background import Background
from antiphon.service.tenant_service import TenantService
from antiphon.store.ports import Stores
from antiphon.turn.chunks import TextDelta
from antiphon.turn.context import TurnRequest
from tests.service.conftest import MakeCreator, services_of
from tests.turn.folding import to_wire
from tests.turn.order import check_order

Open = Callable[..., TenantService]


class Halting:
    """Says one word and then nothing."""

    def __init__(self) -> None:
        self.speaks, self.stopped = asyncio.Event(), asyncio.Event()
        self.backend = ScriptedBackend(self._play)

    async def _play(self, _turn: TurnRequest) -> AsyncGenerator[Step, None]:
        try:
            yield [TextDelta("first")]
            self.speaks.set()
            await asyncio.Event().wait()
        finally:
            self.stopped.set()


@pytest.fixture
def inside(make_creator: MakeCreator) -> Open:
    """The service of a tenant over these backends."""

    def make(*backends: ScriptedBackend, tenant: str = "ours") -> TenantService:
        creator = make_creator(*backends)
        background = Background(creator, Worker(creator.store.jobs, creator.store.signals, owner="test"))
        return TenantService(services_of(creator, background), Caller.of(tenant))

    return make


async def test_it_does_what_the_routes_do(inside: Open) -> None:
    service = inside(ScriptedBackend.saying("Hel", "lo"))
    first = await service.create(model="m", input="hi")
    events = [
        to_wire(event) async for event in service.stream(model="m", input="x", previous_response_id=first.id)
    ]
    check_order(events)
    assert await service.retrieve(first.id) == first
    assert await service.models() == ["m"]
    await service.delete(first.id)
    with pytest.raises(NotFound):
        await service.retrieve(first.id)


async def test_a_tenant_does_not_see_what_is_another_one_s(inside: Open) -> None:
    ours, theirs = inside(ScriptedBackend.saying("x")), inside(ScriptedBackend.saying("x"), tenant="theirs")
    response = await ours.create(model="m", input="hi")
    for attempt in (
        theirs.retrieve(response.id),
        theirs.delete(response.id),
        theirs.create(model="m", input="x", previous_response_id=response.id),
        theirs.compact(model="m", previous_response_id=response.id),
    ):
        with pytest.raises(NotFound):
            await attempt
    queued = await ours.create(model="m", input="hi", background=True)
    with pytest.raises(NotFound):
        await theirs.cancel(queued.id)
    with pytest.raises(NotFound):
        await anext(theirs.follow(queued.id))
    assert (await ours.cancel(queued.id)).id == queued.id


async def test_a_call_that_is_cancelled_ends_the_turn_and_is_kept(inside: Open, store: Stores) -> None:
    halting = Halting()
    asking = asyncio.create_task(inside(halting.backend).create(model="m", input="hi"))
    await halting.speaks.wait()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert halting.stopped.is_set()
    kept = await store.responses.list_responses("ours", limit=9)
    assert [stored.response.status for stored in kept] == ["cancelled"]


async def test_a_stream_that_is_left_ends_the_turn_and_is_kept(inside: Open) -> None:
    halting = Halting()
    service, response_id = inside(halting.backend), ""
    async with aclosing(service.stream(model="m", input="hi")) as events:
        async for event in events:
            if isinstance(event, ResponseCreated):
                response_id = event.response.id
            if isinstance(event, OutputTextDelta):
                break
    assert halting.stopped.is_set()
    kept = await service.retrieve(response_id)
    assert (kept.status, to_builtins(kept.output)[0]["content"][0]["text"]) == ("cancelled", "first")


async def test_what_is_wrong_with_a_request_is_raised(inside: Open) -> None:
    service = inside(ScriptedBackend.saying("x"))
    for params in ({"model": "m"}, {"model": "m", "input": "hi", "self": 1, "temperature": 9}):
        with pytest.raises(InvalidRequest):
            await service.create(**params)
        with pytest.raises(InvalidRequest):
            await anext(service.stream(**params))
