"""What every engine does."""

import asyncio

import pytest

from antiphon.errors import Unavailable
from tests.runs.conftest import NewEngine
from tests.runs.recorder import Recorder


async def test_submitted_work_is_done_on_the_loop_of_the_server(new_engine: NewEngine) -> None:
    recorder = Recorder()
    await new_engine(recorder.work).submit("tenant", "a")
    await recorder.started("a")
    await recorder.release("a")
    assert recorder.loops == {asyncio.get_running_loop()}


async def test_work_that_is_under_way_is_not_started_again(new_engine: NewEngine) -> None:
    recorder = Recorder()
    engine = new_engine(recorder.work)
    await asyncio.gather(engine.submit("tenant", "a"), engine.submit("tenant", "a"))
    await recorder.started("a")
    await engine.submit("tenant", "a")
    await engine.submit("tenant", "b")
    await recorder.started("b")
    await recorder.release("a", "b")
    assert recorder.starts == {"a": 1, "b": 1}


async def test_work_that_has_ended_is_done_again_when_it_is_submitted_again(new_engine: NewEngine) -> None:
    recorder = Recorder()
    engine = new_engine(recorder.work)
    await engine.submit("tenant", "a")
    await recorder.release("a")
    while recorder.starts["a"] < 2:  # until the engine has noticed the end, it takes it for under way
        await engine.submit("tenant", "a")
        await asyncio.sleep(0.01)


async def test_stopping_cancels_work(new_engine: NewEngine) -> None:
    recorder = Recorder()
    engine = new_engine(recorder.work)
    await engine.submit("tenant", "a")
    await engine.submit("tenant", "b")
    await recorder.started("a", "b")
    await engine.stop("tenant", "a")
    assert recorder.cancelled == {"a"}
    await recorder.release("b")


async def test_what_is_not_under_way_here_need_not_be_stopped(new_engine: NewEngine) -> None:
    await new_engine(Recorder().work).stop("tenant", "a")


async def test_work_that_fails_is_tried_again(new_engine: NewEngine) -> None:
    recorder = Recorder()
    failures = [OSError("the database is away"), asyncio.CancelledError(), ValueError("bad")]

    async def work(tenant: str, response_id: str) -> None:
        if failures:
            raise failures.pop()
        await recorder.work(tenant, response_id)

    await new_engine(work).submit("tenant", "a")
    await recorder.release("a")
    assert recorder.starts == {"a": 1}
    assert failures == []


async def test_closing_cancels_work_and_takes_no_more(new_engine: NewEngine) -> None:
    recorder = Recorder()
    engine = new_engine(recorder.work)
    await engine.submit("tenant", "a")
    await recorder.started("a")
    await engine.aclose()
    assert recorder.cancelled == {"a"}
    with pytest.raises(Unavailable):
        await engine.submit("tenant", "b")


async def test_an_engine_that_was_never_used_can_be_closed_twice(new_engine: NewEngine) -> None:
    engine = new_engine(Recorder().work)
    await engine.aclose()
    await engine.aclose()


async def test_much_work_is_done_at_the_same_time(new_engine: NewEngine) -> None:
    recorder = Recorder()
    engine = new_engine(recorder.work)
    ids = [f"r{number}" for number in range(50)]
    await asyncio.gather(*(engine.submit("tenant", response_id) for response_id in ids))
    await recorder.started(*ids)
    await recorder.release(*ids)
    assert set(recorder.starts.values()) == {1}
