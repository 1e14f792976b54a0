"""The worker of a process: it claims jobs, works on them, and takes over those of lost processes.

One loop makes all accesses to the table of jobs, in this order: record outcomes, send a sign of life, compare
the running jobs with the held ones, take over from lapsed owners, claim. It sleeps until a signal arrives, a
job ends, the next job is due, or the next sign of life is due.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

from antiphon.errors import AntiphonError, Unavailable
from antiphon.jobs.kinds import Kind
from antiphon.jobs.process_lock import ProcessLock
from antiphon.jobs.running import JobKey, Running, key_of
from antiphon.store.base import Job, NewJob
from antiphon.store.ports import JobStore
from antiphon.store.signals import Signals, Subscription

logger = logging.getLogger(__name__)

WAKE_TOPIC = "jobs"
"""The signal that there may be work to claim."""
CANCEL_TOPIC = "jobs:cancelled"
"""The signal that a job was ended or deleted from outside."""
CLAIM_BATCH_JOBS = 8
"""The most jobs of a kind in one claim, so that other processes get a share."""
COMPARE_SECONDS = 5.0
"""How often a worker looks by itself whether its jobs are still its own: signals may get lost."""
LOCK_SECONDS = 1.0
"""How often a process looks whether it may work on the jobs of an SQLite file."""
LEASE_PARTS = 5
"""Signs of life within one lease."""
MAX_LAPSE_CHECK_SECONDS = 0.75
"""How often lapsed owners are looked for at least, so that a take-over needs less than a second more than the
lease."""


class Worker:
    """Works on the jobs of one database. It starts when it is first used.

    `lease` is the number of seconds without a sign of life after which another process takes jobs over; 0: no
    other process works on this database, so jobs of other owners are abandoned. `lock` makes sure of that.
    """

    def __init__(
        self,
        store: JobStore,
        signals: Signals,
        *,
        owner: str,
        lease: float = 0.0,
        lock: ProcessLock | None = None,
    ) -> None:
        self._store = store
        self._signals = signals
        self._owner = owner
        self._lease = lease
        self._lock = lock
        self._kinds: dict[str, Kind] = {}
        self._running = Running(self._kinds, self._wake)
        self._wakeup: Subscription | None = None
        self._loop: asyncio.Task[None] | None = None
        self._watch: asyncio.Task[None] | None = None
        self._adopting = False
        self._closed = False
        self._beat_at = self._lapse_at = self._compare_at = 0.0
        self._claims_more = False
        self._retries: dict[JobKey, float] = {}

    @property
    def owner(self) -> str:
        """The name of this process among all that share the database, different at every start."""
        return self._owner

    def register(self, kind: Kind) -> None:
        """Work on jobs of this kind from now on."""
        self._kinds[kind.name] = kind

    async def submit(
        self, kind: str, tenant: str, job_id: str, save: Callable[[str | None], Awaitable[None]]
    ) -> None:
        """Save a job together with the row that it belongs to, and start it.

        `save` stores both in one transaction; its argument is the owner to store with the job, or None if a
        process with capacity has to claim it.
        """
        await self._ready()
        if not self._takes(self._kinds[kind]):
            await save(None)
            self._signals.publish(WAKE_TOPIC)
            return
        job = Job(kind=kind, tenant=tenant, id=job_id, owner=self._owner)
        self._running.announce(key_of(job))
        try:
            await save(self._owner)
        except BaseException:
            self._running.withdraw(key_of(job))
            raise
        self._running.start(job)

    async def resume(self, kind: str, tenant: str, job_id: str) -> None:
        """Work on a job here that was left unfinished. Nothing happens if another process works on it."""
        await self._ready()
        job = await self._store.claim_one(self._owner, kind, tenant, job_id, self._lease)
        if job is not None:
            self._running.start(job)

    async def begin(self, kind: str, tenant: str, job_ids: Sequence[str]) -> None:
        """Have jobs done that are saved: by any process with capacity, or else by this one. If another
        process works on this database, that one will find them."""
        if self._adopting:
            self._signals.publish(WAKE_TOPIC)
            return
        with suppress(Unavailable):
            for job_id in job_ids:
                await self.resume(kind, tenant, job_id)

    def wake_all(self) -> None:
        """Have the workers look for due jobs, because one became due."""
        self._signals.publish(WAKE_TOPIC)

    def stop_removed(self) -> None:
        """Stop work on jobs that were deleted, wherever it is done."""
        self._signals.publish(CANCEL_TOPIC)

    async def schedule(self, job: NewJob) -> None:
        """Have a periodic job done, by one of the processes each time."""
        await self._store.add(job)
        self._wake()

    async def stop(self, kind: str, tenant: str, job_id: str) -> None:
        """Stop work on a job that was ended or deleted, wherever it is done."""
        self._signals.publish(CANCEL_TOPIC)
        await self._running.stop((kind, tenant, job_id))

    def adopt(self) -> None:
        """From now on also claim the jobs of other submitters, and take over those of lost processes."""
        self._adopting = True
        self._start()
        self._wake()

    async def aclose(self) -> None:
        """Stop all work here; it continues elsewhere, or at the next start."""
        self._closed = True
        if self._loop is None or self._watch is None:
            return
        await self._running.stop_all()
        self._loop.cancel()
        self._watch.cancel()
        await asyncio.wait([self._loop, self._watch])
        try:
            await self._settle()
            await self._store.release(self._owner)
            self._signals.publish(WAKE_TOPIC)
        except AntiphonError as error:
            logger.warning("unfinished jobs are taken over after %g s: %s", self._lease, error.message)
        if self._lock is not None:
            self._lock.release()

    # How jobs of this process begin

    async def _ready(self) -> None:
        """Raise unless a job may be claimed: not without a sign of life that is stored."""
        if self._closed:
            raise Unavailable
        if self._lock is not None and not self._lock.acquire():
            raise Unavailable(
                "Another process works in the background on this SQLite file. Ask that one, "
                "or share a PostgreSQL store."
            )
        if self._lease and _now() > self._beat_at + self._lease / LEASE_PARTS:
            await self._beat()
        self._start()

    def _takes(self, kind: Kind) -> bool:
        """Whether a new job is claimed with its submission. Limits per tenant are counted at later claims."""
        if not self._adopting:
            return True
        return kind.per_tenant is None and self._running.free(kind) > 0

    def _start(self) -> None:
        if self._loop is None:
            self._loop = asyncio.create_task(self._run(), name="jobs")
            self._watch = asyncio.create_task(self._watch_cancellations(), name="cancelled jobs")

    def _wake(self) -> None:
        if self._wakeup is not None:
            self._wakeup.wake()

    # The loop

    async def _run(self) -> None:
        with self._signals.subscribe(WAKE_TOPIC) as wakeup:
            self._wakeup = wakeup
            while True:
                pause = await self._try_turn()
                if pause > 0:
                    await wakeup.wait(pause)

    async def _watch_cancellations(self) -> None:
        with self._signals.subscribe(CANCEL_TOPIC) as cancelled:
            while True:
                await cancelled.wait(COMPARE_SECONDS)
                self._compare_at = 0.0
                self._wake()

    async def _try_turn(self) -> float:
        """One turn of the loop; the seconds until the next one."""
        try:
            return await self._turn()
        except AntiphonError as error:
            logger.warning("the jobs' table cannot be used: %s", error.message)
            # No process could send a sign of life: when the database is back, all get the time to do so.
            self._lapse_at = _now() + self._lease
        except Exception:
            logger.exception("the worker of jobs failed and is retried")
        return LOCK_SECONDS

    async def _turn(self) -> float:
        if self._lock is not None and not self._lock.acquire():
            return LOCK_SECONDS
        await self._settle()
        if self._lease and _now() >= self._beat_at:
            await self._beat()
        if _now() >= self._compare_at:
            await self._compare()
        wait = None
        if self._adopting:
            if _now() >= self._lapse_at:
                await self._take_over()
            wait = await self._claim()
        else:
            await self._retry()
        return self._pause(wait)

    def _pause(self, due: float | None) -> float:
        times = [self._compare_at, *self._retries.values()]
        if self._lease:
            times.append(self._beat_at)
        if self._adopting:
            times.append(self._lapse_at)
        pause = max(0.0, min(times) - _now())
        return pause if due is None else min(pause, due)

    async def _settle(self) -> None:
        settled = self._running.take_settled()
        if not settled:
            return
        try:
            await self._store.settle(settled)
        except BaseException:
            self._running.put_back(settled)
            raise
        if any(self._kinds[each.job.kind].per_tenant is not None for each in settled):
            self._signals.publish(WAKE_TOPIC)
        if not self._adopting:
            retries = {key_of(each.job): _now() + each.delay for each in settled if each.outcome == "failed"}
            self._retries.update(retries)

    async def _beat(self) -> None:
        await self._store.beat(self._owner)
        self._beat_at = _now() + self._lease / LEASE_PARTS

    async def _compare(self) -> None:
        self._compare_at = _now() + COMPARE_SECONDS
        before = self._running.keys()
        self._running.compare(await self._store.held(self._owner), before)
        await self._settle()

    async def _take_over(self) -> None:
        interval = min(MAX_LAPSE_CHECK_SECONDS, self._lease / LEASE_PARTS) if self._lease else COMPARE_SECONDS
        self._lapse_at = _now() + interval
        if freed := await self._store.free_lapsed(self._owner, self._lease):
            logger.info("took over %d jobs of processes that are gone", freed)
            self._signals.publish(WAKE_TOPIC)

    async def _retry(self) -> None:
        """Claim jobs again that have failed here and are due: a worker that adopts does so anyway."""
        for key, due_at in list(self._retries.items()):
            if _now() >= due_at:
                job = await self._store.claim_one(self._owner, *key, self._lease)
                del self._retries[key]
                if job is not None:
                    self._running.start(job)

    async def _claim(self) -> float | None:
        """Claim a portion of the due jobs; returns the seconds until the next claim."""
        limits = self._running.room(CLAIM_BATCH_JOBS)
        if not limits:
            return None
        due: bool = self._claims_more
        wait: float | None = 0.0
        if not due:
            due, wait = await self._store.look([limit.kind for limit in limits])
        claimed = await self._store.claim(self._owner, limits) if due else ()
        for job in claimed:
            self._running.start(job)
        self._claims_more = bool(claimed)
        # Due jobs that were not claimed belong to tenants at their limit.
        return 0.0 if claimed else wait


def _now() -> float:
    return asyncio.get_running_loop().time()
