"""Migrations of a PostgreSQL database: one transaction each, in one process at a time."""

import logging
from collections.abc import Sequence

from antiphon.store.migrations import Migration, load_migrations, pending
from antiphon.store.postgres_client import FAILURES, Connection
from antiphon.store.statements import INDEXED_DIMENSIONS, load_statements

logger = logging.getLogger(__name__)

_VECTOR_TABLE = """
CREATE TABLE IF NOT EXISTS chunk_vectors (
    number bigint PRIMARY KEY, file bigint NOT NULL, vector vector NOT NULL
);
CREATE INDEX IF NOT EXISTS chunk_vectors_by_file ON chunk_vectors (file, number);
ALTER TABLE chunk_vectors ADD COLUMN in_graph boolean NOT NULL DEFAULT false;
CREATE INDEX chunk_vectors_outside_graph ON chunk_vectors (number) WHERE NOT in_graph;
"""
_VECTOR_INDEX = """
DROP INDEX IF EXISTS chunk_vectors_{dimensions};
CREATE INDEX chunk_graph_{dimensions} ON chunk_vectors
USING hnsw ((vector::vector({dimensions})) vector_ip_ops) WITH (ef_construction = 32)
WHERE in_graph AND vector_dims(vector) = {dimensions}
"""
_HAS_VECTOR_TABLE = """
SELECT EXISTS (
    SELECT FROM pg_attribute WHERE attrelid = to_regclass('chunk_vectors') AND attname = 'in_graph'
)
"""
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
    await _create_vectors(connection)
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


async def _create_vectors(connection: Connection) -> None:
    """Create the table of vectors if the database can hold them: its extension may be installed at any time.

    Stores differ in the dimensions of their vectors, so the indexes are partial. A missing extension is no
    error: all else works, and calls of vector stores say what is missing (`postgres_vectors.py`). The first
    form of the table had all vectors in the graph; its rows are outside of it from now on.
    """
    if await connection.fetchval(_HAS_VECTOR_TABLE):
        return
    await connection.execute("BEGIN")
    try:
        await connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
        await connection.execute(_VECTOR_TABLE)
        for dimensions in INDEXED_DIMENSIONS:
            await connection.execute(_VECTOR_INDEX.format(dimensions=dimensions))
        await connection.execute("COMMIT")
    except FAILURES as error:
        await connection.execute("ROLLBACK")
        logger.info("PostgreSQL keeps no vectors: %s", error)
