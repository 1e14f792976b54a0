"""The durable engine: DBOS remembers what was submitted, tasks of the server's event loop do it.

DBOS starts with the first submission, not with the server: it costs a second or two and 60 MB.
"""

import asyncio
import importlib
from typing import TYPE_CHECKING

from antiphon.errors import StoreUnavailable, Unavailable, Unsupported
from antiphon.runs import dbos_log
from antiphon.runs.base import Work
from antiphon.runs.tasks import FIRST_PAUSE, TaskEngine

if TYPE_CHECKING:
    from antiphon.runs.dbos_thread import DbosThread

APPLICATION_VERSION = "antiphon-1"
"""Pinned: DBOS leaves runs of other versions alone, and by default every edit of the code makes a version."""

SUBMITTED_WITHIN = 15.0


class DbosEngine:
    """Work that survives the process, on a database that DBOS keeps for itself.

    `database` is a PostgreSQL URL, or the path of an SQLite file that only this process uses.
    """

    def __init__(
        self,
        database: str,
        work: Work,
        *,
        owner: str,
        application_version: str = APPLICATION_VERSION,
        first_pause: float = FIRST_PAUSE,
    ) -> None:
        self._database = database
        self._version = application_version
        self._tasks = TaskEngine(work, owner=owner, first_pause=first_pause)
        self._starting: asyncio.Task[DbosThread] | None = None
        self._closed = False

    @property
    def owner(self) -> str:
        """The name of this process: what DBOS calls an executor."""
        return self._tasks.owner

    async def submit(self, tenant: str, response_id: str) -> None:
        """Have DBOS start a response, or take it up again if it was left behind."""
        if self._tasks.runs(tenant, response_id):
            return
        if self._starting is None and not self._closed:
            await asyncio.to_thread(_import_dbos)
        if self._closed:
            raise Unavailable
        try:
            async with asyncio.timeout(SUBMITTED_WITHIN):
                thread = await self._started()
                await thread.submit(tenant, response_id)
        except TimeoutError:
            # The database does not answer. Half a start is no harm: it is taken for left behind and resumed.
            raise StoreUnavailable from None

    async def stop(self, tenant: str, response_id: str) -> None:
        """Cancel work on a response that is done here; its workflow ends with it."""
        await self._tasks.stop(tenant, response_id)

    async def aclose(self) -> None:
        """Cancel all work and let DBOS go. Its workflows stay unfinished: they can be taken up again."""
        self._closed = True
        if self._starting is None:
            return
        self._starting.cancel()  # if it is still under way
        await asyncio.wait([self._starting])
        if self._starting.cancelled() or self._starting.exception() is not None:
            return
        dbos_log.hush()
        await self._tasks.aclose()
        await self._starting.result().aclose()

    async def _started(self) -> "DbosThread":
        """The thread of DBOS; whoever needs it first starts it. A failed start is not remembered."""
        if self._starting is None or (self._starting.done() and self._starting.exception() is not None):
            self._starting = asyncio.create_task(self._start())
        starting = self._starting
        await asyncio.wait([starting])
        if self._closed:
            raise Unavailable
        return starting.result()

    async def _start(self) -> "DbosThread":
        from antiphon.runs.dbos_thread import DbosThread  # noqa: PLC0415 - see `_import_dbos`

        thread = DbosThread(self._tasks.run, self._database, executor=self.owner, version=self._version)
        await thread.start()
        return thread


def _import_dbos() -> None:
    """The first time it takes up to some seconds, so it is done in a thread, and under no deadline."""
    try:
        importlib.import_module("antiphon.runs.dbos_thread")
    except ModuleNotFoundError as error:
        raise Unsupported(
            "`background` needs the durable engine: run `pip install 'antiphon[background]'` on the server,"
            " or serve with `--store memory:`.",
            param="background",
        ) from error
