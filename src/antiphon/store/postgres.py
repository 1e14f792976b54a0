"""PostgreSQL: the store of several processes.

The connection that carries signals detects an outage first (see `postgres_signals`). During an outage there
is no pool, and every call fails at once; after it a new pool is created.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any, TypeVar

from antiphon.errors import StoreFull, StoreUnavailable
from antiphon.store import postgres_migrations
from antiphon.store.database import Script
from antiphon.store.migrations import Migration
from antiphon.store.postgres_client import (
    ANSWER_TIMEOUT_SECONDS,
    FAILURES,
    Address,
    Connection,
    Contended,
    Pool,
    error_for_caller,
    error_for_operator,
)
from antiphon.store.postgres_signals import PostgresSignals
from antiphon.store.statements import Dialect, load_statements

T = TypeVar("T")

logger = logging.getLogger(__name__)

FAILURE_SECONDS = 1.0
"""How long `check` raises after a call has failed."""

# Every statement reads a few ranges of an index. The planner overestimates their size where chains are long,
# and would scan complete tables.
_INDEXES_ONLY = (
    "SET LOCAL enable_seqscan = off; SET LOCAL enable_hashjoin = off; SET LOCAL enable_mergejoin = off; "
    "SET LOCAL jit = off"
)
_READ = f"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; {_INDEXES_ONLY}"
_WRITE = f"BEGIN ISOLATION LEVEL READ COMMITTED; {_INDEXES_ONLY}"
_WRITE_NOT_DURABLE = f"{_WRITE}; SET LOCAL synchronous_commit = off"

_SYMBOL_FOR_NUL = "\u2400"


class PostgresDatabase:
    """Runs scripts on a pool of connections. Create one with `open`."""

    def __init__(self, address: Address, statements: Mapping[str, str]) -> None:
        self._address = address
        self._statements = statements
        self._pool: Pool | None = None
        self._refused: StoreUnavailable | StoreFull | None = None
        self._refused_at = 0.0
        self._signals = PostgresSignals(connect=address.connect, lost=self._lost, found=self._found)

    @staticmethod
    async def open(url: str, *, migrate: bool = True) -> "PostgresDatabase":
        """Connect and migrate. Raises `SettingsError` if the URL is wrong."""
        database = PostgresDatabase(Address.parse(url), load_statements("postgres"))
        if migrate:
            await database.migrate()
        with _operator_errors():
            await database._signals.start()
            database._pool = await database._address.pool()
        return database

    @property
    def dialect(self) -> Dialect:
        """PostgreSQL."""
        return "postgres"

    @property
    def url(self) -> str:
        """The URL without Antiphon's own settings, as other PostgreSQL clients accept it."""
        return self._address.url

    @property
    def signals(self) -> PostgresSignals:
        """Signals to all processes that use this database."""
        return self._signals

    async def read(self, script: Script[T]) -> T:
        """Run a script that only reads, on one consistent state."""
        return await self._run(script, _READ)

    async def write(self, script: Script[T], *, durable: bool = True, large: bool = False) -> T:
        """Run a script as one transaction, beside those of other connections."""
        del large
        result = await self._run(script, _WRITE if durable else _WRITE_NOT_DURABLE)
        self._refused = None
        return result

    async def check(self) -> None:
        """Raise at once during an outage, and for `FAILURE_SECONDS` after a failed call."""
        if self._pool is None:
            raise StoreUnavailable()
        if self._refused is not None and _now() < self._refused_at + FAILURE_SECONDS:
            raise type(self._refused)()

    async def aclose(self) -> None:
        """Close all connections."""
        await self._signals.aclose()
        pool, self._pool = self._pool, None
        if pool is not None:
            with suppress(*FAILURES):
                async with asyncio.timeout(ANSWER_TIMEOUT_SECONDS):
                    await pool.close()

    # For the operator

    async def migration_status(self) -> list[tuple[Migration, bool]]:
        """Every known migration, and whether it is applied."""
        async with self._own_connection() as connection:
            return await postgres_migrations.migration_status(connection)

    async def migrate(self) -> list[Migration]:
        """Apply the missing migrations and return them."""
        async with self._own_connection() as connection:
            return await postgres_migrations.migrate(connection)

    async def vacuum(self) -> None:
        """Reclaim the space of erased rows and refresh the planner's statistics. It blocks no other query."""
        async with self._own_connection() as connection:
            await connection.execute("VACUUM (ANALYZE)")

    async def shrink(self) -> bool:
        """False: PostgreSQL reuses the space of erased rows by itself."""
        return False

    async def size(self) -> int:
        """Bytes on disk, indexes included."""
        async with self._own_connection() as connection:
            return await connection.fetchval("SELECT pg_database_size(current_database())")

    # How a script is run

    async def _run(self, script: Script[T], begin: str) -> T:
        if self._pool is None:
            raise StoreUnavailable()
        try:
            async with _transaction(self._pool, begin) as connection:
                return await self._drive(connection, script)
        except FAILURES as error:
            refused = error_for_caller(error)
            if refused is None:
                raise
            self._remember(refused)
            raise refused from error

    async def _drive(self, connection: Connection, script: Script[T]) -> T:
        try:
            statement = next(script)
            while True:
                sql = self._statements[statement.name]
                rows: Sequence[Any] = ()
                if statement.many:
                    await connection.executemany(sql, [_storable(args) for args in statement.args])
                else:
                    rows = await connection.fetch(sql, *_storable(statement.args))
                statement = script.send(rows)
        except StopIteration as end:
            return end.value

    @asynccontextmanager
    async def _own_connection(self) -> AsyncGenerator[Connection, None]:
        """A connection whose statements have no timeout."""
        with _operator_errors():
            connection = await self._address.connect()
            try:
                yield connection
            finally:
                connection.terminate()

    # Outages

    def _lost(self, error: Exception) -> None:
        logger.warning("The database does not respond (%s). Reconnecting until it does.", error)
        if self._pool is not None:
            self._pool.terminate()
            self._pool = None

    async def _found(self) -> None:
        self._pool = await self._address.pool()
        self._refused = None
        logger.warning("The database responds again.")

    def _remember(self, refused: StoreUnavailable | StoreFull) -> None:
        if not isinstance(refused, Contended):
            self._refused, self._refused_at = refused, _now()


@asynccontextmanager
async def _transaction(pool: Pool, begin: str) -> AsyncGenerator[Connection, None]:
    """A transaction on a connection of the pool. An exception in the block rolls it back."""
    connection = await _begin(pool, begin)
    try:
        yield connection
        await connection.execute("COMMIT")
    except (*FAILURES, asyncio.CancelledError):
        connection.terminate()  # its state is unknown
        raise
    except BaseException:
        await connection.execute("ROLLBACK")
        raise
    finally:
        await pool.release(connection)


@contextmanager
def _operator_errors() -> Generator[None, None, None]:
    try:
        yield
    except FAILURES as error:
        refused = error_for_operator(error)
        if refused is None:
            raise
        raise refused from error


async def _begin(pool: Pool, begin: str) -> Connection:
    """A connection in a transaction. A pooled connection that broke while idle is replaced once."""
    try:
        return await _try_to_begin(pool, begin)
    except TimeoutError:
        raise
    except FAILURES:
        return await _try_to_begin(pool, begin)


async def _try_to_begin(pool: Pool, begin: str) -> Connection:
    connection = await pool.acquire(timeout=ANSWER_TIMEOUT_SECONDS)
    try:
        await connection.execute(begin)
    except BaseException:
        connection.terminate()
        raise
    return connection


def _storable(args: Sequence[Any]) -> Sequence[Any]:
    """Replace U+0000, which PostgreSQL's text cannot hold. JSON escapes it, so it occurs in ids only."""
    return [
        arg.replace("\0", _SYMBOL_FOR_NUL) if isinstance(arg, str) and "\0" in arg else arg for arg in args
    ]


def _now() -> float:
    return asyncio.get_running_loop().time()
