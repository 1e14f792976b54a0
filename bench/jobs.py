"""Measure jobs on PostgreSQL and SQLite: start latency, throughput, idle cost, take-over, fairness.

python bench/jobs.py [--jobs 1000] [--waiting 10000]

PostgreSQL comes from the wheel that the tests use.
"""

import argparse
import asyncio
import resource
import tempfile
import time
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import median, quantiles

from tests.postgres import PostgresServer

from antiphon.jobs.kinds import Kind
from antiphon.jobs.worker import Worker
from antiphon.store import jobs as scripts
from antiphon.store.base import Job, NewJob
from antiphon.store.database import Database
from antiphon.store.ports import Stores
from antiphon.store.postgres import PostgresDatabase
from antiphon.store.signals import LocalSignals
from antiphon.store.sql_stores import sql_stores
from antiphon.store.sqlite import SqliteDatabase

KIND = "bench"
SUBMISSIONS = 200
IDLE_SECONDS = 10.0
LEASE_SECONDS = 2.0


@asynccontextmanager
async def opened(url: str) -> AsyncGenerator[tuple[Database, Stores], None]:
    """The database and its stores."""
    if url.startswith("sqlite:"):
        database = await SqliteDatabase.open(Path(url.removeprefix("sqlite:")))
        stores = sql_stores(database, LocalSignals(), time.time)
    else:
        database = await PostgresDatabase.open(url)
        stores = sql_stores(database, database.signals, time.time)
    try:
        yield database, stores
    finally:
        await stores.aclose()


def worker_of(stores: Stores, owner: str, work: Callable[[Job], Awaitable[None]], *, lease: float) -> Worker:
    """A worker that adopts waiting jobs."""
    worker = Worker(stores.jobs, stores.signals, owner=owner, lease=lease)
    worker.register(Kind(name=KIND, work=work))
    worker.adopt()
    return worker


async def submissions(database: Database, stores: Stores, lease: float) -> None:
    """Submit jobs one after another; print the times until they are accepted and started."""
    started = asyncio.Event()

    async def work(_job: Job) -> None:
        started.set()

    worker = worker_of(stores, "submitter", work, lease=lease)
    accepted: list[float] = []
    starts: list[float] = []
    for number in range(SUBMISSIONS):
        started.clear()
        new = NewJob(kind=KIND, tenant="t", id=f"s{number}")
        begin = time.perf_counter()
        await worker.submit(KIND, "t", new.id, lambda owner, new=new: database.write(scripts.add(new, owner)))
        accepted.append(time.perf_counter() - begin)
        await started.wait()
        starts.append(time.perf_counter() - begin)
    await worker.aclose()
    print(
        f"  accepted   p50 {median(accepted) * 1e3:.2f} ms, p99 {quantiles(accepted, n=100)[98] * 1e3:.2f} ms"
    )
    print(f"  started    p50 {median(starts) * 1e3:.2f} ms, p99 {quantiles(starts, n=100)[98] * 1e3:.2f} ms")


async def throughput(stores: Stores, count: int, lease: float, workers: int) -> None:
    """Run waiting jobs; print the rate and the shares of the workers."""
    for number in range(count):
        await stores.jobs.add(NewJob(kind=KIND, tenant="t", id=f"t{number}"))
    done = asyncio.Event()
    shares: Counter[str] = Counter()

    async def work(job: Job) -> None:
        shares[job.owner] += 1
        if shares.total() == count:
            done.set()

    begin = time.perf_counter()
    made = [worker_of(stores, f"w{number}", work, lease=lease) for number in range(workers)]
    await done.wait()
    seconds = time.perf_counter() - begin
    for worker in made:
        await worker.aclose()
    print(
        f"  {count:,} jobs, {workers} worker(s): {count / seconds:,.0f} jobs/s,"
        f" shares {sorted(shares.values())}"
    )


async def idle(database: Database, stores: Stores, waiting: int, lease: float) -> None:
    """Stay idle with jobs that are due later; print the CPU time of this process."""
    for number in range(0, waiting, 500):
        for each in range(number, min(number + 500, waiting)):
            new = NewJob(kind=KIND, tenant="t", id=f"i{each}", delay=3600.0)
            await database.write(scripts.add(new), durable=False)

    async def work(_job: Job) -> None:
        raise AssertionError("nothing is due")

    worker = worker_of(stores, "idle", work, lease=lease)
    await asyncio.sleep(1.0)
    before = _cpu_seconds()
    await asyncio.sleep(IDLE_SECONDS)
    share = (_cpu_seconds() - before) / IDLE_SECONDS
    await worker.aclose()
    print(f"  idle with {waiting:,} waiting jobs: {share * 100:.2f} % of a core")


async def take_over(stores: Stores) -> None:
    """Stop an owner's sign of life; print the time until its job runs elsewhere."""
    started = asyncio.Event()

    async def work(_job: Job) -> None:
        started.set()

    await stores.jobs.beat("gone")
    begin = time.perf_counter()
    await stores.jobs.add(NewJob(kind=KIND, tenant="t", id="abandoned"))
    await stores.jobs.claim_one("gone", KIND, "t", "abandoned", LEASE_SECONDS)
    worker = worker_of(stores, "heir", work, lease=LEASE_SECONDS)
    await started.wait()
    print(f"  take-over after {time.perf_counter() - begin:.2f} s with a lease of {LEASE_SECONDS:g} s")
    await worker.aclose()


def _cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


async def measure(name: str, url: str, count: int, waiting: int) -> None:
    """All measurements on one database."""
    lease = 0.0 if url.startswith("sqlite:") else 10.0
    print(name)
    async with opened(url) as (database, stores):
        await submissions(database, stores, lease)
        await throughput(stores, count, lease, 1)
        if lease:
            await throughput(stores, count, lease, 4)
            await take_over(stores)
        await idle(database, stores, waiting, lease)


def main() -> None:
    """Measure on both databases."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--waiting", type=int, default=10_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(measure("SQLite", f"sqlite:{folder}/bench.db", options.jobs, options.waiting))
        home = Path(folder) / "postgres"
        home.mkdir()
        Path(folder).chmod(0o755)
        server = PostgresServer(home)
        try:
            with server.database() as url:
                asyncio.run(measure("PostgreSQL", url, options.jobs, options.waiting))
        finally:
            server.stop()


if __name__ == "__main__":
    main()
