"""How many requests start in one iteration of the event loop, and in which order."""

import asyncio
import time
from collections import Counter

from antiphon.server.start_queue import ITERATION_SECONDS, MAX_STARTS, StartQueue


class Starts:
    """Requests that start in turns: who started, and in which iteration of the event loop."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.queue = StartQueue()
        self.seconds = seconds
        self.order: list[str] = []
        self.iterations: list[int] = []
        self.iteration = 0

    async def start(self, tenant: str) -> None:
        if not self.queue.start_now(tenant):
            await self.queue.wait(tenant)
        self.order.append(tenant)
        self.iterations.append(self.iteration)
        if tenant == "hostile":
            time.sleep(self.seconds)  # noqa: ASYNC251 -- the event loop is held

    async def all(self, *tenants: str) -> None:
        tasks = [asyncio.create_task(self.start(tenant)) for tenant in tenants]
        while not all(task.done() for task in tasks):
            await asyncio.sleep(0)
            self.iteration += 1

    def most_at_once(self) -> int:
        return max(Counter(self.iterations).values())


async def test_a_few_requests_start_in_an_iteration() -> None:
    starts = Starts()
    await starts.all(*["a"] * 50)
    assert len(starts.order) == 50
    assert starts.most_at_once() <= MAX_STARTS + 1


async def test_requests_that_come_one_by_one_do_not_wait() -> None:
    starts = Starts()
    for number in range(3 * MAX_STARTS):
        assert starts.queue.start_now("a"), number
        await asyncio.sleep(0)


async def test_while_starts_are_expensive_there_are_fewer_in_an_iteration() -> None:
    starts = Starts(seconds=3 * ITERATION_SECONDS)
    await starts.all(*["hostile"] * 30)
    per_iteration = Counter(starts.iterations)
    later = [number for iteration, number in per_iteration.items() if iteration > min(per_iteration) + 4]
    assert len(later) > 10
    assert set(later) == {1}
    starts.seconds = 0.0
    starts.iterations.clear()
    await starts.all(*["hostile"] * 100)
    assert starts.most_at_once() >= MAX_STARTS  # it recovers


async def test_a_tenant_does_not_wait_behind_the_requests_of_another() -> None:
    starts = Starts(seconds=ITERATION_SECONDS)
    await starts.all(*["hostile"] * 40, "healthy")
    assert starts.order.index("healthy") <= MAX_STARTS + 1


async def test_tenants_take_turns() -> None:
    starts = Starts(seconds=3 * ITERATION_SECONDS)
    await starts.all(*["hostile"] * 30, *["healthy"] * 6)
    last_healthy = max(place for place, tenant in enumerate(starts.order) if tenant == "healthy")
    assert last_healthy <= MAX_STARTS + 2 * 6


async def test_many_tenants_do_not_start_more() -> None:
    starts = Starts()
    await starts.all(*map(str, range(200)))
    assert starts.most_at_once() <= 2 * MAX_STARTS


async def test_the_requests_of_a_tenant_start_in_their_order() -> None:
    order: list[int] = []
    queue = StartQueue()

    async def start(number: int) -> None:
        if not queue.start_now("a"):
            await queue.wait("a")
        order.append(number)

    await asyncio.gather(*map(start, range(60)))
    assert order == list(range(60))


def test_an_event_loop_that_was_closed_is_not_waited_for() -> None:
    queue = StartQueue()

    async def fill() -> None:
        while queue.start_now("a"):
            pass
        asyncio.get_running_loop().stop()

    async def start() -> None:
        if not queue.start_now("a"):
            await asyncio.wait_for(queue.wait("a"), 5)

    closed = asyncio.new_event_loop()
    filling = closed.create_task(fill())
    closed.run_forever()
    assert filling.done()
    closed.close()
    asyncio.run(start())
    asyncio.run(start())


async def test_a_request_that_is_cancelled_while_it_waits_takes_no_turn() -> None:
    queue = StartQueue()
    while queue.start_now("a"):
        pass
    waiting = [asyncio.create_task(queue.wait("a")) for _ in range(MAX_STARTS + 1)]
    await asyncio.sleep(0)
    for task in waiting[:-1]:
        task.cancel()
    await asyncio.wait_for(waiting[-1], 5)
    assert all(task.cancelled() for task in waiting[:-1])
