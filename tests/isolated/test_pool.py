"""Real child processes: their limits, their replacement, and the turns of tenants."""

import asyncio
import gc
import os
import sys
from collections.abc import AsyncGenerator
from contextlib import suppress
from pathlib import Path

import pytest

from antiphon.errors import AntiphonError, Overloaded, Unavailable
from antiphon.isolated import pool as pool_module
from antiphon.isolated.pool import MAX_WAITING_PER_TENANT, IsolatedPool, PoolLimits, WorkExceeded

WORK = "tests.isolated.work"


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Children find the functions of these tests."""
    root = str(Path(__file__).parents[2])
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([root, os.environ.get("PYTHONPATH", "")]))


@pytest.fixture
async def pool() -> AsyncGenerator[IsolatedPool, None]:
    made = IsolatedPool(PoolLimits(processes=2, cpu_seconds=1, wall_seconds=20.0))
    yield made
    await made.aclose()


async def excess(pool: IsolatedPool, function: str, payload: bytes = b"") -> str:
    with pytest.raises(WorkExceeded) as caught:
        await pool.run("t", f"{WORK}:{function}", payload)
    return caught.value.reason


async def process_id(pool: IsolatedPool, tenant: str = "t") -> int:
    return int(await pool.run(tenant, f"{WORK}:process_id", b""))


def is_alive(process: int) -> bool:
    return Path(f"/proc/{process}").exists()


async def test_a_job_has_its_result_and_the_next_one_the_same_process(pool: IsolatedPool) -> None:
    large = os.urandom(3_000_000)
    assert await pool.run("t", f"{WORK}:echo", large) == large
    first = await process_id(pool)
    assert first != os.getpid()
    assert await process_id(pool) == first


@pytest.mark.parametrize("function", ["allocate", "fail"])
async def test_a_job_that_fails_leaves_no_payload_in_memory(pool: IsolatedPool, function: str) -> None:
    payload = os.urandom(1000)
    gc.collect()
    gc.disable()  # a reference cycle stays until it is found
    try:
        before = sys.getrefcount(payload)
        with suppress(WorkExceeded, AntiphonError):
            await pool.run("t", f"{WORK}:{function}", payload)
        assert sys.getrefcount(payload) == before
    finally:
        gc.enable()


async def test_a_child_is_nice_to_its_parent_and_gets_none_of_its_interrupts(pool: IsolatedPool) -> None:
    session, group = map(int, bytes(await pool.run("t", f"{WORK}:session", b"")).split())
    child = await process_id(pool)
    assert os.getpriority(os.PRIO_PROCESS, child) > os.getpriority(os.PRIO_PROCESS, 0)
    assert session == os.getsid(0), "niceness counts within a session where the system groups by sessions"
    assert group == child


async def test_a_child_gets_no_secrets(pool: IsolatedPool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UPSTREAM_API_KEY", "sk-secret")
    assert b"UPSTREAM_API_KEY" not in await pool.run("t", f"{WORK}:environment", b"")


@pytest.mark.parametrize(
    ("function", "reason"), [("spin", "cpu"), ("allocate", "memory"), ("abort", "memory")]
)
async def test_a_job_beyond_a_limit_ends_alone(pool: IsolatedPool, function: str, reason: str) -> None:
    before = await process_id(pool)
    assert await excess(pool, function) == reason
    assert await process_id(pool) != before
    assert not is_alive(before)


async def test_a_job_beyond_its_time_is_ended() -> None:
    pool = IsolatedPool(PoolLimits(wall_seconds=1.0))
    assert await excess(pool, "sleep", b"60") == "time"
    assert await pool.run("t", f"{WORK}:echo", b"next") == b"next"
    await pool.aclose()


async def test_a_fault_of_ours_is_an_internal_error(
    pool: IsolatedPool, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(AntiphonError) as caught:
        await pool.run("t", f"{WORK}:fail", b"")
    assert (caught.value.status, "secret detail" in caught.value.message) == (500, False)
    assert "secret detail" in caplog.text


async def test_a_killed_child_is_replaced(pool: IsolatedPool) -> None:
    before = await process_id(pool)
    os.kill(before, 9)
    await asyncio.sleep(0.2)
    assert await process_id(pool) != before


async def test_a_child_that_cannot_start_is_an_overload(
    pool: IsolatedPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(sys, "executable", "/nowhere/python")
        with pytest.raises(Overloaded):
            await pool.run("t", f"{WORK}:echo", b"")
    assert await pool.run("t", f"{WORK}:echo", b"again") == b"again"


async def test_a_child_that_is_killed_at_work_has_crashed(pool: IsolatedPool) -> None:
    child = await process_id(pool)
    job = asyncio.create_task(excess(pool, "sleep", b"30"))
    await asyncio.sleep(0.2)
    os.kill(child, 9)
    assert await job == "crash"


async def test_expensive_jobs_of_one_tenant_leave_a_process_to_the_others(pool: IsolatedPool) -> None:
    slow = [asyncio.create_task(pool.run("a", f"{WORK}:sleep", b"3")) for _ in range(4)]
    await asyncio.sleep(0)
    async with asyncio.timeout(2.5):
        assert await pool.run("b", f"{WORK}:echo", b"b") == b"b"
    assert not any(task.done() for task in slow)
    for task in slow:
        task.cancel()


async def test_tenants_take_turns() -> None:
    pool = IsolatedPool(PoolLimits(processes=1))
    done: list[str] = []

    async def run(tenant: str) -> None:
        await pool.run(tenant, f"{WORK}:echo", b"")
        done.append(tenant)

    await asyncio.gather(*map(run, ["a", "a", "a", "b", "b", "c"]))
    assert done == ["a", "b", "c", "a", "b", "a"]
    await pool.aclose()


async def test_jobs_that_go_first_keep_their_order() -> None:
    pool = IsolatedPool(PoolLimits(processes=1))
    done: list[int] = []

    async def run(number: int) -> None:
        await pool.run("t", f"{WORK}:echo", b"", goes_first=number % 2 == 1)
        done.append(number)

    await asyncio.gather(*map(run, range(6)))
    assert done == [1, 3, 5, 0, 2, 4]
    await pool.aclose()


async def test_a_tenant_with_too_many_waiting_jobs_has_no_room(pool: IsolatedPool) -> None:
    jobs = [pool.run("a", f"{WORK}:sleep", b"0.3") for _ in range(MAX_WAITING_PER_TENANT + 1)]
    tasks = [asyncio.create_task(job) for job in jobs]
    await asyncio.sleep(0.2)  # one runs now
    with pytest.raises(Overloaded) as caught:
        pool.check_room("a")
    assert caught.value.code == "server_overloaded"
    pool.check_room("b")
    tasks[-1].cancel()
    await asyncio.sleep(0)
    pool.check_room("a")
    for task in tasks:
        task.cancel()


async def test_a_tenant_with_too_many_waiting_bytes_has_no_room(
    pool: IsolatedPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool_module, "MAX_WAITING_BYTES", 40)
    first = asyncio.create_task(pool.run("a", f"{WORK}:sleep", b"1.00000000000"))
    await asyncio.sleep(0.3)  # it runs now, and no longer waits
    pool.check_room("a")
    waits = asyncio.create_task(pool.run("a", f"{WORK}:echo", b"more than ten bytes"))
    await asyncio.sleep(0)
    with pytest.raises(Overloaded):
        pool.check_room("a")
    pool.check_room("b")
    assert await pool.run("b", f"{WORK}:echo", b"b" * 50) == b"b" * 50
    waits.cancel()
    await asyncio.sleep(0)
    pool.check_room("a")
    await first


async def test_a_job_that_comes_while_a_child_ends_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_module, "IDLE_SECONDS", 0.1)
    pool = IsolatedPool(PoolLimits(processes=1))
    for pause in (0.09, 0.1, 0.11, 0.12, 0.13):
        await pool.run("a", f"{WORK}:echo", b"")
        await asyncio.sleep(pause)
        async with asyncio.timeout(20):
            assert await pool.run("b", f"{WORK}:echo", b"b") == b"b"
    await pool.aclose()


async def test_a_job_that_nobody_waits_for_is_not_begun(pool: IsolatedPool) -> None:
    slow = asyncio.create_task(pool.run("a", f"{WORK}:sleep", b"0.5"))
    await asyncio.sleep(0.1)
    left = asyncio.create_task(pool.run("a", f"{WORK}:spin", b""))
    await asyncio.sleep(0.1)
    left.cancel()
    await slow
    async with asyncio.timeout(1.0):  # less than the CPU time that the abandoned job would use
        assert await pool.run("a", f"{WORK}:echo", b"a") == b"a"


async def test_children_end_when_there_is_no_work(
    pool: IsolatedPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool_module, "IDLE_SECONDS", 0.2)
    child = await process_id(pool)
    await asyncio.sleep(0.6)
    assert not is_alive(child)
    assert await process_id(pool) != child


async def test_a_child_that_holds_much_memory_ends_soon(
    pool: IsolatedPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool_module, "LARGE_IDLE_SECONDS", 0.2)
    small = await process_id(pool)
    await asyncio.sleep(0.6)
    assert is_alive(small)
    large = int(await pool.run("t", f"{WORK}:hold", str(pool_module.LARGE_CHILD_BYTES).encode()))
    assert large == small
    assert await process_id(pool) == large  # not while there is work
    async with asyncio.timeout(20):
        while is_alive(large):  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    assert await process_id(pool) != large


async def test_how_long_children_wait_for_work_can_be_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_module, "IDLE_SECONDS", 0.1)
    monkeypatch.setattr(pool_module, "LARGE_IDLE_SECONDS", 0.1)
    pool = IsolatedPool(PoolLimits(idle_seconds=60.0))
    child = await process_id(pool)
    await asyncio.sleep(0.5)
    assert await process_id(pool) == child
    await pool.aclose()


async def test_children_are_replaced_after_many_jobs(
    pool: IsolatedPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool_module, "MAX_JOBS_PER_CHILD", 3)
    seen = [await process_id(pool) for _ in range(7)]
    assert [len(set(seen[:4])), len(set(seen))] == [1, 2]


async def test_a_closed_pool_has_no_children_and_takes_no_jobs() -> None:
    pool = IsolatedPool()
    child = await process_id(pool)
    running = asyncio.create_task(pool.run("t", f"{WORK}:sleep", b"30"))
    waiting = asyncio.create_task(pool.run("t", f"{WORK}:sleep", b"30"))
    await asyncio.sleep(0.1)
    await pool.aclose()
    assert not is_alive(child)
    for task in (running, waiting):
        with pytest.raises(Unavailable):
            await task
    with pytest.raises(Unavailable):
        await pool.run("t", f"{WORK}:echo", b"")
