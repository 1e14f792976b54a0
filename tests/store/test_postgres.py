"""How scripts run on PostgreSQL, and how its errors are mapped."""

import asyncio
import importlib
import re
import sys
from collections.abc import AsyncIterator

import pytest
from asyncpg import UndefinedColumnError

from antiphon.errors import NotFound, SettingsError, StoreFull, StoreUnavailable
from antiphon.extras import install_command
from antiphon.store import postgres_client
from antiphon.store.database import Script, Statement
from antiphon.store.postgres import PostgresDatabase
from antiphon.store.postgres_client import Address
from tests.postgres import PostgresServer
from tests.store.postgres_support import count_of, one, opened

slow = pytest.mark.slow


@pytest.fixture
async def database(postgres: PostgresServer) -> AsyncIterator[PostgresDatabase]:
    with postgres.database() as url:
        async with opened(url) as database:
            yield database


@slow
async def test_a_script_gets_the_rows_of_its_statements(database: PostgresDatabase) -> None:
    def script() -> Script[str]:
        yield Statement("add", [("a", 1.0), ("b", 2.0)], many=True)
        [(name,)] = yield Statement("named", ("b",))
        [(total,)] = yield Statement("count")
        return f"{name} of {total}"

    assert await database.write(script()) == "b of 2"


@slow
async def test_an_exception_rolls_a_script_back(
    database: PostgresDatabase, caplog: pytest.LogCaptureFixture
) -> None:
    def script() -> Script[None]:
        yield Statement("add", ("a", 1.0))
        raise NotFound("gone")

    with pytest.raises(NotFound, match="gone"):
        await database.write(script())
    assert await count_of(database) == 0
    await database.check()
    assert not caplog.records


@slow
async def test_a_cancelled_write_is_rolled_back(database: PostgresDatabase) -> None:
    started = asyncio.Event()

    def script() -> Script[None]:
        yield Statement("add", ("a", 1.0))
        started.set()
        yield Statement("sleep", (60.0,))

    writing = asyncio.create_task(database.write(script()))
    await started.wait()
    writing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await writing
    assert await count_of(database) == 0


@slow
async def test_a_read_sees_one_state_and_may_not_write(database: PostgresDatabase) -> None:
    def script() -> Script[tuple[int, int]]:
        [(before,)] = yield Statement("count")
        looked.set()
        yield Statement("sleep", (0.2,))
        [(after,)] = yield Statement("count")
        return before, after

    looked = asyncio.Event()
    reading = asyncio.create_task(database.read(script()))
    await looked.wait()
    await database.write(one("add", "a", 1.0))
    assert await reading == (0, 0)
    with pytest.raises(StoreUnavailable):
        await database.read(one("add", "b", 1.0))


@slow
@pytest.mark.parametrize(("durable", "setting"), [(True, "on"), (False, "off")])
async def test_only_durable_writes_wait_for_the_disk(
    database: PostgresDatabase, durable: bool, setting: str
) -> None:
    assert (await database.write(one("setting", "synchronous_commit"), durable=durable))[0][0] == setting
    assert (await database.write(one("setting", "synchronous_commit")))[0][0] == "on"


@slow
async def test_an_id_with_a_nul_character_is_stored_and_found(database: PostgresDatabase) -> None:
    await database.write(one("add", "a\0b", 1.0))
    assert len(await database.read(one("named", "a\0b"))) == 1
    assert len(await database.read(one("named", "ab"))) == 0


@slow
async def test_a_history_is_ranges_of_an_index_even_where_chains_are_long(database: PostgresDatabase) -> None:
    await database.write(one("add_long_chains"))
    await database.write(one("fill_long_chains"))
    await database.vacuum()
    plan = "\n".join(
        line for (line,) in await database.read(one("explain_history_page", "t", "1", 4000, -1, 1000, 4096))
    )
    assert "using items_pkey" in plan
    assert "Seq Scan" not in plan


@slow
async def test_approvals_that_were_answered_are_not_read_to_find_those_that_wait(
    database: PostgresDatabase,
) -> None:
    await database.write(one("add_answered_approvals"))
    await database.vacuum()
    rows = await database.read(one("explain_open_approvals", "t", 1, 10, 1000))
    assert "using approvals_waiting" in "\n".join(line for (line,) in rows)


@slow
async def test_more_scripts_than_connections_wait_for_their_turn(database: PostgresDatabase) -> None:
    await asyncio.gather(*(database.write(one("add", str(n), 1.0)) for n in range(100)))
    assert await count_of(database) == 100


@slow
async def test_one_of_two_deadlocked_writes_is_rejected(database: PostgresDatabase) -> None:
    barrier = asyncio.Event()

    def script(first: str, second: str) -> Script[None]:
        yield Statement("touch", (first,))
        if barrier.is_set():
            yield Statement("touch", (second,))
            return
        barrier.set()
        yield Statement("sleep", (0.2,))
        yield Statement("touch", (second,))

    await database.write(one("add", "a", 1.0))
    await database.write(one("add", "b", 1.0))
    outcomes = await asyncio.gather(
        database.write(script("a", "b")), database.write(script("b", "a")), return_exceptions=True
    )
    assert sorted(type(outcome).__mro__[1].__name__ for outcome in outcomes) == ["StoreUnavailable", "object"]


@slow
async def test_contention_does_not_mark_the_database_as_down(database: PostgresDatabase) -> None:
    with pytest.raises(StoreUnavailable, match="the same data"):
        await database.write(one("contend"))
    await database.check()


@slow
async def test_a_full_disk_is_reported_at_once_until_a_write_succeeds(database: PostgresDatabase) -> None:
    with pytest.raises(StoreFull):
        await database.write(one("fill_the_disk"))
    with pytest.raises(StoreFull):
        await database.check()
    await database.write(one("add", "a", 1.0))
    await database.check()


@slow
async def test_a_mistake_of_ours_is_not_called_an_outage(database: PostgresDatabase) -> None:
    with pytest.raises(UndefinedColumnError):
        await database.read(one("mistake"))
    await database.check()


@slow
async def test_the_size_is_reported_and_vacuum_works(database: PostgresDatabase) -> None:
    await database.vacuum()
    assert await database.size() > 1_000_000


@slow
async def test_a_database_that_does_not_exist_is_a_wrong_setting(postgres: PostgresServer) -> None:
    with pytest.raises(SettingsError, match='database "nowhere" does not exist'):
        await PostgresDatabase.open(postgres.url("nowhere"))


async def test_a_server_that_does_not_answer_is_unavailable() -> None:
    with pytest.raises(StoreUnavailable, match="check the URL"):
        await PostgresDatabase.open("postgresql://postgres@127.0.0.1:1/x")


@pytest.mark.parametrize(
    "url", ["postgresql://h:port/x", "postgresql://h/x?pool_size=0", "postgresql://h/x?connect_timeout=soon"]
)
async def test_a_malformed_url_is_a_wrong_setting(url: str) -> None:
    with pytest.raises(SettingsError, match="store's URL"):
        await PostgresDatabase.open(url)


def test_settings_in_the_url_are_respected_and_not_passed_on() -> None:
    address = Address.parse(
        "postgresql://u:p%40@h/x?sslmode=require&pool_size=3&statement_cache_size=0&connect_timeout=4"
    )
    assert (address.pool_size, address.statement_cache_size, address.connect_timeout) == (3, 0, 4)
    assert address.url == "postgresql://u:p%40@h/x?sslmode=require"
    plain = "postgresql:///x?host=/var/run&user=a%20b"
    assert Address.parse(plain).url == plain


def test_without_its_driver_the_error_names_the_package_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "asyncpg", None)
    monkeypatch.delitem(sys.modules, postgres_client.__name__)
    with pytest.raises(SettingsError, match=re.escape(install_command("postgres"))):
        importlib.import_module(postgres_client.__name__)
