"""The table of jobs: claims, tokens, leases, limits, retries and schedules, without a worker."""

import asyncio
from collections.abc import Sequence

import pytest

from antiphon.store.base import RESPONSE_JOB, Fenced, Job, JobLimit, Settled
from antiphon.store.ports import JobStore, Stores
from tests.jobs.conftest import KIND, job
from tests.store.values import ended, events, queued


@pytest.fixture
def jobs(stores: Stores) -> JobStore:
    return stores.jobs


async def claim(jobs: JobStore, owner: str, free: int = 100, per_tenant: int | None = None) -> Sequence[Job]:
    return await jobs.claim(owner, [JobLimit(KIND, free, per_tenant)])


def ids(claimed: Sequence[Job]) -> list[str]:
    return [each.id for each in claimed]


async def test_a_due_job_is_claimed_once_with_a_higher_token_each_time(jobs: JobStore) -> None:
    await jobs.add(job("a"))
    await jobs.add(job("a"))
    [first] = await claim(jobs, "o1")
    assert (first.owner, first.token, first.failures, first.broken_off) == ("o1", 1, 0, 0)
    assert await claim(jobs, "o2") == []
    await jobs.settle([Settled(first, "released")])
    [second] = await claim(jobs, "o2")
    assert (second.token, second.broken_off) == (2, 0), "releasing is no attempt that broke off"


async def test_a_job_is_not_claimed_before_it_is_due(jobs: JobStore) -> None:
    await jobs.add(job("later", delay=60.0))
    assert await claim(jobs, "o1") == []
    due, wait = await jobs.look([KIND])
    assert not due
    assert wait is not None
    assert 55 < wait <= 60
    await jobs.add(job("now"))
    assert (await jobs.look([KIND]))[0]
    assert await jobs.look(["another kind"]) == (False, None)
    assert ids(await claim(jobs, "o1")) == ["now"]


async def test_a_batch_is_no_larger_than_requested(jobs: JobStore) -> None:
    for number in range(5):
        await jobs.add(job(f"{number}"))
    assert len(await claim(jobs, "o1", 2)) == 2
    assert len(await claim(jobs, "o2", 9)) == 3


async def test_the_job_that_is_longest_due_is_claimed_first(jobs: JobStore) -> None:
    await jobs.add(job("later"))
    await jobs.add(job("earlier", delay=-5.0))
    claimed = await jobs.claim("o1", [JobLimit("nothing", 5), JobLimit(KIND, 1)])
    assert ids(claimed) == ["earlier"]


async def test_a_tenant_runs_no_more_jobs_than_its_limit(jobs: JobStore) -> None:
    for number in range(4):
        await jobs.add(job(f"a{number}", "a"))
    await jobs.add(job("b0", "b"))
    first = await claim(jobs, "o1", per_tenant=2)
    assert sorted(ids(first)) == ["a0", "a1", "b0"]
    assert await claim(jobs, "o2", per_tenant=2) == []
    await jobs.settle([Settled(first[0], "finished")])
    assert len(await claim(jobs, "o2", per_tenant=2)) == 1


async def test_failed_and_broken_off_are_counted_apart(jobs: JobStore) -> None:
    await jobs.add(job("a"))
    [first] = await claim(jobs, "o1")
    await jobs.settle([Settled(first, "failed", 0.0)])
    [second] = await claim(jobs, "o1")
    assert (second.failures, second.broken_off) == (1, 0)
    assert await jobs.free_lapsed("o2", 0.0) == 1
    [third] = await claim(jobs, "o2")
    assert (third.failures, third.broken_off, third.token) == (1, 1, 3)


async def test_a_failed_job_waits_for_its_due_time(jobs: JobStore) -> None:
    await jobs.add(job("a"))
    [first] = await claim(jobs, "o1")
    await jobs.settle([Settled(first, "failed", 0.3)])
    assert await claim(jobs, "o1") == []
    _, wait = await jobs.look([KIND])
    assert wait is not None
    await asyncio.sleep(wait + 0.01)
    assert ids(await claim(jobs, "o1")) == ["a"]


async def test_a_living_owner_keeps_its_jobs(jobs: JobStore) -> None:
    await jobs.beat("o1")
    await jobs.add(job("a"))
    await claim(jobs, "o1")
    assert await jobs.free_lapsed("o2", 1000.0) == 0
    assert await jobs.claim_one("o2", KIND, "t", "a", 1000.0) is None
    assert await jobs.free_lapsed("o1", -1.0) == 0, "an owner keeps its own jobs"
    assert await jobs.free_lapsed("o2", -1.0) == 1, "o1 was silent for too long"
    assert await jobs.held("o1") == []


async def test_one_job_is_claimed_by_its_id(jobs: JobStore) -> None:
    await jobs.add(job("a", delay=60.0))
    first = await jobs.claim_one("o1", KIND, "t", "a", 0.0)
    assert first is not None
    assert first.broken_off == 0
    taken = await jobs.claim_one("o2", KIND, "t", "a", 0.0)
    assert taken is not None
    assert (taken.broken_off, taken.token) == (1, 2)
    assert await jobs.claim_one("o2", KIND, "t", "unknown", 0.0) is None


async def test_an_owner_that_ends_releases_its_jobs(jobs: JobStore) -> None:
    for name in ("a", "b"):
        await jobs.add(job(name))
    held = await claim(jobs, "o1")
    assert sorted(ids(await jobs.held("o1"))) == sorted(ids(held)) == ["a", "b"]
    await jobs.release("o1")
    assert [each.broken_off for each in await claim(jobs, "o2")] == [0, 0]


async def test_a_fenced_owner_cannot_settle_a_job(jobs: JobStore) -> None:
    await jobs.add(job("a"))
    [zombie] = await claim(jobs, "o1")
    await jobs.free_lapsed("o2", 0.0)
    [newest] = await claim(jobs, "o2")
    await jobs.settle(
        [Settled(zombie, "finished"), Settled(zombie, "failed", 9.0), Settled(zombie, "released")]
    )
    assert await jobs.held("o2") == [newest]


async def test_a_schedule_is_due_again_after_its_period(jobs: JobStore) -> None:
    await jobs.add(job("sweep", period=60.0))
    [first] = await claim(jobs, "o1")
    await jobs.settle([Settled(first, "finished")])
    due, wait = await jobs.look([KIND])
    assert not due
    assert wait is not None
    assert 55 < wait <= 60


async def test_the_job_lives_as_long_as_its_response(stores: Stores) -> None:
    for name in ("1", "2"):
        await stores.background.submit("t", queued(name), b"{}", events(0), "o1")
    assert len(await stores.jobs.held("o1")) == 2
    claimed = await stores.background.claim("t", "resp_1")
    assert claimed is not None
    await stores.background.finish("t", claimed.token, ended("1"), events(1))
    await stores.responses.delete("t", "resp_2")
    assert await stores.jobs.held("o1") == []


async def test_a_zombie_cannot_claim_the_response_of_its_job(stores: Stores) -> None:
    await stores.background.submit("t", queued("1"), b"{}", events(0), "o1")
    [zombie] = await stores.jobs.held("o1")
    newest = await stores.jobs.claim_one("o2", RESPONSE_JOB, "t", "resp_1", 0.0)
    right = await stores.background.claim("t", "resp_1", newest)
    assert right is not None
    with pytest.raises(Fenced):
        await stores.background.claim("t", "resp_1", zombie)
    await stores.background.append("t", "resp_1", right.token, events(1))


async def test_an_unfinished_response_keeps_its_job(stores: Stores) -> None:
    await stores.background.submit("t", queued("1"), b"{}", events(0), "o1")
    with pytest.raises(Fenced):
        await stores.background.finish("t", 99, ended("1"), events(1))
    assert len(await stores.jobs.held("o1")) == 1
