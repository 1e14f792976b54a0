"""The store contract, run on every database."""

import asyncio
import sqlite3
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from antiphon.store import sqlite_file
from antiphon.store.agent_runs import AgentRunStore
from antiphon.store.database import Database
from antiphon.store.ports import Stores
from antiphon.store.postgres import PostgresDatabase
from antiphon.store.signals import LocalSignals
from antiphon.store.sql_stores import SqlAgentRuns, sql_stores
from antiphon.store.sqlite import SqliteDatabase
from tests.postgres import PostgresServer

TABLES = (
    "chains, responses, items, conversations, events, traces, owners, api_keys, seal_key, agent_runs, "
    "agent_events, approvals, jobs"
)
FILE_TABLES = "blobs, files, uploads, upload_parts, unreferenced_objects, file_usage, object_pieces"
VECTOR_TABLES = (
    "vector_stores, vector_store_files, vector_file_batches, vector_usage, chunk_sets, chunk_portions, chunks, "
    "chunk_vectors"
)
CountRows = Callable[[str], Awaitable[int]]


class Clock:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Opened:
    """A database under test, with direct access to its tables."""

    database: Database
    count_rows: CountRows


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def connections(monkeypatch: pytest.MonkeyPatch) -> list[sqlite3.Connection]:
    """The connections of every opened SQLite database; the writer's is the first one."""
    opened_connections: list[sqlite3.Connection] = []
    connect = sqlite_file.connect

    def remembered(path: Path | None) -> sqlite3.Connection:
        opened_connections.append(connect(path))
        return opened_connections[-1]

    monkeypatch.setattr(sqlite_file, "connect", remembered)
    return opened_connections


@asynccontextmanager
async def opened_sqlite(
    path: Path | None, connections: list[sqlite3.Connection]
) -> AsyncGenerator[Opened, None]:
    database = await SqliteDatabase.open(path)

    async def count_rows(table: str) -> int:
        return connections[0].execute(f"SELECT count(*) FROM {table}").fetchone()[0]

    yield Opened(database, count_rows)
    await database.aclose()


@pytest.fixture(scope="session")
def postgres_url(postgres: PostgresServer) -> Iterator[str]:
    """One database for the complete contract: creating one takes longer than most of the tests."""
    with postgres.database() as url:
        yield url


@asynccontextmanager
async def opened_postgres(server: PostgresServer, url: str) -> AsyncGenerator[Opened, None]:
    database = await PostgresDatabase.open(url)

    async def count_rows(table: str) -> int:
        return int(await asyncio.to_thread(server.execute, f"SELECT count(*) FROM {table}", url))

    server.execute(f"TRUNCATE {TABLES}, {FILE_TABLES}, {VECTOR_TABLES}", url)
    yield Opened(database, count_rows)
    await database.aclose()


@pytest.fixture(params=["memory", "sqlite", pytest.param("postgres", marks=pytest.mark.slow)])
async def opened(
    request: pytest.FixtureRequest, tmp_path: Path, connections: list[sqlite3.Connection]
) -> AsyncIterator[Opened]:
    if request.param == "postgres":
        how = opened_postgres(request.getfixturevalue("postgres"), request.getfixturevalue("postgres_url"))
    else:
        how = opened_sqlite(tmp_path / "antiphon.db" if request.param == "sqlite" else None, connections)
    async with how as opened:
        yield opened


@pytest.fixture
def store(opened: Opened, clock: Clock) -> Stores:
    return sql_stores(opened.database, LocalSignals(), clock)


@pytest.fixture
def agent_runs(opened: Opened, clock: Clock) -> AgentRunStore:
    return SqlAgentRuns(opened.database, clock)


@pytest.fixture
def count_rows(opened: Opened) -> CountRows:
    return opened.count_rows
