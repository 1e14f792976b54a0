"""The jobs that this process works on: one task of the event loop each."""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence

from antiphon.jobs.kinds import Kind
from antiphon.store.base import Job, JobLimit, Settled

logger = logging.getLogger(__name__)

STOP_SECONDS = 1.0
"""How long a cancelled task may take to close its connections."""

JobKey = tuple[str, str, str]


def key_of(job: Job) -> JobKey:
    """Identifies a job in all processes."""
    return job.kind, job.tenant, job.id


class Running:
    """Starts and stops tasks, and collects their outcomes. `settled` is called after each one."""

    def __init__(self, kinds: Mapping[str, Kind], settled: Callable[[], None]) -> None:
        self._kinds = kinds
        self._on_settled = settled
        self._tasks: dict[JobKey, tuple[Job, asyncio.Task[None]]] = {}
        self._counts: Counter[str] = Counter()
        self._announced: set[JobKey] = set()
        self._settled: list[Settled] = []

    def announce(self, key: JobKey) -> None:
        """A job of this process is being saved: its row may be there before it is started."""
        self._announced.add(key)

    def withdraw(self, key: JobKey) -> None:
        """It was not saved."""
        self._announced.discard(key)

    def start(self, job: Job) -> None:
        """Work on a claimed job."""
        key = key_of(job)
        self._announced.discard(key)
        if key in self._tasks:
            return
        self._counts[job.kind] += 1
        task = asyncio.create_task(self._attempt(job), name=f"job {job.id}")
        self._tasks[key] = job, task
        task.add_done_callback(lambda _: self._ended(key))

    def free(self, kind: Kind) -> int:
        """How many more jobs of a kind can be started."""
        return kind.concurrency - self._counts[kind.name]

    def room(self, portion: int) -> list[JobLimit]:
        """The limits of the next claim, the most urgent kinds first; at most a portion of each."""
        kinds = sorted(self._kinds.values(), key=lambda kind: kind.priority)
        limits = [JobLimit(kind.name, min(portion, self.free(kind)), kind.per_tenant) for kind in kinds]
        return [limit for limit in limits if limit.free > 0]

    def keys(self) -> frozenset[JobKey]:
        """The running jobs."""
        return frozenset(self._tasks)

    def compare(self, held: Sequence[Job], before: Collection[JobKey]) -> None:
        """Cancel the jobs that this process no longer holds, and release those that it holds and does not
        run.

        `before` are the jobs that were running when `held` was read; later ones are ignored.
        """
        newest = {key_of(job): job for job in held}
        for key in before:
            if key in self._tasks and (key not in newest or newest[key].token != self._tasks[key][0].token):
                self._tasks[key][1].cancel()
        busy = {*self._tasks, *self._announced, *(key_of(each.job) for each in self._settled)}
        self._settled += [Settled(job, "released") for key, job in newest.items() if key not in busy]

    def take_settled(self) -> list[Settled]:
        """The outcomes since the last call."""
        settled, self._settled = self._settled, []
        return settled

    def put_back(self, settled: Collection[Settled]) -> None:
        """Return outcomes that could not be stored, for the next attempt."""
        self._settled[:0] = settled

    async def stop(self, key: JobKey) -> None:
        """Cancel one job, and give it a moment to close its connections."""
        if key in self._tasks:
            await self._cancel([self._tasks[key][1]])

    async def stop_all(self) -> None:
        """Cancel all jobs."""
        await self._cancel([task for _, task in self._tasks.values()])

    async def _cancel(self, tasks: Sequence[asyncio.Task[None]]) -> None:
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=STOP_SECONDS)

    def _ended(self, key: JobKey) -> None:
        del self._tasks[key]
        self._counts[key[0]] -= 1
        self._on_settled()

    async def _attempt(self, job: Job) -> None:
        kind = self._kinds[job.kind]
        try:
            await kind.work(job)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling() > 0:
                raise
            # A future inside the work was cancelled, not the work: that is an error like others.
            logger.warning("work on %s was cancelled from inside and is retried", job.id)
            self._failed(kind, job)
        except Exception:
            logger.warning("work on %s failed", job.id, exc_info=True)
            self._failed(kind, job)
        else:
            self._settled.append(Settled(job, "finished"))

    def _failed(self, kind: Kind, job: Job) -> None:
        if kind.max_attempts is not None and job.failures + 1 >= kind.max_attempts:
            logger.error("job %s was abandoned after %d failed attempts", job.id, job.failures + 1)
            self._settled.append(Settled(job, "finished"))
        else:
            self._settled.append(Settled(job, "failed", kind.pause_after(job.failures)))
