"""PostgreSQL outages: calls fail at once, and no process needs a restart when it is back."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import ExitStack, asynccontextmanager

import pytest

from antiphon.errors import StoreUnavailable
from antiphon.store.postgres import PostgresDatabase
from tests.postgres import PostgresServer
from tests.store.postgres_support import Wire, count_of, one, opened, until

pytestmark = pytest.mark.slow

LIMIT = 10.0
"""Seconds: far more than the test takes, far less than a statement timeout."""


@pytest.fixture
async def database(postgres: PostgresServer) -> AsyncIterator[PostgresDatabase]:
    with postgres.database() as url:
        async with opened(url) as database:
            yield database


async def start_again(postgres: PostgresServer, *databases: PostgresDatabase) -> None:
    """Start the server, and wait for the signal of each database that it is back."""
    with ExitStack() as subscribed:
        waiters = [subscribed.enter_context(database.signals.subscribe("anything")) for database in databases]
        await asyncio.to_thread(postgres.start)
        for waiter in waiters:
            assert await waiter.wait(20)


async def test_an_outage_while_idle_is_noticed_and_recovered_from(
    postgres: PostgresServer, database: PostgresDatabase, caplog: pytest.LogCaptureFixture
) -> None:
    await database.write(one("add", "before", 1.0))
    await asyncio.to_thread(postgres.stop)
    try:
        await until(lambda: "does not respond" in caplog.text)
        async with asyncio.timeout(LIMIT):
            for refused in (database.check(), database.read(one("count")), database.write(one("count"))):
                with pytest.raises(StoreUnavailable):
                    await refused
    finally:
        await start_again(postgres, database)
    await database.check()
    await database.write(one("add", "after", 1.0))
    assert await count_of(database) == 2
    assert [record.levelname for record in caplog.records] == ["WARNING", "WARNING"]


async def test_running_calls_fail_when_the_database_stops(
    postgres: PostgresServer, database: PostgresDatabase
) -> None:
    busy = [asyncio.create_task(database.write(one("sleep", 60.0))) for _ in range(15)]
    await asyncio.sleep(0.1)
    await asyncio.to_thread(postgres.stop)
    try:
        async with asyncio.timeout(LIMIT):
            outcomes = await asyncio.gather(*busy, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [StoreUnavailable] * 15
        with pytest.raises(StoreUnavailable):
            await database.check()
    finally:
        await start_again(postgres, database)
    assert await count_of(database) == 0


async def test_signals_work_again_after_an_outage(postgres: PostgresServer) -> None:
    with postgres.database() as url:
        here, there = await PostgresDatabase.open(url), await PostgresDatabase.open(url)
        await asyncio.to_thread(postgres.stop)
        await start_again(postgres, here, there)
        with there.signals.subscribe("events:1") as waiter:
            here.signals.publish("events:1")
            assert await waiter.wait(20)
        await here.aclose()
        await there.aclose()


@asynccontextmanager
async def over_a_wire(
    postgres: PostgresServer, url: str
) -> AsyncGenerator[tuple[PostgresDatabase, Wire], None]:
    async with (
        Wire().to(postgres.port) as wire,
        opened(url.replace(f":{postgres.port}/", f":{wire.port}/")) as database,
    ):
        yield database, wire


async def test_a_silent_database_counts_as_down(postgres: PostgresServer) -> None:
    with postgres.database() as url:
        async with over_a_wire(postgres, url) as (database, wire):
            await database.write(one("add", "before", 1.0))
            wire.alive.clear()
            async with asyncio.timeout(LIMIT):
                with pytest.raises(StoreUnavailable):
                    await database.write(one("add", "lost", 1.0))
            with pytest.raises(StoreUnavailable):
                await database.check()
            with database.signals.subscribe("anything") as recovered:
                wire.alive.set()
                assert await recovered.wait(20)
            await database.write(one("add", "after", 1.0))


async def test_a_signal_that_could_not_be_sent_is_sent_when_the_database_is_back(
    postgres: PostgresServer, database: PostgresDatabase, caplog: pytest.LogCaptureFixture
) -> None:
    async with over_a_wire(postgres, database.url) as (sender, wire):
        with database.signals.subscribe("runs") as waiter:
            wire.alive.clear()
            sender.signals.publish("runs")
            with sender.signals.subscribe("anything") as recovered:
                await until(lambda: "does not respond" in caplog.text)
                wire.alive.set()
                assert await recovered.wait(20)
            assert await waiter.wait(20)


async def test_one_broken_connection_is_not_an_outage(
    postgres: PostgresServer, database: PostgresDatabase, caplog: pytest.LogCaptureFixture
) -> None:
    await database.write(one("add", "before", 1.0))
    name = database.url.rpartition("/")[2]
    killed = f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}' AND query = 'COMMIT'"
    postgres.execute(killed)  # not in a thread: the driver must not have noticed it yet
    assert await count_of(database) == 1
    assert not caplog.records
    await database.check()


async def test_closing_during_an_outage_does_not_hang(postgres: PostgresServer) -> None:
    with postgres.database() as url:
        database = await PostgresDatabase.open(url)
        await asyncio.to_thread(postgres.stop)
        try:
            async with asyncio.timeout(LIMIT):
                await database.aclose()
        finally:
            await asyncio.to_thread(postgres.start)
