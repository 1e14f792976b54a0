"""A process that works on jobs and records each one in a file; it can be killed in any state of a job.

python -m tests.jobs.process URL RECORD LEASE STATE
"""

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

from antiphon.jobs.kinds import Kind
from antiphon.jobs.process_lock import ProcessLock, lock_path
from antiphon.jobs.running import Running
from antiphon.jobs.worker import Worker
from antiphon.store.base import Job
from antiphon.store.sql_stores import SqlJobs
from tests.jobs.conftest import KIND, open_url


def die(*_: Any, **__: Any) -> Any:
    os.kill(os.getpid(), signal.SIGKILL)


async def main(url: str, record: str, lease: float, state: str) -> None:
    """Work until killed."""

    async def work(job: Job) -> None:
        with Path(record).open("a") as file:  # noqa: ASYNC230 -- a line of a test
            file.write(f"{job.id} {os.getpid()} {job.broken_off}\n")
        if state == "running":
            die()
        await asyncio.sleep(0.01)

    if state == "claimed":
        Running.start = die
    elif state == "finishing":
        SqlJobs.settle = die
    async with open_url(url) as stores:
        lock = (
            ProcessLock(lock_path(Path(url.removeprefix("sqlite:")))) if url.startswith("sqlite:") else None
        )
        worker = Worker(stores.jobs, stores.signals, owner=f"process {os.getpid()}", lease=lease, lock=lock)
        worker.register(Kind(name=KIND, work=work))
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        worker.adopt()
        if state == "waiting":
            die()
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], float(sys.argv[3]), sys.argv[4]))
