"""Turns through aliases, fallbacks, limits and circuits, as the service uses them."""

import asyncio
from collections.abc import AsyncGenerator

import pytest

from antiphon.backends.scripted import ScriptedBackend, Step
from antiphon.caller import Caller
from antiphon.errors import BackendError, BackendPaused, BackendRefused, BackendTimeout, BackendUnreachable
from antiphon.protocol.events import OutputTextDelta
from antiphon.protocol.parse_create import create_from, parse_create
from antiphon.service.responses.create import Creator
from antiphon.service.routing.circuits import HealthPolicy
from antiphon.service.routing.limits import Limits
from antiphon.service.routing.names import Names
from antiphon.service.routing.router import Route, Router
from antiphon.service.routing.turn_slot import TurnDeadlines
from antiphon.turn.chunks import HEARTBEAT, Finished, TextDelta
from antiphon.turn.context import TurnRequest
from tests.service.conftest import MakeCreator

NAMES = Names(aliases={"fast": "m"}, fallbacks={"m": ("n",)})


def down(error: BackendError | None = None) -> ScriptedBackend:
    return ScriptedBackend([error or BackendUnreachable("It is gone.")], name="down")


def router_of(*routes: Route, failures: int = 5) -> Router:
    return Router(
        routes, chance=lambda: 0.5, names=NAMES, health=HealthPolicy(failures, 30.0), clock=lambda: 0.0
    )


@pytest.mark.requirement("PROTOCOL/routing-fallbacks")
@pytest.mark.parametrize(
    "error", [BackendUnreachable(), BackendTimeout(), BackendRefused("busy", status=429)]
)
async def test_another_model_answers_and_the_response_reports_it(
    make_creator: MakeCreator, error: BackendError
) -> None:
    router = router_of(Route("m", down(error)), Route("n", ScriptedBackend.saying("Yes."), upstream="real"))
    creator = make_creator(router=router)
    response = await creator.start(parse_create(b'{"model": "fast", "input": "x"}'), Caller.of("t")).result()
    assert response.model == "fast"
    assert response.downgrades == ["model: 'n' answers because 'fast' could not"]
    backend = router.routes("n")[0].backend
    assert isinstance(backend, ScriptedBackend)
    assert backend.turns[0].model == "real"


async def test_the_stream_of_another_model_is_a_stream_like_any_other(make_creator: MakeCreator) -> None:
    router = router_of(Route("m", down()), Route("n", ScriptedBackend.saying("Y", "es.")))
    run = make_creator(router=router).start(
        parse_create(b'{"model": "m", "input": "x", "stream": true}'), Caller.of("t")
    )
    events = [event async for batch in run.events() for event in batch]
    assert [event.delta for event in events if isinstance(event, OutputTextDelta)] == ["Y", "es."]


@pytest.mark.requirement("PROTOCOL/routing-fallbacks")
async def test_a_refusal_of_the_request_does_not_fall_back(make_creator: MakeCreator) -> None:
    other = ScriptedBackend.saying("Yes.")
    refused = BackendRefused("bad", status=400)
    creator = make_creator(router=router_of(Route("m", down(refused)), Route("n", other)))
    with pytest.raises(BackendRefused, match="bad"):
        await creator.start(parse_create(b'{"model": "m", "input": "x"}'), Caller.of("t")).result()
    assert other.turns == []


async def answer(creator: Creator, model: str = "m") -> str:
    """The model's text, streamed."""
    run = creator.start(create_from(model=model, input="x", stream=True), Caller.of("t"))
    events = [event async for batch in run.events() for event in batch]
    return "".join(event.delta for event in events if isinstance(event, OutputTextDelta))


async def test_a_backend_that_failed_too_often_is_skipped(make_creator: MakeCreator) -> None:
    requests: list[TurnRequest] = []

    def steps_for(turn: TurnRequest) -> list[Step]:
        requests.append(turn)
        return [BackendUnreachable("It is gone.")]

    broken = ScriptedBackend(steps_for, name="down")
    router = router_of(Route("m", broken), Route("n", ScriptedBackend.saying("Yes.")), failures=2)
    creator = make_creator(router=router)
    assert [await answer(creator) for _ in range(4)] == ["Yes."] * 4
    assert len(requests) == 2
    assert [(state.backend, state.circuit, state.failures) for state in router.health()] == [
        ("down", "open", 2),
        ("scripted", "closed", 0),
    ]


async def test_when_every_route_is_paused_the_error_names_them_all(make_creator: MakeCreator) -> None:
    router = router_of(Route("m", down()), Route("n", down(BackendTimeout("Too slow."))), failures=1)
    creator = make_creator(router=router)
    with pytest.raises(BackendTimeout):
        await answer(creator)
    with pytest.raises(BackendPaused) as caught:
        await answer(creator)
    assert caught.value.status == 503
    assert caught.value.retry_after == 30.0
    assert "for the model 'm'" in caught.value.message
    assert "for the model 'n'" in caught.value.message
    assert "Its last error: a deadline passed." in caught.value.message


async def test_a_model_at_its_limit_falls_back_to_the_next(make_creator: MakeCreator) -> None:
    begun, gate = asyncio.Event(), asyncio.Event()

    async def steps_for(_turn: TurnRequest) -> AsyncGenerator[Step, None]:
        begun.set()
        yield [TextDelta("m")]
        await gate.wait()
        yield [Finished("stop")]

    limits = Limits(max_concurrent=1, queue_timeout=0)
    router = router_of(
        Route("m", ScriptedBackend(steps_for), limits=limits), Route("n", ScriptedBackend.saying("n"))
    )
    creator = make_creator(router=router)
    first = asyncio.create_task(answer(creator))
    await begun.wait()
    assert await answer(creator) == "n"
    gate.set()
    assert await asyncio.wait_for(first, 5) == "m"


async def test_a_timeout_before_the_first_delta_falls_back_to_the_next(make_creator: MakeCreator) -> None:
    async def steps_for(_turn: TurnRequest) -> AsyncGenerator[Step, None]:
        yield HEARTBEAT
        await asyncio.sleep(60)

    deadlines = TurnDeadlines(first_byte=0.02)
    router = router_of(
        Route("m", ScriptedBackend(steps_for), deadlines=deadlines), Route("n", ScriptedBackend.saying("n"))
    )
    assert await asyncio.wait_for(answer(make_creator(router=router)), 5) == "n"
    assert router.health()[0].failures == 1
