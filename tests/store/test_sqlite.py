"""SQLite: grouped commits, recovery from errors, and proportionate sizes."""

import asyncio
import logging
import math
import os
import sqlite3
import stat
import sys
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from antiphon.errors import PreviousResponseNotFound, SettingsError, StoreFull, StoreUnavailable
from antiphon.protocol.items import Message
from antiphon.store import sqlite, sqlite_file
from antiphon.store.base import Conversation, Page, StoredResponse
from antiphon.store.database import Script
from antiphon.store.migrations import load_migrations
from antiphon.store.ports import Stores
from antiphon.store.signals import LocalSignals
from antiphon.store.sql_stores import sql_stores
from antiphon.store.sqlite import SqliteDatabase
from antiphon.thread_priority import NICENESS
from tests.store.conftest import Clock
from tests.store.values import history, names, response, texts, turn


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "folder" / "antiphon.db"


@pytest.fixture
async def database(path: Path, connections: list[sqlite3.Connection]) -> AsyncIterator[SqliteDatabase]:
    database = await SqliteDatabase.open(path)
    yield database
    await database.aclose()


@pytest.fixture
def store(database: SqliteDatabase, clock: Clock) -> Stores:
    return sql_stores(database, LocalSignals(), clock)


@pytest.fixture
def traced_statements(database: SqliteDatabase, connections: list[sqlite3.Connection]) -> list[str]:
    """The statements that the writer executes."""
    traced: list[str] = []
    connections[0].set_trace_callback(traced.append)
    return traced


async def test_a_thousand_turns_resume_completely_and_stay_small(
    store: Stores, database: SqliteDatabase, path: Path
) -> None:
    parent = None
    for number in range(1000):
        items = [
            Message(id=f"msg_{number}.{each}", role="user", content=f"{number} " * 140) for each in range(4)
        ]
        saved = response(f"resp_{number}")
        await store.responses.save("t", StoredResponse(response=saved, parent=parent, input=tuple(items)))
        parent = saved.id
    expected = [f"{number}.{each}" for number in range(1000) for each in range(4)]
    assert await history(store, "999") == expected
    assert await history(store, "500") == expected[: 501 * 4]
    page = await store.responses.input_items("t", "resp_999", Page(limit=3, order="asc", after="msg_500.0"))
    assert texts(page.items) == ["500.1", "500.2", "500.3"]
    assert await database.size() <= 10_000_000


async def test_saves_that_come_together_are_committed_together(
    store: Stores, traced_statements: list[str]
) -> None:
    await asyncio.gather(*(store.responses.save("t", turn(f"{number}")) for number in range(200)))
    assert traced_statements.count("COMMIT") <= 3
    for number in range(200):
        assert await store.responses.response("t", f"resp_{number}")


async def test_large_scripts_wait_for_others_and_are_committed_alone(
    database: SqliteDatabase, traced_statements: list[str]
) -> None:
    order: list[str] = []
    gate = threading.Event()

    def script(name: str) -> Script[None]:
        gate.wait(10)
        order.append(name)
        return
        yield

    first = asyncio.create_task(database.write(script("first")))
    await asyncio.sleep(0.05)  # its transaction has begun
    names = ("large 1", "large 2", "small 1", "small 2")
    others = [database.write(script(name), large=name.startswith("large")) for name in names]
    waiting = asyncio.gather(*others)
    await asyncio.sleep(0)
    gate.set()
    await asyncio.gather(first, waiting)
    assert order == ["first", "small 1", "small 2", "large 1", "large 2"]
    assert traced_statements.count("COMMIT") == 4


@pytest.mark.skipif(sys.platform != "linux", reason="a thread has no priority of its own")
async def test_the_threads_of_the_database_let_the_event_loop_go_first(database: SqliteDatabase) -> None:
    def priority() -> Script[int]:
        return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
        yield

    own = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
    expected = min(19, own + NICENESS)
    assert await database.write(priority()) == await database.read(priority()) == expected


async def test_a_read_does_not_wait_for_the_reads_after_it(database: SqliteDatabase) -> None:
    gate = threading.Event()

    def small() -> Script[str]:
        return "read"
        yield

    def slow() -> Script[bool]:
        return gate.wait(10)
        yield

    def hold() -> Script[bool]:
        return gate.wait(0.1)
        yield

    reads = [asyncio.create_task(database.read(script)) for script in (hold(), small(), slow())]
    assert await asyncio.wait_for(reads[1], 5) == "read"
    gate.set()
    assert await reads[2]


async def test_large_scripts_that_wait_are_run_before_the_database_is_closed(
    database: SqliteDatabase,
) -> None:
    done: list[int] = []

    def script(number: int) -> Script[None]:
        done.append(number)
        return
        yield

    waiting = [asyncio.create_task(database.write(script(number), large=True)) for number in range(3)]
    await asyncio.sleep(0)
    await database.aclose()
    await asyncio.gather(*waiting)
    assert done == [0, 1, 2]


async def test_one_that_fails_takes_no_other_with_it(store: Stores, traced_statements: list[str]) -> None:
    results = await asyncio.gather(
        store.responses.save("t", turn("1")),
        store.responses.save("t", turn("2", "nobody")),
        store.responses.save("t", turn("3", "1")),
        return_exceptions=True,
    )
    assert [type(result) for result in results] == [type(None), PreviousResponseNotFound, type(None)]
    assert traced_statements.count("COMMIT") == 1
    assert await history(store, "3") == ["1?", "1!", "3?", "3!"]


async def test_only_durable_writes_wait_for_the_disk(store: Stores, traced_statements: list[str]) -> None:
    await store.jobs.beat("o1")
    await store.jobs.beat("o1")
    await store.responses.save("t", turn("1"))
    await store.responses.save("t", turn("2"))
    await store.jobs.beat("o1")
    pragmas = [traced for traced in traced_statements if "synchronous" in traced]
    assert pragmas == [f"PRAGMA synchronous = {mode}" for mode in ("NORMAL", "FULL", "NORMAL")]


async def test_a_write_with_a_cancelled_caller_is_finished(store: Stores) -> None:
    task = asyncio.create_task(store.responses.save("t", turn("1")))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await store.responses.save("t", turn("2", "1"))
    assert await history(store, "2") == ["1?", "1!", "2?", "2!"]


async def test_a_full_disk_is_reported_until_there_is_space(
    store: Stores,
    connections: list[sqlite3.Connection],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING)
    await store.responses.save("t", turn("1"))
    pages = connections[0].execute("PRAGMA page_count").fetchone()[0]
    connections[0].execute(f"PRAGMA max_page_count = {pages}").fetchall()
    huge = StoredResponse(response=response("resp_2", "x" * 100_000))
    for _ in range(2):
        with pytest.raises(StoreFull):
            await store.responses.save("t", huge)
        with pytest.raises(StoreFull):
            await store.responses.check()
    assert await history(store, "1") == ["1?", "1!"], "stored responses can be read"
    monkeypatch.setattr(sqlite, "PROBE_SECONDS", 1000.0)
    connections[0].execute("PRAGMA max_page_count = 1000000").fetchall()
    await store.responses.save("t", huge)
    await store.responses.check()
    assert len(caplog.messages) == 2, "one line when it begins, one when it is over"


async def test_all_writers_of_a_batch_get_its_commit_error(
    store: Stores, connections: list[sqlite3.Connection]
) -> None:
    pages = connections[0].execute("PRAGMA page_count").fetchone()[0]
    connections[0].execute(f"PRAGMA max_page_count = {pages}").fetchall()
    huge = [StoredResponse(response=response(f"resp_{n}", "x" * 100_000)) for n in range(5)]
    results = await asyncio.gather(
        *(store.responses.save("t", each) for each in huge), return_exceptions=True
    )
    assert {type(result) for result in results} == {StoreFull}
    connections[0].execute("PRAGMA max_page_count = 1000000").fetchall()
    for each in huge:
        await store.responses.save("t", each)
        assert await store.responses.response("t", each.response.id) == each.response


async def test_a_failed_commit_is_reported_to_all_and_rolled_back(
    store: Stores, connections: list[sqlite3.Connection]
) -> None:
    def deny_commit(action: int, name: str | None, *_: str | None) -> int:
        denied = action == sqlite3.SQLITE_TRANSACTION and name == "COMMIT"
        return sqlite3.SQLITE_DENY if denied else sqlite3.SQLITE_OK

    connections[0].set_authorizer(deny_commit)
    saves = (store.responses.save("t", turn(f"{number}")) for number in range(5))
    results = await asyncio.gather(*saves, return_exceptions=True)
    assert {type(result) for result in results} == {StoreUnavailable}
    connections[0].set_authorizer(None)
    await store.responses.save("t", turn("5"))
    assert names(await store.responses.list_responses("t", limit=10)) == ["5"]


async def test_during_a_write_outage_a_probe_is_tried_periodically(
    store: Stores, path: Path, connections: list[sqlite3.Connection], monkeypatch: pytest.MonkeyPatch
) -> None:
    connections[0].execute("PRAGMA busy_timeout = 0").fetchall()
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreUnavailable, match="locked"):
        await store.responses.save("t", turn("1"))
    with pytest.raises(StoreUnavailable):
        await store.responses.check()
    monkeypatch.setattr(sqlite, "PROBE_SECONDS", -1.0)
    with pytest.raises(StoreUnavailable):
        await store.responses.save("t", turn("1"))
    await store.responses.check()
    other.execute("ROLLBACK")
    other.close()
    await store.responses.save("t", turn("1"))


async def test_a_mistake_of_ours_is_not_called_an_outage(store: Stores) -> None:
    conversation = Conversation(id="conv_1", created_at=1)
    await store.conversations.add_conversation("t", conversation, [])
    with pytest.raises(sqlite3.IntegrityError):
        await store.conversations.add_conversation("t", conversation, [])
    await store.responses.check()


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "MAX_BATCH_SCRIPTS", 10)


@pytest.mark.usefixtures("small_batches")
async def test_a_full_batch_does_not_wait_for_more(store: Stores, traced_statements: list[str]) -> None:
    await asyncio.gather(*(store.responses.save("t", turn(f"{number}")) for number in range(40)))
    assert traced_statements.count("COMMIT") >= 4


async def test_saved_responses_survive_a_restart(path: Path, clock: Clock) -> None:
    for name, parent in (("1", None), ("2", "1")):
        store = sql_stores(await SqliteDatabase.open(path), LocalSignals(), clock)
        await store.responses.save("t", turn(name, parent))
        await store.aclose()
        await store.aclose()
    with pytest.raises(StoreUnavailable, match="closed"):
        await store.responses.save("t", turn("3"))
    reopened = sql_stores(await SqliteDatabase.open(path), LocalSignals(), clock)
    assert await history(reopened, "2") == ["1?", "1!", "2?", "2!"]
    await reopened.aclose()


async def test_closing_finishes_queued_writes(path: Path, clock: Clock) -> None:
    store = sql_stores(await SqliteDatabase.open(path), LocalSignals(), clock)
    saves = [asyncio.create_task(store.responses.save("t", turn(f"{number}"))) for number in range(20)]
    await asyncio.sleep(0)
    await store.aclose()
    await asyncio.gather(*saves)


async def test_vacuum_frees_disk_space(store: Stores, database: SqliteDatabase) -> None:
    for number in range(50):
        await store.responses.save("t", StoredResponse(response=response(f"resp_{number}", "x" * 20_000)))
    await database.vacuum()
    before = await database.size()
    for number in range(50):
        await store.responses.delete("t", f"resp_{number}")
    await database.vacuum()
    assert await database.size() < before / 4
    await store.responses.save("t", turn("after"))


def size_of(path: Path) -> int:
    return path.stat().st_size


async def fill_and_delete(store: Stores, count: int) -> None:
    for number in range(count):
        await store.responses.save("t", StoredResponse(response=response(f"resp_{number}", "x" * 20_000)))
    for number in range(count):
        await store.responses.delete("t", f"resp_{number}")


async def test_unused_space_is_returned_in_small_steps(
    store: Stores, database: SqliteDatabase, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_file, "MAX_FREE_PAGES", 10)
    monkeypatch.setattr(sqlite_file, "SHRINK_PAGES", 20)
    await fill_and_delete(store, 50)
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        before = size_of(path)
        [[free]] = connection.execute("PRAGMA freelist_count").fetchall()
        steps = 1
        while await store.upkeep.shrink():
            steps += 1
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    assert steps == math.ceil((free - 10) / 20)
    assert size_of(path) < before / 2
    assert not await store.upkeep.shrink()
    await store.responses.save("t", turn("after"))


async def test_an_older_file_shrinks_after_its_first_vacuum(
    path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_file, "MAX_FREE_PAGES", 0)
    path.parent.mkdir()
    with sqlite3.connect(path) as older:
        older.execute("PRAGMA auto_vacuum = NONE")
        older.execute("CREATE TABLE something (value)")
    store = sql_stores(database := await SqliteDatabase.open(path), LocalSignals(), clock)
    await fill_and_delete(store, 20)
    assert not await store.upkeep.shrink()
    await database.vacuum()
    await fill_and_delete(store, 20)
    assert await store.upkeep.shrink()
    await store.aclose()


def make_file(path: Path, mode: int) -> None:
    path.parent.mkdir(exist_ok=True)
    path.touch()
    path.chmod(mode)


async def test_side_files_have_the_mode_of_the_database(path: Path) -> None:
    make_file(path, 0o640)
    make_file(path.with_name(path.name + "-wal"), 0o666)
    database = await SqliteDatabase.open(path)
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
    await database.aclose()
    assert len(modes) == 3
    assert set(modes.values()) == {0o640}


async def test_an_in_memory_store_writes_no_files() -> None:
    database = await SqliteDatabase.open(None, migrate=False)
    assert all(done for _, done in await database.migration_status())
    assert await database.migrate() == []
    await database.vacuum()
    assert await database.size() == 0
    await database.aclose()


async def test_an_unwritable_path_is_an_invalid_setting(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    (tmp_path / "text.db").write_text("not a database, but long enough to look at it twice\n" * 100)
    for path in (tmp_path / "file" / "antiphon.db", tmp_path / "text.db", tmp_path):
        with pytest.raises(SettingsError, match=r"Cannot keep the database at .*store\.url"):
            await SqliteDatabase.open(path)


async def test_concurrent_opening_migrates_once(path: Path) -> None:
    databases = await asyncio.gather(*(SqliteDatabase.open(path) for _ in range(6)))
    for database in databases:
        assert all(done for _, done in await database.migration_status())
        await database.aclose()
    connection = sqlite_file.connect(path)
    known = load_migrations("sqlite")
    assert connection.execute("SELECT count(*) FROM schema_migrations").fetchone() == (len(known),)
    connection.close()


async def test_the_file_is_readable_only_by_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "new" / "antiphon.db"
    database = await SqliteDatabase.open(path)
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in (path.parent, *path.parent.iterdir())}
    await database.aclose()
    assert modes.pop("new") == 0o700
    assert set(modes.values()) == {0o600}
