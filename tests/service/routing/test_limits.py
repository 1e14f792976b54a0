"""So many turns at once, so many within a minute; the others wait in line or are told to come back."""

import asyncio

import pytest

from antiphon.errors import BackendBusy
from antiphon.service.routing.limits import ConcurrencyLimit, Limits


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.requirement("PROTOCOL/routing-limits")
async def test_excess_turns_wait_first_come_first_served() -> None:
    lane = ConcurrencyLimit(Limits(max_concurrent=1, queue_timeout=5), Clock())
    entered: list[str] = []

    async def turn(name: str) -> None:
        await lane.enter("m")
        entered.append(name)

    await turn("a")
    waiting = [asyncio.create_task(turn(name)) for name in "bc"]
    await asyncio.sleep(0)
    assert (entered, lane.running, lane.waiting) == (["a"], 1, 2)
    lane.leave()
    await asyncio.wait_for(waiting[0], 5)
    assert (entered, lane.running, lane.waiting) == (["a", "b"], 1, 1)
    lane.leave()
    await asyncio.wait_for(waiting[1], 5)
    lane.leave()
    assert (lane.running, lane.waiting) == (0, 0)


@pytest.mark.requirement("PROTOCOL/routing-limits")
async def test_a_turn_that_waited_too_long_is_refused_with_advice() -> None:
    lane = ConcurrencyLimit(Limits(max_concurrent=1, queue_timeout=0.01), Clock())
    await lane.enter("m")
    with pytest.raises(BackendBusy) as caught:
        await lane.enter("m")
    error = caught.value
    assert (error.status, error.code, error.retryable) == (429, "rate_limit_exceeded", True)
    assert error.to_wire()["type"] == "rate_limit_error"
    assert error.retry_after == 2.0
    assert "at its limit of 1 turns at once (max_concurrent), and none ended within 0.01 s" in error.message
    assert (lane.running, lane.waiting) == (1, 0)
    lane.leave()
    await lane.enter("m")


async def test_without_a_queue_timeout_no_turn_waits() -> None:
    lane = ConcurrencyLimit(Limits(max_concurrent=2, queue_timeout=0), Clock())
    await lane.enter("m")
    await lane.enter("m")
    with pytest.raises(BackendBusy):
        await asyncio.wait_for(lane.enter("m"), 5)


async def test_a_cancelled_waiting_turn_takes_no_slot() -> None:
    lane = ConcurrencyLimit(Limits(max_concurrent=1), Clock())
    await lane.enter("m")
    waiting = asyncio.create_task(lane.enter("m"))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert (lane.running, lane.waiting) == (1, 0)
    lane.leave()
    await asyncio.wait_for(lane.enter("m"), 5)


async def test_a_minute_holds_so_many_turns_wherever_it_begins() -> None:
    clock = Clock()
    lane = ConcurrencyLimit(Limits(requests_per_minute=2), clock)
    for clock.now in (0.0, 50.0):
        await lane.enter("m")
        lane.leave()
    clock.now = 55.0
    with pytest.raises(BackendBusy) as caught:
        await lane.enter("m")
    assert caught.value.retry_after == 5.0
    assert "limit of 2 turns per minute (requests_per_minute). Try again in 5 s" in caught.value.message
    clock.now = 60.0
    await lane.enter("m")
    with pytest.raises(BackendBusy):
        await lane.enter("m")


async def test_a_turn_that_this_minute_has_no_room_for_gives_its_place_back() -> None:
    lane = ConcurrencyLimit(Limits(max_concurrent=1, requests_per_minute=1), Clock())
    await lane.enter("m")
    lane.leave()
    for _ in range(2):
        with pytest.raises(BackendBusy, match="per minute"):
            await asyncio.wait_for(lane.enter("m"), 5)
    assert lane.running == 0
