"""Migrations: each is applied once."""

from pathlib import Path

import pytest

from antiphon.errors import SettingsError
from antiphon.protocol.stored_items import item_to_text
from antiphon.store import sqlite_file
from antiphon.store.agent_runs import AgentRun
from antiphon.store.base import AGENT_RUN_JOB, RESPONSE_JOB, Continuation, JobLimit
from antiphon.store.bodies import response_to_text
from antiphon.store.migrations import Migration, load_migrations, pending
from antiphon.store.signals import LocalSignals
from antiphon.store.sql_stores import sql_stores
from antiphon.store.sqlite import SqliteDatabase
from antiphon.store.statements import Dialect
from tests.store.conftest import FILE_TABLES, VECTOR_TABLES
from tests.store.values import answers, events, queued, response
from tests.store.vector_values import QUOTA, a_chunk, a_file, a_store, complete

KNOWN = [Migration(1, "initial", "", "a"), Migration(2, "second", "", "b")]
FILES = load_migrations("sqlite")
NEXT = Migration(
    len(FILES) + 1, "next", "CREATE TABLE fresh (id text);\n-- a comment; with a semicolon\n", "b"
)


def test_unapplied_migrations_are_pending() -> None:
    assert pending(KNOWN, []) == KNOWN
    assert pending(KNOWN, [(1, "a")]) == KNOWN[1:]
    assert pending(KNOWN, [(1, "a"), (2, "b")]) == []


def test_a_newer_database_is_rejected() -> None:
    with pytest.raises(SettingsError, match="version 3, but this Antiphon supports versions up to 2"):
        pending(KNOWN, [(1, "a"), (2, "b"), (3, "c")])


def test_an_altered_file_is_rejected() -> None:
    with pytest.raises(SettingsError, match=r"another version of 0002_second\.sql"):
        pending(KNOWN, [(1, "a"), (2, "x")])


@pytest.mark.parametrize("dialect", ["sqlite", "postgres"])
def test_the_files_are_numbered_without_gaps(dialect: Dialect) -> None:
    known = load_migrations(dialect)
    assert [migration.version for migration in known] == list(range(1, len(known) + 1))
    assert all(migration.name and len(migration.checksum) == 64 for migration in known)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "antiphon.db"


def know(patch: pytest.MonkeyPatch, *known: Migration) -> None:
    def load(dialect: Dialect) -> list[Migration]:
        return list(known)

    patch.setattr(sqlite_file, "load_migrations", load)


async def test_a_database_is_brought_up_to_date_when_it_is_opened(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await (await SqliteDatabase.open(path)).aclose()
    know(monkeypatch, *FILES, NEXT)
    database = await SqliteDatabase.open(path, migrate=False)
    assert [done for _, done in await database.migration_status()] == [True] * len(FILES) + [False]
    assert await database.migrate() == [NEXT]
    assert await database.migrate() == []
    assert [done for _, done in await database.migration_status()] == [True] * len(FILES) + [True]
    await database.aclose()


async def test_migrating_from_the_first_version_preserves_the_data(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        know(patch, FILES[0])
        await (await SqliteDatabase.open(path)).aclose()
    connection = sqlite_file.connect(path)
    connection.execute("INSERT INTO chains (tenant, id, head_pos) VALUES ('t', 'resp_1', 1)")
    connection.execute(
        "INSERT INTO responses (tenant, id, chain, start_pos, output_pos, end_pos, status, body, created_at) "
        "VALUES ('t', 'resp_1', 'resp_1', 0, 0, 1, 'completed', ?, 1)",
        (response_to_text(response("resp_1")),),
    )
    connection.execute(
        "INSERT INTO items (tenant, chain, pos, id, response, type, body) "
        "VALUES ('t', 'resp_1', 0, 'msg_1!', 'resp_1', 'message', ?)",
        (item_to_text(answers("1!")),),
    )
    connection.close()
    database = await SqliteDatabase.open(path)
    store = sql_stores(database, LocalSignals(), lambda: 1000.0)
    assert await store.responses.response("t", "resp_1") == response("resp_1", "1!")
    size = len(item_to_text(answers("1!")))
    assert await store.responses.continuation("t", "resp_1") == Continuation([answers("1!")], size=size)
    assert await store.jobs.look(["response", "agent_run"]) == (False, None)
    await store.vector_stores.add_store("t", a_store(), [a_file(1)], QUOTA)
    await complete(store, a_file(1), [a_chunk(0, "text")])
    assert len(await store.vector_stores.content("t", "vs_1", "file-0001", 0, 10)) == 1
    await database.aclose()


STATS_COLUMNS = (
    *("model", "key_id", "request_id", "background", "tools", "input_preview", "output_preview", "upstream"),
    *("first_token_ms", "total_ms", "input_tokens", "cached_tokens", "output_tokens", "reasoning_tokens"),
    "tool_calls",
)


async def test_unfinished_work_of_an_older_database_is_picked_up(path: Path) -> None:
    database = await SqliteDatabase.open(path)
    store = sql_stores(database, LocalSignals(), lambda: 1000.0)
    await store.background.submit("t", queued("1"), b"{}", events(0), "a process that is gone")
    await store.agent_runs.submit(
        "t", AgentRun(id="run_1", status="queued", title="", created_at=1), b"{}", "a process that is gone"
    )
    await database.aclose()
    connection = sqlite_file.connect(path)
    for table in (
        "jobs",
        "seal_key",
        *FILE_TABLES.split(", "),
        *VECTOR_TABLES.split(", "),
        "chunk_words",
        "approvals",
    ):
        connection.execute(f"DROP TABLE {table}")  # as before version 4
    connection.execute("DROP INDEX agent_runs_waiting")
    connection.execute("ALTER TABLE events DROP COLUMN private")
    connection.execute("ALTER TABLE responses DROP COLUMN progress")
    connection.execute("DROP TABLE traces")
    connection.execute("DROP INDEX responses_by_age")
    for column in STATS_COLUMNS:
        connection.execute(f"ALTER TABLE responses DROP COLUMN {column}")
    connection.execute("CREATE INDEX responses_by_age ON responses (tenant, created_at, id)")
    connection.execute("DELETE FROM schema_migrations WHERE version >= 4")
    connection.close()
    database = await SqliteDatabase.open(path)
    store = sql_stores(database, LocalSignals(), lambda: 1000.0)
    limits = [JobLimit(kind, 10, 10) for kind in (RESPONSE_JOB, AGENT_RUN_JOB)]
    claimed = {job.id: job for job in await store.jobs.claim("a new process", limits)}
    assert claimed.keys() == {"resp_1", "run_1"}
    response_claim = await store.background.claim("t", "resp_1", claimed["resp_1"])
    run_claim = await store.agent_runs.claim("t", "run_1", claimed["run_1"])
    assert response_claim is not None
    assert run_claim is not None
    assert response_claim.response.status == "queued"
    await database.aclose()


async def test_a_failed_step_is_rolled_back(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = Migration(
        len(FILES) + 2, "broken", "CREATE TABLE half (id text);\nCREATE TABLE chains (id text);\n", "c"
    )
    with monkeypatch.context() as patch:
        know(patch, *FILES, NEXT, broken)
        with pytest.raises(SettingsError, match="chains"):
            await SqliteDatabase.open(path)
    database = await SqliteDatabase.open(path)
    assert [done for _, done in await database.migration_status()] == [True] * len(FILES)
    await database.aclose()


async def test_a_file_of_a_newer_antiphon_is_rejected(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        know(patch, *FILES, NEXT)
        await (await SqliteDatabase.open(path)).aclose()
    with pytest.raises(SettingsError, match="newer Antiphon"):
        await SqliteDatabase.open(path)


async def test_a_file_with_an_altered_history_is_rejected(path: Path) -> None:
    await (await SqliteDatabase.open(path)).aclose()
    connection = sqlite_file.connect(path)
    connection.execute("UPDATE schema_migrations SET checksum = 'x'")
    connection.close()
    with pytest.raises(SettingsError, match=r"0001_initial\.sql"):
        await SqliteDatabase.open(path)
