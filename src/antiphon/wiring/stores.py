"""Stores from the settings."""

import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from antiphon.errors import SettingsError
from antiphon.settings import POSTGRES, Settings
from antiphon.store.blobs.folder import FolderBlobs
from antiphon.store.blobs.port import BlobStore
from antiphon.store.database import OperatedDatabase
from antiphon.store.none import no_stores
from antiphon.store.ports import Stores
from antiphon.store.signals import LocalSignals
from antiphon.store.sql_stores import sql_stores
from antiphon.store.sqlite import SqliteDatabase
from antiphon.wiring.folders import files_folder, store_path

if TYPE_CHECKING:
    from antiphon.store.postgres import PostgresDatabase


DAY_SECONDS = 24 * 3600
DATABASE = "database"
"""As `files.url`: the database of the store."""


@asynccontextmanager
async def open_stores(settings: Settings) -> AsyncGenerator[Stores, None]:
    """The stores that the URL names, for as long as the context lasts."""
    stores = await make_stores(settings)
    try:
        yield stores
    finally:
        await stores.aclose()


async def make_stores(settings: Settings) -> Stores:
    """The stores that the URL names; the caller closes them."""
    options, url = settings.store, settings.store.url
    if url == "none":
        return no_stores()
    if url.startswith(POSTGRES):
        database = await _open_postgres(url)
        return sql_stores(
            database,
            database.signals,
            time.time,
            log_lifetime=options.log_lifetime,
            trace_lifetime=settings.trace.days * DAY_SECONDS,
        )
    path = None if url == "memory:" else store_path(settings)
    limit = options.memory_responses if path is None else None
    file = await SqliteDatabase.open(path)
    return sql_stores(
        file,
        LocalSignals(),
        time.time,
        limit=limit,
        log_lifetime=options.log_lifetime,
        trace_lifetime=settings.trace.days * DAY_SECONDS,
    )


def make_blobs(settings: Settings, stores: Stores) -> BlobStore:
    """The blob store that `files.url` names. Without one it is a folder beside an SQLite file, which is
    created with the first file, or else the database."""
    url, store = settings.files.url, settings.store.url
    if "://" in url and not url.startswith("file://"):
        from antiphon.store.blobs.objects import ObjectBlobs  # noqa: PLC0415 -- optional: [object-store]

        return ObjectBlobs.open(url, settings.files.options)
    if url == DATABASE or (not url and not store.startswith("sqlite:")):
        return stores.blobs
    blobs = FolderBlobs(files_folder(settings))
    if url:
        blobs.check()
    return blobs


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
