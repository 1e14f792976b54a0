"""A turn slot: limits, circuits and deadlines of one turn."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

import pytest

from antiphon.backends.scripted import ScriptedBackend, Step
from antiphon.errors import BackendBusy, BackendPaused, BackendRefused, BackendTimeout, BackendUnreachable
from antiphon.protocol.parse_create import parse_create
from antiphon.service.routing.circuits import HealthPolicy
from antiphon.service.routing.limits import Limits
from antiphon.service.routing.router import Route, Router
from antiphon.service.routing.turn_slot import TurnDeadlines
from antiphon.turn.chunks import HEARTBEAT, Chunk, Failed, Finished, Heartbeat, TextDelta
from antiphon.turn.context import TurnRequest, build_turn


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def routed(route: Route, clock: Clock | None = None, failures: int = 2) -> tuple[Router, Route]:
    router = Router(
        [route], chance=lambda: 0.5, health=HealthPolicy(failures, pause=10.0), clock=clock or Clock()
    )
    return router, router.routes(route.model)[0]


def phase(router: Router) -> str:
    return router.health()[0].circuit


async def fail(route: Route, times: int) -> None:
    for _ in range(times):
        with pytest.raises(BackendUnreachable), await route.slot("acme"):
            raise BackendUnreachable


async def test_errors_raised_from_a_slot_count_and_open_the_circuit() -> None:
    router, route = routed(Route("m", ScriptedBackend.saying("x")))
    await fail(route, 2)
    assert phase(router) == "open"
    with pytest.raises(BackendPaused), await route.slot("acme"):
        raise AssertionError("unexpected admission")
    assert router.turn_count(route.backend).turns == 0


async def test_an_error_after_the_first_delta_does_not_count() -> None:
    router, route = routed(Route("m", ScriptedBackend.saying("x")), failures=1)
    with pytest.raises(BackendUnreachable), await route.slot("acme") as slot:
        slot.answered()
        raise BackendUnreachable
    assert phase(router) == "closed"


async def test_a_turn_that_ends_well_or_is_rejected_closes_the_count() -> None:
    router, route = routed(Route("m", ScriptedBackend.saying("x")))
    await fail(route, 1)
    with await route.slot("acme"):
        pass
    assert router.health()[0].failures == 0
    await fail(route, 1)
    with pytest.raises(BackendRefused), await route.slot("acme"):
        raise BackendRefused("bad request", status=400)
    assert router.health()[0].failures == 0


async def test_a_client_disconnect_during_the_trial_releases_it() -> None:
    clock = Clock()
    router, route = routed(Route("m", ScriptedBackend.saying("x")), clock)
    await fail(route, 2)
    clock.now = 10.0
    with pytest.raises(asyncio.CancelledError), await route.slot("acme"):
        assert phase(router) == "trial"
        raise asyncio.CancelledError
    with await route.slot("acme") as slot:
        slot.answered()
        assert phase(router) == "closed"


async def test_a_slot_counts_as_a_running_turn_of_its_backend() -> None:
    limits = Limits(max_concurrent=1, queue_timeout=0)
    router, route = routed(Route("m", ScriptedBackend.saying("x"), limits=limits))
    with await route.slot("acme"):
        assert router.turn_count(route.backend).turns == 1
        assert router.health()[0].running == 1
        with pytest.raises(BackendBusy), await route.slot("acme"):
            raise AssertionError("unexpected admission")
    with await route.slot("acme"):
        pass
    assert router.turn_count(route.backend).turns == 0
    assert router.health()[0].running == 0


async def test_reaching_a_limit_does_not_affect_the_circuit() -> None:
    limits = Limits(max_concurrent=1, queue_timeout=0)
    router, route = routed(Route("m", ScriptedBackend.saying("x"), limits=limits), failures=1)
    with await route.slot("acme"), pytest.raises(BackendBusy):
        await route.slot("acme")
    assert router.health()[0].failures == 0


async def test_no_turn_waits_for_a_paused_backend() -> None:
    limits = Limits(max_concurrent=1, queue_timeout=60)
    _, route = routed(Route("m", ScriptedBackend.saying("x"), limits=limits))
    with await route.slot("acme"):
        assert route.guards is not None
        for _ in range(2):
            route.guards.circuits.failed(route.guards.key, BackendUnreachable(), "acme")
        with pytest.raises(BackendPaused):
            await asyncio.wait_for(route.slot("acme"), 5)


async def test_a_turn_that_waited_while_the_circuit_opened_releases_its_slot() -> None:
    router, route = routed(Route("m", ScriptedBackend.saying("x"), limits=Limits(max_concurrent=1)))
    first = await route.slot("acme")
    first.__enter__()
    second = asyncio.create_task(route.slot("acme"))
    await asyncio.sleep(0)
    assert route.guards is not None
    for _ in range(2):
        route.guards.circuits.failed(route.guards.key, BackendUnreachable(), "acme")
    first.__exit__(asyncio.CancelledError, asyncio.CancelledError(), None)
    with pytest.raises(BackendPaused):
        await asyncio.wait_for(second, 5)
    assert router.health()[0].running == 0


async def test_a_route_without_a_router_has_slots_too() -> None:
    backend = ScriptedBackend.saying("x")
    with await Route("m", backend).slot("acme") as slot:
        slot.answered()
        assert await collected(slot_chunks(Route("m", backend))) == [TextDelta("x"), Finished("stop")]


async def test_a_backend_is_over_when_its_last_turn_is() -> None:
    router, route = routed(Route("m", ScriptedBackend.saying("x")))
    use = router.turn_count(route.backend)
    await asyncio.wait_for(use.ended(), 5)
    one, two = await route.slot("acme"), await route.slot("acme")
    one.__enter__()
    two.__enter__()
    ended = asyncio.create_task(use.ended())
    one.__exit__(None, None, None)
    await asyncio.sleep(0)
    assert not ended.done()
    two.__exit__(None, None, None)
    await asyncio.wait_for(ended, 5)


def turn() -> TurnRequest:
    return build_turn(parse_create(b'{"model": "m", "input": "x"}'), model="m")


def slot_chunks(route: Route, *, streamed: bool = True) -> AsyncGenerator[Sequence[Chunk], None]:
    slot = route.free_slot("acme")
    assert slot is not None
    return slot.chunks(route.backend.prepare(turn()), streamed=streamed)


async def collected(batches: AsyncGenerator[Sequence[Chunk], None]) -> list[Chunk]:
    async with aclosing(batches):
        return [chunk async for batch in batches for chunk in batch if not isinstance(chunk, Heartbeat)]


def slow(first: float, then: float = 0.0) -> ScriptedBackend:
    async def steps(_turn: TurnRequest) -> AsyncGenerator[Step, None]:
        yield HEARTBEAT
        await asyncio.sleep(first)
        yield [TextDelta("x")]
        await asyncio.sleep(then)
        yield [Finished("stop")]

    return ScriptedBackend(steps, name="slow")


async def test_a_late_first_delta_is_a_timeout_that_counts() -> None:
    _, route = routed(Route("m", slow(60), deadlines=TurnDeadlines(first_byte=0.02)))
    with pytest.raises(BackendTimeout, match=r"'m' of 'slow' did not start its answer within 0.02 s"):
        await asyncio.wait_for(collected(slot_chunks(route)), 5)


async def test_the_first_delta_deadline_ends_with_the_first_delta() -> None:
    _, route = routed(Route("m", slow(0, 0.1), deadlines=TurnDeadlines(first_byte=0.05, answer=60)))
    assert await collected(slot_chunks(route)) == [TextDelta("x"), Finished("stop")]


async def test_a_non_streamed_answer_has_its_own_deadline() -> None:
    deadlines = TurnDeadlines(first_byte=0.01, answer=60)
    _, route = routed(Route("m", slow(0.05), deadlines=deadlines))
    assert await collected(slot_chunks(route, streamed=False)) == [TextDelta("x"), Finished("stop")]
    _, route = routed(Route("m", slow(60), deadlines=TurnDeadlines(first_byte=60, answer=0.01)))
    with pytest.raises(BackendTimeout, match=r"within 0.01 s"):
        await asyncio.wait_for(collected(slot_chunks(route, streamed=False)), 5)


async def test_an_answer_that_takes_too_long_fails_after_its_output() -> None:
    _, route = routed(Route("m", slow(0, 60), deadlines=TurnDeadlines(total=0.05)))
    chunks_received = await asyncio.wait_for(collected(slot_chunks(route)), 5)
    assert chunks_received[0] == TextDelta("x")
    assert isinstance(chunks_received[1], Failed)
    assert chunks_received[1].error.message == "The model 'm' of 'slow' took longer than 0.05 s."
    assert len(chunks_received) == 2


async def test_a_total_timeout_shorter_than_the_first_delta_is_raised() -> None:
    _, route = routed(Route("m", slow(60), deadlines=TurnDeadlines(first_byte=60, total=0.02)))
    with pytest.raises(BackendTimeout, match=r"took longer than 0.02 s"):
        await asyncio.wait_for(collected(slot_chunks(route)), 5)


async def test_the_errors_of_the_backend_pass_through() -> None:
    deadlines = TurnDeadlines(first_byte=60)
    _, route = routed(Route("m", ScriptedBackend([BackendUnreachable()]), deadlines=deadlines))
    with pytest.raises(BackendUnreachable):
        await collected(slot_chunks(route))


async def test_closing_the_stream_ends_the_turn() -> None:
    ended: list[str] = []

    async def steps(_turn: TurnRequest) -> AsyncGenerator[Step, None]:
        try:
            yield [TextDelta("x")]
            await asyncio.sleep(60)
        finally:
            ended.append("yes")

    _, route = routed(Route("m", ScriptedBackend(steps), deadlines=TurnDeadlines(total=60)))
    batches = slot_chunks(route)
    assert await anext(batches) == [TextDelta("x")]
    await batches.aclose()
    assert ended == ["yes"]
