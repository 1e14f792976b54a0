"""One thread with one connection to SQLite: it runs all queued scripts as one transaction.

A commit waits for the disk. Scripts that arrive during a commit share the next one. A large script has a
transaction of its own, after those that wait: nobody waits for more than one of them.
"""

import sqlite3
import threading
from asyncio import AbstractEventLoop, Future
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any

from antiphon.errors import AntiphonError, StoreFull, StoreUnavailable
from antiphon.store.database import Script
from antiphon.thread_priority import let_event_loop_go_first

MAX_BATCH_SCRIPTS = 256
"""The most scripts in one commit: it bounds how long the first of them waits for it."""

_BUG_CODES = frozenset(
    {
        sqlite3.SQLITE_ERROR,
        sqlite3.SQLITE_CONSTRAINT,
        sqlite3.SQLITE_MISMATCH,
        sqlite3.SQLITE_MISUSE,
        sqlite3.SQLITE_RANGE,
    }
)


class Job:
    """A script, the future that waits for it, and its result or error."""

    __slots__ = ("durable", "error", "large", "result", "script", "waiter")

    def __init__(self, script: Script[Any], waiter: "Future[Any]", *, durable: bool, large: bool) -> None:
        self.script = script
        self.durable = durable
        self.large = large
        self.waiter = waiter
        self.result: Any = None
        self.error: BaseException | None = None


class SqliteWriter:
    """Runs jobs in the order of `put`, large ones after others. It calls `on_batch` in the event loop after
    every batch of at most `max_batch` jobs."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        statements: Mapping[str, str],
        begin: str,
        on_batch: Callable[[Sequence[Job]], None],
        loop: AbstractEventLoop,
        *,
        max_batch: int,
    ) -> None:
        self._connection = connection
        self._cursor = connection.cursor()
        self._statements = statements
        self._begin = begin
        self._on_batch = on_batch
        self._max_batch = max_batch
        self._loop = loop
        self._synced = ""
        self._queue: SimpleQueue[Job | None] = SimpleQueue()
        self._postponed: deque[Job] = deque()
        self._closing = False
        # A daemon, so that the process exits even if the database was not closed. Saved rows are committed.
        self._thread = threading.Thread(target=self._work, name="antiphon-sqlite", daemon=True)
        self._thread.start()

    def put(self, job: Job) -> None:
        """Run a job as soon as possible."""
        self._queue.put(job)

    def finish(self) -> None:
        """Run the queued jobs, then close the connection. Blocks."""
        self._queue.put(None)
        self._thread.join()

    def _work(self) -> None:
        let_event_loop_go_first()
        while not self._closing:
            self._run_and_report(self._next_batch())
            if self._postponed:
                self._run_and_report([self._postponed.popleft()])
        while self._postponed:
            self._run_and_report([self._postponed.popleft()])
        self._connection.close()

    def _next_batch(self) -> list[Job]:
        """All queued jobs, except large ones, which are postponed. Waits if there is nothing to do."""
        batch: list[Job] = []
        while len(batch) < self._max_batch:
            try:
                job = self._queue.get(block=not (batch or self._postponed))
            except Empty:
                break
            if job is None:
                self._closing = True
                break
            (self._postponed if job.large else batch).append(job)
        return batch

    def _run_and_report(self, batch: list[Job]) -> None:
        if batch:
            self._run(batch)
            with suppress(RuntimeError):  # the loop is closed, so nobody waits for the results
                self._loop.call_soon_threadsafe(self._on_batch, batch)

    def _run(self, batch: Sequence[Job]) -> None:
        try:
            self._sync("FULL" if any(job.durable for job in batch) else "NORMAL")
            self._cursor.execute(self._begin)
            for job in batch:
                self._attempt(job)
            self._cursor.execute("COMMIT")
        except sqlite3.Error as error:
            for job in batch:
                job.error = error_for_caller(error)
            if self._connection.in_transaction:
                self._connection.rollback()

    def _sync(self, mode: str) -> None:
        if mode != self._synced:
            self._cursor.execute(f"PRAGMA synchronous = {mode}")
            self._synced = mode

    def _attempt(self, job: Job) -> None:
        """Run one script. If it raises, only its own writes are rolled back."""
        execute = self._cursor.execute
        execute("SAVEPOINT script")
        try:
            job.result = self._drive(job.script)
        except Exception as error:
            if not self._connection.in_transaction:
                raise  # SQLite has rolled back the complete transaction
            job.error = error_for_caller(error) if isinstance(error, sqlite3.Error) else error
            execute("ROLLBACK TO script")
        execute("RELEASE script")

    def _drive(self, script: Script[Any]) -> Any:
        statements, cursor = self._statements, self._cursor
        try:
            statement = next(script)
            while True:
                if statement.many:
                    rows = cursor.executemany(statements[statement.name], statement.args).fetchall()
                else:
                    rows = cursor.execute(statements[statement.name], statement.args).fetchall()
                statement = script.send(rows)
        except StopIteration as end:
            return end.value


def error_for_caller(error: sqlite3.Error) -> AntiphonError | sqlite3.Error:
    """`StoreFull` or `StoreUnavailable`; an error that only a bug can cause is returned unchanged."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_MISUSE) & 0xFF
    if code == sqlite3.SQLITE_FULL:
        return StoreFull()
    if code in _BUG_CODES:
        return error
    return StoreUnavailable(f"The database cannot be used right now ({error}). Try again in a moment.")
