"""Upkeep of the blob store: a periodic job deletes objects that no file refers to."""

from antiphon.jobs.kinds import Kind
from antiphon.jobs.worker import Worker
from antiphon.service.files.contents import Contents
from antiphon.store.base import Job, NewJob

OBJECT_UPKEEP_JOB = "object_upkeep"
SWEEP_SECONDS = 60.0
MAX_BATCH_OBJECTS = 100


async def start_object_upkeep(jobs: Worker, contents: Contents) -> None:
    """Delete unneeded objects from now on, in one of the processes each time."""

    async def sweep(_job: Job) -> None:
        await delete_due_objects(contents)

    jobs.register(Kind(name=OBJECT_UPKEEP_JOB, work=sweep, concurrency=1, priority=1))
    await jobs.schedule(
        NewJob(kind=OBJECT_UPKEEP_JOB, tenant="", id="sweep", delay=SWEEP_SECONDS, period=SWEEP_SECONDS)
    )


async def delete_due_objects(contents: Contents) -> None:
    """Delete the objects of deleted and expired files, and what crashes have left."""
    while keys := await contents.store.due_objects(MAX_BATCH_OBJECTS):
        await contents.blobs.delete(keys)
        await contents.store.forget_objects(keys)
