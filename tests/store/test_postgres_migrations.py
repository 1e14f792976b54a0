"""Migrations on PostgreSQL: once, in order, and never backwards."""

import asyncio
import re

import pytest

from antiphon.errors import SettingsError
from antiphon.store import postgres_migrations
from antiphon.store.migrations import Migration, load_migrations
from antiphon.store.postgres import PostgresDatabase
from antiphon.store.postgres_client import Address
from antiphon.store.statements import Dialect, load_statements
from tests.postgres import PostgresServer

slow = pytest.mark.slow


def tables_of(dialect: Dialect) -> list[str]:
    """The tables of the migrations, without comments, in PostgreSQL's spelling."""
    text = "".join(migration.sql for migration in load_migrations(dialect))
    text = re.sub(r"--.*", "", text).replace("WITHOUT ROWID", "")
    for ours, theirs in (("integer", "bigint"), ("real", "double precision"), ("blob", "bytea")):
        text = re.sub(rf"\b{ours}\b", theirs, text)
    statements = [re.sub(r"\s+", "", statement) for statement in text.split(";")]
    return [statement for statement in statements if statement.startswith("CREATE")]


def test_both_databases_have_the_same_tables_and_indexes() -> None:
    assert tables_of("postgres") == tables_of("sqlite")


@slow
async def test_every_statement_is_valid(postgres: PostgresServer) -> None:
    with postgres.database() as url:
        await (await PostgresDatabase.open(url)).aclose()
        connection = await Address.parse(url).connect()
        for name, sql in load_statements("postgres").items():
            if name == "create_migrations_table":
                continue  # cannot be prepared; every other test runs it
            await connection.execute(f"PREPARE {name} AS {sql}")
        connection.terminate()


@slow
async def test_processes_that_start_at_the_same_time_migrate_once(postgres: PostgresServer) -> None:
    with postgres.database() as url:
        opened = await asyncio.gather(*(PostgresDatabase.open(url) for _ in range(4)))
        assert all(done for _, done in await opened[0].migration_status())
        assert await opened[0].migrate() == []
        await asyncio.gather(*(database.aclose() for database in opened))


@slow
async def test_without_migrating_an_empty_database_is_only_looked_at(postgres: PostgresServer) -> None:
    with postgres.database() as url:
        database = await PostgresDatabase.open(url, migrate=False)
        known = load_migrations("postgres")
        assert await database.migration_status() == [(migration, False) for migration in known]
        assert await database.migrate() == known
        await database.aclose()


@slow
async def test_a_newer_database_is_rejected(postgres: PostgresServer) -> None:
    with postgres.database() as url:
        await (await PostgresDatabase.open(url)).aclose()
        postgres.execute("INSERT INTO schema_migrations VALUES (9999, 'later', 'x', 0)", url)
        with pytest.raises(SettingsError, match="9999"):
            await PostgresDatabase.open(url)


@slow
async def test_a_failed_migration_is_rolled_back(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, *_ = load_migrations("postgres")
    broken = Migration(2, "broken", "CREATE TABLE half (a text); DROP TABLE schema_migrations", "sum")

    def load(_dialect: Dialect) -> list[Migration]:
        return [first, broken]

    monkeypatch.setattr(postgres_migrations, "load_migrations", load)
    with postgres.database() as url:
        with pytest.raises(Exception, match='"schema_migrations" does not exist'):
            await PostgresDatabase.open(url)
        assert postgres.execute("SELECT to_regclass('half') IS NULL", url) == "t"
        assert postgres.execute("SELECT version FROM schema_migrations", url) == "1"
