"""Limits of concurrent turns and of turns per minute; further turns wait or get a retry time."""

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
    limit = ConcurrencyLimit(Limits(max_concurrent=1, queue_timeout=5), Clock())
    entered: list[str] = []

    async def turn(name: str) -> None:
        await limit.enter("m", "t")
        entered.append(name)

    await turn("a")
    waiting = [asyncio.create_task(turn(name)) for name in "bc"]
    await asyncio.sleep(0)
    assert (entered, limit.running, limit.waiting) == (["a"], 1, 2)
    limit.leave("t")
    await asyncio.wait_for(waiting[0], 5)
    assert (entered, limit.running, limit.waiting) == (["a", "b"], 1, 1)
    limit.leave("t")
    await asyncio.wait_for(waiting[1], 5)
    limit.leave("t")
    assert (limit.running, limit.waiting) == (0, 0)


@pytest.mark.requirement("PROTOCOL/routing-limits")
async def test_a_turn_that_waited_too_long_is_rejected_with_advice() -> None:
    limit = ConcurrencyLimit(Limits(max_concurrent=1, queue_timeout=0.01), Clock())
    await limit.enter("m", "t")
    with pytest.raises(BackendBusy) as caught:
        await limit.enter("m", "t")
    error = caught.value
    assert (error.status, error.code, error.retryable) == (429, "rate_limit_exceeded", True)
    assert error.to_wire()["type"] == "rate_limit_error"
    assert error.retry_after == 2.0
    assert "at its limit of 1 turns at once (max_concurrent), and none ended within 0.01 s" in error.message
    assert (limit.running, limit.waiting) == (1, 0)
    limit.leave("t")
    await limit.enter("m", "t")


async def test_without_a_queue_timeout_no_turn_waits() -> None:
    limit = ConcurrencyLimit(Limits(max_concurrent=2, queue_timeout=0), Clock())
    await limit.enter("m", "t")
    await limit.enter("m", "t")
    with pytest.raises(BackendBusy):
        await asyncio.wait_for(limit.enter("m", "t"), 5)


async def test_a_cancelled_waiting_turn_takes_no_slot() -> None:
    limit = ConcurrencyLimit(Limits(max_concurrent=1), Clock())
    await limit.enter("m", "t")
    waiting = asyncio.create_task(limit.enter("m", "t"))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert (limit.running, limit.waiting) == (1, 0)
    limit.leave("t")
    await asyncio.wait_for(limit.enter("m", "t"), 5)


@pytest.mark.requirement("PROTOCOL/routing-limits")
async def test_a_free_slot_goes_to_the_tenant_with_the_fewest_turns() -> None:
    limit = ConcurrencyLimit(Limits(max_concurrent=2), Clock())
    entered: list[str] = []

    async def turn(tenant: str) -> None:
        await limit.enter("m", tenant)
        entered.append(tenant)

    waiting = [asyncio.create_task(turn(tenant)) for tenant in ("many", "many", "many", "many", "few", "one")]
    await asyncio.sleep(0)
    assert (entered, limit.waiting) == (["many", "many"], 4)
    for _ in range(4):
        limit.leave("many" if "few" not in entered else entered[-1])
        await asyncio.sleep(0)
    assert entered[2:] == ["few", "one", "many", "many"]
    await asyncio.gather(*waiting)


@pytest.mark.requirement("PROTOCOL/routing-limits")
async def test_a_tenant_at_its_limit_waits_while_others_start() -> None:
    limit = ConcurrencyLimit(Limits(max_concurrent_per_tenant=1, queue_timeout=0.01), Clock())
    await limit.enter("m", "a")
    with pytest.raises(BackendBusy, match=r"1 turns of one tenant at once \(max_concurrent_per_tenant\)"):
        await limit.enter("m", "a")
    await limit.enter("m", "b")
    limit.leave("a")
    await asyncio.wait_for(limit.enter("m", "a"), 5)
    assert (limit.running, limit.waiting) == (2, 0)


async def test_a_slot_that_is_given_to_a_turn_that_is_cancelled_goes_on() -> None:
    limit = ConcurrencyLimit(Limits(max_concurrent=1), Clock())
    await limit.enter("m", "a")
    first, second = (asyncio.create_task(limit.enter("m", tenant)) for tenant in "bc")
    await asyncio.sleep(0)
    limit.leave("a")
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    await asyncio.wait_for(second, 5)
    assert (limit.running, limit.waiting) == (1, 0)


async def test_a_minute_holds_so_many_turns_wherever_it_begins() -> None:
    clock = Clock()
    limit = ConcurrencyLimit(Limits(requests_per_minute=2), clock)
    for clock.now in (0.0, 50.0):
        await limit.enter("m", "t")
        limit.leave("t")
    clock.now = 55.0
    with pytest.raises(BackendBusy) as caught:
        await limit.enter("m", "t")
    assert caught.value.retry_after == 5.0
    assert "limit of 2 turns per minute (requests_per_minute). Try again in 5 s" in caught.value.message
    clock.now = 60.0
    await limit.enter("m", "t")
    with pytest.raises(BackendBusy):
        await limit.enter("m", "t")


async def test_a_turn_rejected_by_the_rate_limit_releases_its_slot() -> None:
    limit = ConcurrencyLimit(Limits(max_concurrent=1, requests_per_minute=1), Clock())
    await limit.enter("m", "t")
    limit.leave("t")
    for _ in range(2):
        with pytest.raises(BackendBusy, match="per minute"):
            await asyncio.wait_for(limit.enter("m", "t"), 5)
    assert limit.running == 0
