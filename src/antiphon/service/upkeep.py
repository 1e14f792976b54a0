"""Upkeep of the stores: a periodic job erases expired rows in small batches, and returns their space."""

import asyncio

from antiphon.jobs.kinds import Kind
from antiphon.jobs.worker import Worker
from antiphon.store.base import Job, NewJob
from antiphon.store.ports import UpkeepStore

UPKEEP_JOB = "upkeep"
SWEEP_SECONDS = 60.0
"""Seconds between two sweeps. Requests do not wait for them, because queries ignore expired rows."""
PAUSE_SECONDS = 0.05
"""Seconds between two parts of one sweep, so that requests come first."""
MAX_SHRINK_STEPS = 400
"""Parts of the unused space that one sweep returns: about 300 MB in half a minute."""


async def start_upkeep(jobs: Worker, store: UpkeepStore) -> None:
    """Sweep from now on, in one of the processes each time."""

    async def sweep(_job: Job) -> None:
        while await store.sweep():  # noqa: ASYNC110 -- it is the sweep that is repeated
            await asyncio.sleep(PAUSE_SECONDS)
        for _ in range(MAX_SHRINK_STEPS):
            if not await store.shrink():
                return
            await asyncio.sleep(PAUSE_SECONDS)

    jobs.register(Kind(name=UPKEEP_JOB, work=sweep, concurrency=1, priority=1))
    await jobs.schedule(
        NewJob(kind=UPKEEP_JOB, tenant="", id="sweep", delay=SWEEP_SECONDS, period=SWEEP_SECONDS)
    )
