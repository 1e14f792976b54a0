"""The file of a SQLite database: open, migrate and shrink it. Every function here blocks."""

import sqlite3
import stat
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from antiphon.errors import SettingsError
from antiphon.store.migrations import Migration, load_migrations, pending
from antiphon.store.statements import load_statements
from antiphon.store.steady_clock import steady_now

BUSY_TIMEOUT_SECONDS = 5.0
"""How long to wait for another process that is writing."""
CHECKPOINT_PAGES = 700
"""Size of the write-ahead log, in pages, at which it is copied into the database. A higher value is a little
faster and makes the log bigger; with this one it stays near 3 MB."""
SIDE_FILES = ("-wal", "-shm", "-journal")
MAX_FREE_PAGES = 1000
"""Unused pages that stay in the file, because new rows need them soon."""
SHRINK_PAGES = 200
"""Pages that are returned to the file system in one transaction, for which other writers wait: 7 ms, seldom
100 ms."""
_RETRY_SECONDS = 0.05
_INCREMENTAL = 2


def connect(path: Path | None) -> sqlite3.Connection:
    """A connection without implicit transactions. Without a path it opens a new database in memory."""
    try:
        if path is not None:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            path.touch(mode=0o600)  # it holds conversations; SQLite gives its log the same mode
        connection = sqlite3.connect(
            path or ":memory:",
            timeout=BUSY_TIMEOUT_SECONDS,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=256,
        )
        # Deterministic, here: the same throughout a statement, so that an index can be searched for it.
        connection.create_function("steady_now", 0, steady_now, deterministic=True)
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")  # has an effect on a new file only
        _use_write_ahead_log(connection)
        if path is not None:
            _protect_side_files(path)
        connection.execute("PRAGMA temp_store = MEMORY")  # else every savepoint writes to a file
        connection.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
    except (OSError, sqlite3.Error) as error:
        raise _unusable(path, error) from error
    return connection


def _protect_side_files(path: Path) -> None:
    """Give the files beside the database its mode. SQLite does so when it creates them; they may be left by
    another program or a copy."""
    mode = stat.S_IMODE(path.stat().st_mode)
    for side in (path.with_name(path.name + suffix) for suffix in SIDE_FILES):
        with suppress(OSError):
            if stat.S_IMODE(side.stat().st_mode) != mode:
                side.chmod(mode)


def _use_write_ahead_log(connection: sqlite3.Connection) -> None:
    """Switch to WAL. SQLite's busy timeout does not apply to this statement, so it is repeated here."""
    for _ in range(int(BUSY_TIMEOUT_SECONDS / _RETRY_SECONDS)):
        try:
            connection.execute("PRAGMA journal_mode = WAL").fetchall()
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY:
                raise
        time.sleep(_RETRY_SECONDS)
    connection.execute("PRAGMA journal_mode = WAL")


def migrate(connection: sqlite3.Connection, path: Path | None) -> list[Migration]:
    """Apply the missing migrations in one transaction and return them. Other processes wait meanwhile."""
    statements = load_statements("sqlite")
    try:
        connection.execute("BEGIN IMMEDIATE")
        try:
            connection.execute(statements["create_migrations_table"])
            missing = pending(load_migrations("sqlite"), _applied(connection))
            for migration in missing:
                for statement in _split(migration.sql):
                    connection.execute(statement)
                connection.execute(
                    statements["record_migration"], (migration.version, migration.name, migration.checksum)
                )
            connection.execute("COMMIT")
        finally:
            if connection.in_transaction:
                connection.rollback()
    except sqlite3.Error as error:
        raise _unusable(path, error) from error
    return missing


def migration_status(connection: sqlite3.Connection) -> list[tuple[Migration, bool]]:
    """Every known migration, and whether it is applied."""
    known = load_migrations("sqlite")
    missing = pending(known, _applied(connection))
    return [(migration, migration not in missing) for migration in known]


def vacuum(connection: sqlite3.Connection) -> None:
    """Return the space of erased rows to the file system. An older file can shrink by itself from now on."""
    connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
    connection.execute("VACUUM")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def shrink(connection: sqlite3.Connection) -> bool:
    """Return some unused pages to the file system; whether there are more."""
    [[automatic]] = connection.execute("PRAGMA auto_vacuum").fetchall()
    [[free]] = connection.execute("PRAGMA freelist_count").fetchall()
    if automatic != _INCREMENTAL or free <= MAX_FREE_PAGES:
        return False
    # `execute` would stop after the first page: the statement has no columns, so it is not read to its end.
    connection.executescript(f"PRAGMA incremental_vacuum({SHRINK_PAGES})")
    return free - SHRINK_PAGES > MAX_FREE_PAGES


def _applied(connection: sqlite3.Connection) -> list[tuple[int, str]]:
    tables = "SELECT 1 FROM sqlite_schema WHERE name = 'schema_migrations'"
    if not connection.execute(tables).fetchall():
        return []
    return connection.execute(load_statements("sqlite")["applied_migrations"]).fetchall()


def _split(sql: str) -> Iterator[str]:
    """The statements of a file. `executescript` is not used, because it commits first."""
    statement = ""
    for line in sql.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


def _unusable(path: Path | None, error: Exception) -> SettingsError:
    reason = error.strerror if isinstance(error, OSError) else str(error)
    return SettingsError(
        f"Cannot keep the database at {path}: {reason}. "
        "Make its folder writable, or name another place with store.url."
    )
