"""Several processes on one database: each job is done once, batches are fair, and kill -9 loses no job."""

import asyncio
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from antiphon.store.ports import Stores
from tests.jobs.conftest import KIND, job, open_url
from tests.postgres import PostgresServer

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("job_processes")]

PROCESSES = 4
JOBS = 300
LEASE_SECONDS = 1.0


@contextmanager
def process(
    url: str, record: Path, state: str = "alive", lease: float = LEASE_SECONDS
) -> Generator[subprocess.Popen[str], None, None]:
    """A ready process; a line on its standard input starts it."""
    command = [sys.executable, "-m", "tests.jobs.process", url, str(record), str(lease), state]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        try:
            assert child.stdout is not None
            assert child.stdout.readline() == "ready\n"
            yield child
        finally:
            child.kill()


def begin(child: subprocess.Popen[str]) -> None:
    assert child.stdin is not None
    child.stdin.write("go\n")
    child.stdin.flush()


def records(path: Path) -> list[tuple[str, str, int]]:
    """The finished jobs: job, process, and number of earlier interrupted attempts."""
    lines = path.read_text().splitlines() if path.exists() else []
    return [(name, pid, int(broken)) for name, pid, broken in (line.split() for line in lines)]


def wait_for(reached: Callable[[], bool], seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not reached():
        assert time.monotonic() < end, "it takes too long"
        time.sleep(0.02)


def test_four_processes_do_300_jobs_once_each_in_fair_portions(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    record = tmp_path / "record"

    async def fill(stores: Stores) -> None:
        for number in range(JOBS):
            await stores.jobs.add(job(f"{number}"))

    with postgres.database() as url:
        asyncio.run(with_stores(url, fill))
        with (
            process(url, record, lease=30.0) as one,
            process(url, record, lease=30.0) as two,
            process(url, record, lease=30.0) as three,
            process(url, record, lease=30.0) as four,
        ):
            for child in (one, two, three, four):
                begin(child)
            wait_for(lambda: len(records(record)) >= JOBS)
            time.sleep(0.5)
    done = records(record)
    assert len(done) == len({name for name, _, _ in done}) == JOBS
    shares = Counter(pid for _, pid, _ in done)
    assert len(shares) == PROCESSES
    assert max(shares.values()) < JOBS * 0.6, "no process takes nearly all"


async def with_stores(url: str, do: Callable[[Stores], object]) -> None:
    async with open_url(url) as stores:
        await do(stores)  # pyright: ignore[reportGeneralTypeIssues] -- a coroutine


@pytest.mark.parametrize("state", ["waiting", "claimed", "running", "finishing"])
def test_a_job_survives_kill_9_in_every_state(url: str, tmp_path: Path, state: str) -> None:
    record = tmp_path / "record"
    lease = 0.0 if url.startswith("sqlite:") else LEASE_SECONDS

    async def fill(stores: Stores) -> None:
        await stores.jobs.add(job("a"))

    async def check(stores: Stores) -> None:
        async with asyncio.timeout(10):
            while await stores.jobs.look([KIND]) != (False, None):  # noqa: ASYNC110 -- a test
                await asyncio.sleep(0.05)

    asyncio.run(with_stores(url, fill))
    with process(url, record, state, lease) as dying:
        begin(dying)
        assert dying.wait(20) == -9
    before = len(records(record))
    with process(url, record, "alive", lease) as heir:
        began = time.monotonic()
        begin(heir)
        wait_for(lambda: len(records(record)) == before + 1, 20)
        taken_over = time.monotonic() - began
        name, _, broken_off = records(record)[-1]
        assert (name, broken_off) == ("a", 0 if state == "waiting" else 1)
        asyncio.run(with_stores(url, check))
    assert taken_over < LEASE_SECONDS + 5
