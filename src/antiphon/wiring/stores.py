"""Stores from the settings."""

import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, NamedTuple

from antiphon.errors import SettingsError
from antiphon.settings import POSTGRES, Settings
from antiphon.store.agent_runs import AgentRunStore
from antiphon.store.base import Store
from antiphon.store.database import OperatedDatabase
from antiphon.store.no_agent_runs import NoAgentRuns
from antiphon.store.none import NoStore
from antiphon.store.signals import LocalSignals
from antiphon.store.sql_agent_runs import SqlAgentRuns
from antiphon.store.sql_store import SqlStore
from antiphon.store.sqlite import SqliteDatabase
from antiphon.wiring.folders import store_path

if TYPE_CHECKING:
    from antiphon.store.postgres import PostgresDatabase


class Stores(NamedTuple):
    """Two stores on one database. Closing the first closes it."""

    store: Store
    agent_runs: AgentRunStore


@asynccontextmanager
async def open_store(settings: Settings) -> AsyncGenerator[Store, None]:
    """The store that the URL names, for as long as the context lasts."""
    async with open_stores(settings) as stores:
        yield stores.store


@asynccontextmanager
async def open_stores(settings: Settings) -> AsyncGenerator[Stores, None]:
    """The stores that the URL names, for as long as the context lasts."""
    stores = await make_stores(settings)
    try:
        yield stores
    finally:
        await stores.store.aclose()


async def make_stores(settings: Settings) -> Stores:
    """The stores that the URL names; whoever made them closes the first."""
    options, url = settings.store, settings.store.url
    if url == "none":
        return Stores(NoStore(), NoAgentRuns())
    if url.startswith(POSTGRES):
        database = await _open_postgres(url)
        store = SqlStore(database, database.signals, time.time, log_ttl=options.log_lifetime)
        return Stores(store, SqlAgentRuns(database, time.time))
    path = None if url == "memory:" else store_path(settings)
    limit = options.memory_responses if path is None else None
    file = await SqliteDatabase.open(path)
    store = SqlStore(file, LocalSignals(), time.time, limit=limit, log_ttl=options.log_lifetime)
    return Stores(store, SqlAgentRuns(file, time.time, limit=limit))


@asynccontextmanager
async def open_database(settings: Settings) -> AsyncGenerator[OperatedDatabase, None]:
    """The database itself, as it is, for its operator."""
    if not settings.lasting:
        raise SettingsError(f"The store '{settings.store.url}' has no database. Use --store sqlite:PATH.")
    if settings.store.url.startswith(POSTGRES):
        database = await _open_postgres(settings.store.url, migrate=False)
    else:
        database = await SqliteDatabase.open(store_path(settings), migrate=False)
    try:
        yield database
    finally:
        await database.aclose()


async def _open_postgres(url: str, *, migrate: bool = True) -> "PostgresDatabase":
    from antiphon.store.postgres import PostgresDatabase  # noqa: PLC0415 -- optional: the [postgres] extra

    return await PostgresDatabase.open(url, migrate=migrate)
