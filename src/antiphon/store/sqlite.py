"""SQLite: the store of one machine, in a file or in memory."""

import asyncio
import logging
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, TypeVar

from antiphon.errors import StoreFull, StoreUnavailable
from antiphon.store import sqlite_file
from antiphon.store.database import Script
from antiphon.store.migrations import Migration, load_migrations
from antiphon.store.sqlite_writer import MAX_BATCH_SCRIPTS, Job, SqliteWriter
from antiphon.store.statements import Dialect, load_statements

T = TypeVar("T")

logger = logging.getLogger(__name__)

PROBE_SECONDS = 1.0
"""After a failed write, `check` lets one request per this many seconds through, to try the disk again."""


class SqliteDatabase:
    """Runs writing scripts in one thread and reading scripts in another. Create one with `open`.

    A write that has begun is completed even if its caller is cancelled.
    """

    def __init__(
        self, path: Path | None, writer: sqlite3.Connection, reader: sqlite3.Connection | None
    ) -> None:
        self._path = path
        self._trouble: StoreUnavailable | StoreFull | None = None
        self._probe_at = 0.0
        self._closed = False
        self._loop = loop = asyncio.get_running_loop()
        statements = load_statements("sqlite")
        self._writer = SqliteWriter(
            writer, statements, "BEGIN IMMEDIATE", self._written, loop, max_batch=MAX_BATCH_SCRIPTS
        )
        # A read has no commit to share, so it does not wait for those after it. A database in memory belongs
        # to its one connection.
        self._reader = (
            SqliteWriter(reader, statements, "BEGIN", _resolve_waiters, loop, max_batch=1)
            if reader
            else self._writer
        )

    @staticmethod
    async def open(path: Path | None, *, migrate: bool = True) -> "SqliteDatabase":
        """Open the file, or create it. Without a path the database is in memory.

        Raises `SettingsError` if the file cannot be opened.
        """
        writer, reader = await asyncio.to_thread(_open, path, migrate=migrate)
        return SqliteDatabase(path, writer, reader)

    @property
    def dialect(self) -> Dialect:
        """SQLite."""
        return "sqlite"

    async def read(self, script: Script[T]) -> T:
        """Run a script that only reads, on one consistent state."""
        return await self._run(self._reader, script, durable=False)

    async def write(self, script: Script[T], *, durable: bool = True, large: bool = False) -> T:
        """Run a script as one transaction."""
        return await self._run(self._writer, script, durable=durable, large=large)

    async def check(self) -> None:
        """Raise at once while writes fail, except once per `PROBE_SECONDS`."""
        if self._trouble is None:
            return
        if self._loop.time() < self._probe_at:
            raise type(self._trouble)(self._trouble.message)
        self._probe_at = self._loop.time() + PROBE_SECONDS

    async def aclose(self) -> None:
        """Run the queued scripts, then close the file."""
        if self._closed:
            return
        self._closed = True
        await asyncio.to_thread(self._reader.finish)
        if self._writer is not self._reader:
            await asyncio.to_thread(self._writer.finish)

    # For the operator

    async def migration_status(self) -> list[tuple[Migration, bool]]:
        """Every known migration, and whether it is applied."""
        if self._path is None:
            return [(migration, True) for migration in load_migrations("sqlite")]
        return await self._on_own_connection(sqlite_file.migration_status)

    async def migrate(self) -> list[Migration]:
        """Apply the missing migrations and return them."""
        path = self._path
        if path is None:
            return []
        return await self._on_own_connection(lambda connection: sqlite_file.migrate(connection, path))

    async def vacuum(self) -> None:
        """Return the space of erased rows to the file system."""
        if self._path is not None:
            await self._on_own_connection(sqlite_file.vacuum)

    async def shrink(self) -> bool:
        """Return some unused space to the file system; whether there is more."""
        return self._path is not None and await self._on_own_connection(sqlite_file.shrink)

    async def size(self) -> int:
        """Bytes on disk; 0 for a database in memory."""
        if self._path is None:
            return 0
        files = [Path(f"{self._path}{suffix}") for suffix in ("", *sqlite_file.SIDE_FILES)]
        return sum(file.stat().st_size for file in files if file.exists())

    async def _on_own_connection(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Call `work` with a new connection; the reader and the writer are not blocked."""

        def run() -> T:
            with closing(sqlite_file.connect(self._path)) as connection:
                try:
                    return work(connection)
                except sqlite3.Error as error:
                    message = f"The database at {self._path} cannot be used: {error}."
                    raise StoreUnavailable(message) from error

        return await asyncio.to_thread(run)

    # How a script is run

    async def _run(self, thread: SqliteWriter, script: Script[T], *, durable: bool, large: bool = False) -> T:
        if self._closed:
            raise StoreUnavailable("The database is closed.")
        waiter: asyncio.Future[Any] = self._loop.create_future()
        thread.put(Job(script, waiter, durable=durable, large=large))
        return await waiter

    def _written(self, batch: Sequence[Job]) -> None:
        error = batch[-1].error
        if isinstance(error, StoreUnavailable | StoreFull):
            if self._trouble is None:
                logger.warning("nothing can be stored: %s", error.message)
            self._trouble, self._probe_at = error, self._loop.time() + PROBE_SECONDS
        elif self._trouble is not None:
            self._trouble = None
            logger.warning("the database can be written again")
        _resolve_waiters(batch)


def _open(path: Path | None, *, migrate: bool) -> tuple[sqlite3.Connection, sqlite3.Connection | None]:
    writer = sqlite_file.connect(path)
    try:
        if migrate or path is None:
            sqlite_file.migrate(writer, path)
        return writer, None if path is None else sqlite_file.connect(path)
    except BaseException:
        writer.close()
        raise


def _resolve_waiters(batch: Sequence[Job]) -> None:
    for job in batch:
        if job.waiter.done():
            continue  # cancelled meanwhile
        if job.error is None:
            job.waiter.set_result(job.result)
        else:
            job.waiter.set_exception(job.error)
