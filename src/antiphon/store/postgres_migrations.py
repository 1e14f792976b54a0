"""Migrations of a PostgreSQL database: one transaction each, in one process at a time."""

from collections.abc import Sequence

from antiphon.store.migrations import Migration, load_migrations, pending
from antiphon.store.postgres_client import Connection
from antiphon.store.statements import load_statements

_LOCK_ID = 0x616E7469  # "anti": a number that other programs are unlikely to use


async def migration_status(connection: Connection) -> list[tuple[Migration, bool]]:
    """Every known migration, and whether it is applied. Raises `SettingsError` for a newer database."""
    known = load_migrations("postgres")
    missing = pending(known, await _applied(connection))
    return [(migration, migration not in missing) for migration in known]


async def migrate(connection: Connection) -> list[Migration]:
    """Apply the missing migrations and return them.

    Other processes that migrate at the same time wait until this connection is closed, and apply nothing.
    """
    await connection.execute("SELECT pg_advisory_lock($1)", _LOCK_ID)
    missing = pending(load_migrations("postgres"), await _applied(connection))
    for migration in missing:
        await _apply(connection, migration)
    return missing


async def _applied(connection: Connection) -> Sequence[tuple[int, str]]:
    if await connection.fetchval("SELECT to_regclass('schema_migrations') IS NULL"):
        return []
    rows = await connection.fetch(load_statements("postgres")["applied_migrations"])
    return [(version, checksum) for version, checksum in rows]


async def _apply(connection: Connection, migration: Migration) -> None:
    statements = load_statements("postgres")
    await connection.execute("BEGIN")
    await connection.execute(statements["create_migrations_table"])
    await connection.execute(migration.sql)
    await connection.execute(
        statements["record_migration"], migration.version, migration.name, migration.checksum
    )
    await connection.execute("COMMIT")
