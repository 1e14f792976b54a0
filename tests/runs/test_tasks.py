import asyncio
import logging

import pytest

from antiphon.runs.tasks import TaskEngine
from tests.runs.recorder import Recorder


async def test_failed_work_that_waits_for_its_next_attempt_can_be_stopped() -> None:
    async def work(tenant: str, response_id: str) -> None:
        failed.set()
        raise OSError

    failed = asyncio.Event()
    engine = TaskEngine(work, owner="owner", first_pause=1000)
    await engine.submit("tenant", "a")
    await failed.wait()
    await engine.stop("tenant", "a")
    assert not engine.runs("tenant", "a")


async def test_a_failure_is_logged_with_its_reason(caplog: pytest.LogCaptureFixture) -> None:
    async def work(tenant: str, response_id: str) -> None:
        if not caplog.records:
            raise OSError("the database is away")
        await recorder.work(tenant, response_id)

    recorder = Recorder()
    engine = TaskEngine(work, owner="owner", first_pause=0)
    with caplog.at_level(logging.WARNING):
        await engine.submit("tenant", "resp_1")
        await recorder.release("resp_1")
    assert "resp_1" in caplog.text
    assert "the database is away" in caplog.text


async def test_who_waits_for_work_that_is_stopped_goes_on() -> None:
    recorder = Recorder()
    engine = TaskEngine(recorder.work, owner="owner")
    waiter = asyncio.create_task(engine.run("tenant", "a"))
    await recorder.started("a")
    await engine.stop("tenant", "a")
    await waiter


async def test_who_waits_for_work_that_is_left_behind_is_cancelled() -> None:
    recorder = Recorder()
    engine = TaskEngine(recorder.work, owner="owner")
    waiter = asyncio.create_task(engine.run("tenant", "a"))
    await recorder.started("a")
    await engine.aclose()
    with pytest.raises(asyncio.CancelledError):
        await waiter


async def test_who_no_longer_waits_cancels_the_work() -> None:
    recorder = Recorder()
    engine = TaskEngine(recorder.work, owner="owner")
    waiter = asyncio.create_task(engine.run("tenant", "a"))
    await recorder.started("a")
    waiter.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiter
    await engine.aclose()
    assert recorder.cancelled == {"a"}
