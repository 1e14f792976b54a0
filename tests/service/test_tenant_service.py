"""The service for one tenant, called in process."""

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
    """A backend that sends one text delta and then nothing."""

    def __init__(self) -> None:
        self.first_delta_sent, self.stopped = asyncio.Event(), asyncio.Event()
        self.backend = ScriptedBackend(self._steps)

    async def _steps(self, _turn: TurnRequest) -> AsyncGenerator[Step, None]:
        try:
            yield [TextDelta("first")]
            self.first_delta_sent.set()
            await asyncio.Event().wait()
        finally:
            self.stopped.set()


@pytest.fixture
def open_service(make_creator: MakeCreator) -> Open:
    """The service of a tenant with these backends."""

    def make(*backends: ScriptedBackend, tenant: str = "ours") -> TenantService:
        creator = make_creator(*backends)
        background = Background(creator, Worker(creator.store.jobs, creator.store.signals, owner="test"))
        return TenantService(services_of(creator, background), Caller.of(tenant))

    return make


async def test_it_offers_the_operations_of_the_routes(open_service: Open) -> None:
    service = open_service(ScriptedBackend.saying("Hel", "lo"))
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


async def test_a_tenant_does_not_see_objects_of_another(open_service: Open) -> None:
    ours, theirs = (
        open_service(ScriptedBackend.saying("x")),
        open_service(ScriptedBackend.saying("x"), tenant="theirs"),
    )
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


async def test_a_cancelled_call_ends_the_turn_and_is_stored(open_service: Open, store: Stores) -> None:
    halting = Halting()
    creating = asyncio.create_task(open_service(halting.backend).create(model="m", input="hi"))
    await halting.first_delta_sent.wait()
    creating.cancel()
    with pytest.raises(asyncio.CancelledError):
        await creating
    assert halting.stopped.is_set()
    saved = await store.responses.list_responses("ours", limit=9)
    assert [stored.response.status for stored in saved] == ["cancelled"]


async def test_a_closed_stream_ends_the_turn_and_is_stored(open_service: Open) -> None:
    halting = Halting()
    service, response_id = open_service(halting.backend), ""
    async with aclosing(service.stream(model="m", input="hi")) as events:
        async for event in events:
            if isinstance(event, ResponseCreated):
                response_id = event.response.id
            if isinstance(event, OutputTextDelta):
                break
    assert halting.stopped.is_set()
    saved = await service.retrieve(response_id)
    assert (saved.status, to_builtins(saved.output)[0]["content"][0]["text"]) == ("cancelled", "first")


async def test_invalid_requests_are_raised(open_service: Open) -> None:
    service = open_service(ScriptedBackend.saying("x"))
    for params in ({"model": "m"}, {"model": "m", "input": "hi", "self": 1, "temperature": 9}):
        with pytest.raises(InvalidRequest):
            await service.create(**params)
        with pytest.raises(InvalidRequest):
            await anext(service.stream(**params))


async def test_a_response_is_submitted_once_under_an_id_that_the_caller_chose(open_service: Open) -> None:
    service = open_service(ScriptedBackend.saying("Hel", "lo"))
    params = {"model": "m", "input": "hi", "background": True}
    response_id = service.new_response_id()
    queued = await service.submit(response_id, **params)
    assert (queued.id, queued.status) == (response_id, "queued")
    again = await service.submit(response_id, **params)
    assert (again.id, again.created_at) == (response_id, queued.created_at)
    async for _ in service.follow(response_id):
        pass
    ended = await service.submit(response_id, **params)
    assert (ended.status, ended) == ("completed", await service.retrieve(response_id))
