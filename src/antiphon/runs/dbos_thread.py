"""DBOS in a thread with an event loop of its own. Import this only when DBOS is needed.

Why a thread: DBOS replaces the default executor of every loop that calls it, and its launch blocks. It adopts
the loop on which it is launched, and runs there what is started, resumed and queued. So the server's loop
never meets DBOS.
"""

import asyncio
import contextlib
import logging
import threading
from concurrent.futures import Future

from dbos import DBOS, error
from sqlalchemy.exc import SQLAlchemyError

from antiphon.errors import SettingsError, StoreUnavailable
from antiphon.runs import dbos_log
from antiphon.runs.base import Work
from antiphon.runs.dbos_config import dbos_config
from antiphon.runs.dbos_workflows import QUEUE, QUEUE_POLL, Workflows

_log = logging.getLogger(__name__)

CANCELLED_WITHIN = 1.0
ENDED_WITHIN = 2.0


class DbosThread:
    """The DBOS of this process, from its launch to its end. `work` is done on the loop that makes this."""

    def __init__(self, work: Work, database: str, *, executor: str, version: str) -> None:
        self._database = database
        self._executor = executor
        self._version = version
        self._workflows = Workflows(work, asyncio.get_running_loop())
        self._loop = asyncio.new_event_loop()
        self._closing = asyncio.Event()
        self._launched: Future[None] = Future()
        self._ended: Future[None] = Future()

    # On the server's loop

    async def start(self) -> None:
        """Launch DBOS."""
        threading.Thread(target=self._main, name="antiphon-dbos", daemon=True).start()
        try:
            await asyncio.shield(asyncio.wrap_future(self._launched))
        except asyncio.CancelledError:
            await self.aclose()
            raise
        except (SQLAlchemyError, error.DBOSException, OSError) as failure:
            raise StoreUnavailable from failure

    async def submit(self, tenant: str, response_id: str) -> None:
        """Start a workflow, or resume it."""
        submission = self._workflows.submit(tenant, response_id)
        try:
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(submission, self._loop))
        except SQLAlchemyError as failure:
            raise StoreUnavailable from failure

    async def aclose(self) -> None:
        """End DBOS. If that takes too long (its database does not answer), it is left behind."""
        with contextlib.suppress(RuntimeError):  # its loop is closed: it has ended by itself
            self._loop.call_soon_threadsafe(self._closing.set)
        _, waiting = await asyncio.wait([asyncio.wrap_future(self._ended)], timeout=ENDED_WITHIN)
        if waiting:
            _log.warning("The durable engine did not end within %g s and is left behind.", ENDED_WITHIN)

    # In the thread

    def _main(self) -> None:
        try:
            self._loop.run_until_complete(self._live())
        except Exception as failure:  # noqa: BLE001 - it goes to whoever waits, or into the log
            self._leave()
            if self._launched.done():
                _log.exception("The durable engine ended.")
            else:
                self._launched.set_exception(failure)
        else:
            self._leave()

    def _leave(self) -> None:
        """Whoever hears that this has ended may start the next one."""
        self._loop.close()
        self._workflows.leave()
        self._ended.set_result(None)

    async def _live(self) -> None:
        dbos_log.speak()
        config = dbos_config(self._database, executor=self._executor, version=self._version)
        DBOS(config=config)
        if DBOS.executor_id != self._executor:
            raise SettingsError(
                "DBOS is in use in this process by other code, and there can be only one. Destroy it first,"
                " or use `memory:` as the store."
            )
        try:
            DBOS.launch()
            await DBOS.register_queue_async(QUEUE, polling_interval_sec=QUEUE_POLL)
            self._launched.set_result(None)
            await self._serve()
        finally:
            DBOS.destroy()
            if engine := config.get("system_database_engine"):
                engine.dispose()

    async def _serve(self) -> None:
        """Until we close. Then all on this loop is cancelled, and DBOS leaves such workflows unfinished."""
        forgetting = asyncio.create_task(self._workflows.forget_ended())
        await self._closing.wait()
        tasks = {forgetting, *asyncio.all_tasks()} - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks, timeout=CANCELLED_WITHIN)
