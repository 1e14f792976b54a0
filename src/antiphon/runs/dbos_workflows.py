"""One workflow per response, named by its id: what is done on DBOS's event loop.

Import this only when DBOS is needed; the import registers the workflow, once per process.
"""

import asyncio
import logging
import threading

from dbos import DBOS, SetWorkflowID, WorkflowStatusString, error

from antiphon.errors import SettingsError
from antiphon.runs.base import Work

_log = logging.getLogger(__name__)

QUEUE = "antiphon"
QUEUE_POLL = 0.5
FORGET_EVERY = 60.0
FORGET_AT_ONCE = 500

_ENDED = [WorkflowStatusString.SUCCESS.value, WorkflowStatusString.ERROR.value]
_QUEUED = [WorkflowStatusString.ENQUEUED.value, WorkflowStatusString.DELAYED.value]

_in_use = threading.Lock()
_current: "Workflows | None" = None


@DBOS.workflow(name="antiphon.response")
async def make_response(tenant: str, response_id: str) -> None:
    """The workflow. It has no steps: how far a response has come is in the store; work goes on from there."""
    if _current is None:
        raise asyncio.CancelledError
    await _current.work(tenant, response_id)


class Workflows:
    """The workflows of this process. DBOS is global, so there is one of these, until it is left."""

    def __init__(self, work: Work, server: asyncio.AbstractEventLoop) -> None:
        global _current  # noqa: PLW0603 - as global as DBOS itself
        if not _in_use.acquire(blocking=False):
            raise SettingsError(
                "One process has one durable engine, and another one is in use in this process."
                " Close it first, or use `memory:` for one of the two stores."
            )
        _current = self
        self._work = work
        self._server = server
        self._live: set[str] = set()

    def leave(self) -> None:
        """Make room for the next one."""
        global _current  # noqa: PLW0603
        _current = None
        _in_use.release()

    async def work(self, tenant: str, response_id: str) -> None:
        """Have work done on the server's loop. Cancelling goes through, from here to there and back."""
        self._live.add(response_id)
        try:
            done = asyncio.run_coroutine_threadsafe(self._work(tenant, response_id), self._server)
            await asyncio.wrap_future(done)
        finally:
            self._live.discard(response_id)

    async def submit(self, tenant: str, response_id: str) -> None:
        """Start a workflow, unless it runs here; or see to it that one which DBOS knows goes on."""
        if response_id in self._live:
            return
        self._live.add(response_id)  # `work` takes it out
        try:
            with SetWorkflowID(response_id, workflow_id_reuse_policy="reject"):
                await DBOS.start_workflow_async(make_response, tenant, response_id)
        except error.DBOSWorkflowIDInUseError as known:
            self._live.discard(response_id)
            await self._take_up(tenant, response_id, known.workflow_status)
        except BaseException:
            self._live.discard(response_id)
            raise

    async def _take_up(self, tenant: str, response_id: str, status: str) -> None:
        """Whoever submits a known response has found it unfinished and without an owner, so it goes on:

        a workflow in the queue will; one that has ended says nothing about the response and is replaced; any
        other was left behind by a process that is gone. Resumed, it is queued, and the queue gives it to
        exactly one process, however many have resumed it.
        """
        if status in _ENDED:
            await DBOS.delete_workflow_async(response_id)
            await self.submit(tenant, response_id)
        elif status not in _QUEUED:
            await DBOS.resume_workflow_async(response_id, queue_name=QUEUE)

    async def forget_ended(self) -> None:
        """Erase ended workflows, again and again; DBOS would keep them for ever."""
        while True:
            try:
                more = await self._forget_some()
            except Exception:  # noqa: BLE001 - whatever it is, the next time is soon
                _log.warning("Ended workflows could not be erased; that is tried again.", exc_info=True)
                more = False
            if not more:
                await asyncio.sleep(FORGET_EVERY)

    async def _forget_some(self) -> bool:
        ended = await DBOS.list_workflows_async(
            status=_ENDED, limit=FORGET_AT_ONCE, load_input=False, load_output=False
        )
        if ended:
            await DBOS.delete_workflows_async([workflow.workflow_id for workflow in ended])
        return len(ended) == FORGET_AT_ONCE
