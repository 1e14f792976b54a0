"""The job store contract, run on SQLite and on PostgreSQL."""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from antiphon.jobs.kinds import Kind
from antiphon.jobs.worker import Worker
from antiphon.store.base import Job, NewJob
from antiphon.store.ports import Stores
from antiphon.store.postgres import PostgresDatabase
from antiphon.store.signals import LocalSignals
from antiphon.store.sql_stores import sql_stores
from antiphon.store.sqlite import SqliteDatabase
from tests.postgres import PostgresServer

LEASE_SECONDS = 1.0
KIND = "test"


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.slow)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A fresh database."""
    if request.param == "sqlite":
        yield f"sqlite:{tmp_path / 'jobs.db'}"
        return
    server: PostgresServer = request.getfixturevalue("postgres")
    with server.database() as url:
        yield url


@asynccontextmanager
async def open_url(url: str) -> AsyncGenerator[Stores, None]:
    """The stores of a database."""
    if url.startswith("sqlite:"):
        stores = sql_stores(
            await SqliteDatabase.open(Path(url.removeprefix("sqlite:"))), LocalSignals(), float
        )
    else:
        database = await PostgresDatabase.open(url)
        stores = sql_stores(database, database.signals, float)
    try:
        yield stores
    finally:
        await stores.aclose()


@pytest.fixture
async def stores(url: str) -> AsyncIterator[Stores]:
    async with open_url(url) as opened:
        yield opened


MakeWorker = Callable[..., Worker]


@pytest.fixture
async def make(stores: Stores) -> AsyncIterator[MakeWorker]:
    """Workers on one database with heartbeats, as in several processes."""
    workers: list[Worker] = []

    def build(
        work: Callable[[Job], Awaitable[None]], *, lease: float = LEASE_SECONDS, **options: object
    ) -> Worker:
        worker = Worker(stores.jobs, stores.signals, owner=f"worker {len(workers)}", lease=lease)
        worker.register(Kind(name=KIND, work=work, **options))  # pyright: ignore[reportArgumentType]
        workers.append(worker)
        return worker

    yield build
    for worker in workers:
        await worker.aclose()


def job(name: str, tenant: str = "t", **options: float) -> NewJob:
    return NewJob(kind=KIND, tenant=tenant, id=name, **options)
