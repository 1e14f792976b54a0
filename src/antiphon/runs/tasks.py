"""The engine for stores that do not outlive the process: one task of the event loop per response."""

import asyncio
import logging

from antiphon.errors import Unavailable
from antiphon.runs.base import Work

_log = logging.getLogger(__name__)

FIRST_PAUSE = 0.5
LONGEST_PAUSE = 30.0
STOPPED_WITHIN = 1.0


class TaskEngine:
    """Does work in tasks. What fails is tried again, until it is done or stopped."""

    def __init__(self, work: Work, *, owner: str, first_pause: float = FIRST_PAUSE) -> None:
        self._work = work
        self._owner = owner
        self._first_pause = first_pause
        self._tasks: dict[tuple[str, str], asyncio.Task[None]] = {}
        self._closed = False

    @property
    def owner(self) -> str:
        """The name of this process."""
        return self._owner

    def runs(self, tenant: str, response_id: str) -> bool:
        """Whether work on a response is under way."""
        return (tenant, response_id) in self._tasks

    async def submit(self, tenant: str, response_id: str) -> None:
        """Start work on a response; nothing happens if it is under way."""
        if self._closed:
            raise Unavailable
        self._start(tenant, response_id)

    async def run(self, tenant: str, response_id: str) -> None:
        """Work on a response until it is done or stopped. Ends as cancelled if the engine is closed before.

        Who comes second waits for the work that is under way.
        """
        if self._closed:
            raise asyncio.CancelledError
        task = self._start(tenant, response_id)
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:
            task.cancel()
            raise
        if self._closed and task.cancelled():
            raise asyncio.CancelledError

    async def stop(self, tenant: str, response_id: str) -> None:
        """Cancel work on a response, and give it a moment to let its upstream go."""
        task = self._tasks.get((tenant, response_id))
        if task is not None:
            task.cancel()
            await asyncio.wait([task], timeout=STOPPED_WITHIN)

    async def aclose(self) -> None:
        """Cancel all work."""
        self._closed = True
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=STOPPED_WITHIN)

    def _start(self, tenant: str, response_id: str) -> asyncio.Task[None]:
        key = (tenant, response_id)
        task = self._tasks.get(key)
        if task is None:
            task = asyncio.create_task(self._until_done(tenant, response_id), name=f"run {response_id}")
            self._tasks[key] = task
            task.add_done_callback(lambda _: self._tasks.pop(key))
        return task

    async def _until_done(self, tenant: str, response_id: str) -> None:
        """Try again after ever longer pauses. Nothing is given up here: whoever does the work ends a response
        that fails again and again, and a database that is away for an hour must not cost a run."""
        pause = self._first_pause
        while not await self._attempt(tenant, response_id):
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    async def _attempt(self, tenant: str, response_id: str) -> bool:
        try:
            await self._work(tenant, response_id)
        except asyncio.CancelledError:
            if self._is_being_cancelled():
                raise
            # A future inside the work was cancelled, not the work: that is a failure like others.
            _log.warning("Work on %s was cancelled from inside; it is tried again.", response_id)
            return False
        except Exception:  # noqa: BLE001 - the port says so: whatever is raised means try again
            _log.warning("Work on %s failed; it is tried again.", response_id, exc_info=True)
            return False
        return True

    @staticmethod
    def _is_being_cancelled() -> bool:
        task = asyncio.current_task()
        return task is None or task.cancelling() > 0
