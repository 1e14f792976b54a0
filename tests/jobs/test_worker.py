"""The worker: it starts jobs at once, limits them, retries, takes over, stops, and does periodic work."""

import asyncio
import itertools
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from antiphon.errors import StoreUnavailable, Unavailable
from antiphon.jobs import worker as worker_module
from antiphon.jobs.kinds import Kind
from antiphon.jobs.process_lock import ProcessLock
from antiphon.jobs.worker import CANCEL_TOPIC, Worker
from antiphon.store.base import Job, Settled
from antiphon.store.ports import Stores
from tests.jobs.conftest import KIND, LEASE_SECONDS, MakeWorker, job


async def until(reached: Callable[[], bool]) -> None:
    async with asyncio.timeout(15):
        while not reached():  # noqa: ASYNC110 -- what is waited for has no event
            await asyncio.sleep(0.005)


class Recorder:
    """Work that records its jobs, and optionally hangs until it is released."""

    def __init__(self, *, hangs: bool = False) -> None:
        self.jobs: list[Job] = []
        self.stopped: list[str] = []
        self.go = asyncio.Event()
        if not hangs:
            self.go.set()

    async def __call__(self, job: Job) -> None:
        self.jobs.append(job)
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            self.stopped.append(job.id)
            raise

    def ids(self) -> list[str]:
        return [job.id for job in self.jobs]


async def submit(worker: Worker, stores: Stores, name: str, tenant: str = "t") -> None:
    async def save(owner: str | None) -> None:
        await stores.jobs.add(job(name, tenant))
        if owner is not None:
            assert await stores.jobs.claim_one(owner, KIND, tenant, name, 0.0)

    await worker.submit(KIND, tenant, name, save)


async def test_a_submitted_job_is_started_here_and_gone_when_it_is_done(
    stores: Stores, make: MakeWorker
) -> None:
    work = Recorder()
    worker = make(work)
    await submit(worker, stores, "a")
    await until(lambda: work.ids() == ["a"])
    worker.adopt()
    await asyncio.sleep(0.1)
    assert await stores.jobs.look([KIND]) == (False, None)
    assert await stores.jobs.held(worker.owner) == []


async def test_waiting_jobs_are_adopted_when_they_are_due(stores: Stores, make: MakeWorker) -> None:
    work = Recorder()
    await stores.jobs.add(job("now"))
    await stores.jobs.add(job("soon", delay=0.3))
    make(work, lease=60.0).adopt()
    await until(lambda: work.ids() == ["now"])
    began = time.monotonic()
    await until(lambda: work.ids() == ["now", "soon"])
    assert time.monotonic() - began < 3, "it wakes at the due time, not at its next sign of life"


async def test_a_worker_that_does_not_adopt_ignores_the_jobs_of_others(
    stores: Stores, make: MakeWorker
) -> None:
    work = Recorder()
    await stores.jobs.add(job("theirs"))
    await submit(make(work), stores, "mine")
    await asyncio.sleep(0.1)
    assert work.ids() == ["mine"]


async def test_no_more_jobs_run_than_the_kind_allows(stores: Stores, make: MakeWorker) -> None:
    work = Recorder(hangs=True)
    for number in range(5):
        await stores.jobs.add(job(f"{number}"))
    worker = make(work, concurrency=2)
    worker.adopt()
    await until(lambda: len(work.jobs) == 2)
    await submit(worker, stores, "one more")
    await asyncio.sleep(0.1)
    assert len(work.jobs) == 2
    work.go.set()
    await until(lambda: len(work.jobs) == 6)


async def test_no_more_jobs_of_a_tenant_run_than_the_kind_allows(stores: Stores, make: MakeWorker) -> None:
    work = Recorder(hangs=True)
    worker = make(work, per_tenant=1)
    worker.adopt()
    for name, tenant in (("a1", "a"), ("a2", "a"), ("b1", "b")):
        await submit(worker, stores, name, tenant)
    await until(lambda: sorted(work.ids()) == ["a1", "b1"])
    await asyncio.sleep(0.1)
    assert len(work.jobs) == 2
    work.go.set()
    await until(lambda: len(work.jobs) == 3)


@pytest.mark.parametrize("adopts", [True, False])
async def test_a_job_that_raises_is_retried_at_its_due_times(
    stores: Stores, make: MakeWorker, adopts: bool
) -> None:
    times: list[float] = []

    async def fails(job: Job) -> None:
        times.append(time.monotonic())
        assert job.failures == len(times) - 1
        if len(times) < 4:
            raise RuntimeError("not yet")

    worker = make(fails, retry_seconds=(0.1, 0.2, 0.4))
    if adopts:
        worker.adopt()
    await submit(worker, stores, "a")
    await until(lambda: len(times) == 4)
    gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
    for gap, wanted in zip(gaps, (0.1, 0.2, 0.4), strict=True):
        assert wanted - 0.02 < gap < wanted + 0.5


async def test_a_job_that_fails_too_often_is_abandoned(stores: Stores, make: MakeWorker) -> None:
    tries: list[int] = []

    async def fails(job: Job) -> None:
        tries.append(job.failures)
        raise RuntimeError("never")

    worker = make(fails, retry_seconds=(0.01,), max_attempts=3)
    worker.adopt()
    await submit(worker, stores, "a")
    await until(lambda: len(tries) == 3)
    await asyncio.sleep(0.2)
    assert tries == [0, 1, 2]
    assert await stores.jobs.look([KIND]) == (False, None)


async def test_a_cancelled_job_is_stopped_in_every_process(stores: Stores, make: MakeWorker) -> None:
    work = Recorder(hangs=True)
    here, there = make(work), make(Recorder())
    await submit(here, stores, "a")
    await until(lambda: work.ids() == ["a"])
    [held] = await stores.jobs.held(here.owner)
    await stores.jobs.settle([Settled(held, "finished")])
    await there.stop(KIND, "t", "a")
    await until(lambda: work.stopped == ["a"])


async def test_a_job_that_was_taken_over_is_stopped_without_a_signal(
    stores: Stores, make: MakeWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_module, "COMPARE_SECONDS", 0.05)
    work = Recorder(hangs=True)
    await submit(make(work), stores, "a")
    await until(lambda: work.ids() == ["a"])
    assert await stores.jobs.claim_one("elsewhere", KIND, "t", "a", -1.0) is not None
    await until(lambda: work.stopped == ["a"])


async def test_a_claim_whose_reply_was_lost_is_released(stores: Stores, make: MakeWorker) -> None:
    work = Recorder()
    worker = make(work)
    await stores.jobs.add(job("lost"))
    assert await stores.jobs.claim_one(worker.owner, KIND, "t", "lost", 0.0) is not None
    worker.adopt()
    stores.signals.publish(CANCEL_TOPIC)
    await until(lambda: work.ids() == ["lost"])


async def test_the_jobs_of_a_silent_worker_are_taken_over_within_the_lease(
    stores: Stores, make: MakeWorker
) -> None:
    work = Recorder()
    await stores.jobs.beat("gone")
    await stores.jobs.add(job("a"))
    assert await stores.jobs.claim_one("gone", KIND, "t", "a", 0.0) is not None
    began = time.monotonic()
    make(work).adopt()
    await until(lambda: work.ids() == ["a"])
    assert LEASE_SECONDS / 2 < time.monotonic() - began < LEASE_SECONDS + 1
    assert work.jobs[0].broken_off == 1


async def test_a_sign_of_life_is_stored_before_the_first_claim(
    stores: Stores, make: MakeWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = Recorder()
    worker = make(work)

    async def refuse(_owner: str) -> None:
        raise StoreUnavailable

    with monkeypatch.context() as patch:
        patch.setattr(stores.jobs, "beat", refuse)
        with pytest.raises(StoreUnavailable):
            await submit(worker, stores, "a")
        await stores.jobs.add(job("b"))
        worker.adopt()
        await asyncio.sleep(0.1)
        assert work.jobs == []
    await until(lambda: work.ids() == ["b"])


async def test_after_an_outage_every_owner_gets_the_time_for_a_sign_of_life(
    stores: Stores, make: MakeWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    look_times: list[float] = []
    take_over = stores.jobs.free_lapsed

    async def flaky(owner: str, lease: float) -> int:
        look_times.append(time.monotonic())
        if len(look_times) == 1:
            raise StoreUnavailable
        return await take_over(owner, lease)

    monkeypatch.setattr(stores.jobs, "free_lapsed", flaky)
    make(Recorder()).adopt()
    await until(lambda: len(look_times) == 2)
    assert look_times[1] - look_times[0] >= LEASE_SECONDS - 0.05


async def test_a_worker_that_stops_releases_its_jobs(stores: Stores, make: MakeWorker) -> None:
    first, second = Recorder(hangs=True), Recorder()
    here, there = make(first), make(second)
    await submit(here, stores, "a")
    await until(lambda: first.ids() == ["a"])
    there.adopt()
    await here.aclose()
    await until(lambda: second.ids() == ["a"])
    assert second.jobs[0].broken_off == 0
    with pytest.raises(Unavailable):
        await submit(here, stores, "b")


async def test_a_periodic_job_is_done_again_and_again_by_one_worker_at_a_time(
    stores: Stores, make: MakeWorker
) -> None:
    work = Recorder()
    for worker in (make(work), make(work)):
        await worker.schedule(job("sweep", period=0.2))
        worker.adopt()
    began = time.monotonic()
    await until(lambda: len(work.jobs) == 4)
    assert time.monotonic() - began > 0.55, "four times in three periods, not eight"


async def test_one_process_works_on_a_file(stores: Stores, tmp_path: Path) -> None:
    first, second = ProcessLock(tmp_path / "lock"), ProcessLock(tmp_path / "lock")
    assert first.acquire()
    assert first.acquire()
    other = Worker(stores.jobs, stores.signals, owner="other", lock=second)
    with pytest.raises(Unavailable, match="Another process"):
        await submit(other, stores, "a")
    first.release()
    assert second.acquire()
    await other.aclose()
    second.release()


async def test_saved_jobs_are_begun_here_or_claimed_by_whoever_adopts(
    stores: Stores, make: MakeWorker
) -> None:
    work, adopting = Recorder(), Recorder()
    for name in ("a", "b", "c"):
        await stores.jobs.add(job(name))
    own = make(work)
    await own.begin(KIND, "t", ["a", "b"])
    await until(lambda: work.ids() == ["a", "b"])
    worker = make(adopting)
    worker.adopt()
    await until(lambda: adopting.ids() == ["c"])
    await stores.jobs.add(job("d"))
    await worker.begin(KIND, "t", ["d"])
    await until(lambda: adopting.ids() == ["c", "d"])


async def test_saved_jobs_are_left_to_the_process_that_has_the_lock(stores: Stores, tmp_path: Path) -> None:
    held = ProcessLock(tmp_path / "lock")
    assert held.acquire()
    work = Recorder()
    await stores.jobs.add(job("a"))
    worker = Worker(stores.jobs, stores.signals, owner="other", lock=ProcessLock(tmp_path / "lock"))
    worker.register(Kind(name=KIND, work=work))
    await worker.begin(KIND, "t", ["a"])
    await asyncio.sleep(0.05)
    assert work.ids() == []
    await worker.aclose()
    held.release()


async def test_work_on_removed_jobs_is_stopped(stores: Stores, make: MakeWorker) -> None:
    work = Recorder(hangs=True)
    worker = make(work)
    await submit(worker, stores, "a")
    await until(lambda: work.ids() == ["a"])
    held = await stores.jobs.held(worker.owner)
    await stores.jobs.settle([Settled(each, "finished") for each in held])
    worker.stop_removed()
    await until(lambda: work.stopped == ["a"])
