"""How DBOS is set up. Import this only when DBOS is needed."""

import os
import sqlite3
from contextlib import closing
from typing import Any

import psycopg
from dbos import DBOSConfig, DBOSPortableJSONSerializer
from sqlalchemy import URL, Engine, create_engine, event, make_url

from antiphon.errors import StoreUnavailable

CONNECTIONS = 5
THREADS = 8
CONNECTED_WITHIN = 5
ENDS_WITHIN = 0.1


def dbos_config(database: str, *, executor: str, version: str) -> DBOSConfig:
    """What is not left to DBOS's defaults, for a PostgreSQL URL or the path of an SQLite file.

    The executor is unique per process: two with one name take each other's running work for left behind.
    JSON, because the default is pickle, which makes code of write access to the database.
    """
    config = DBOSConfig(
        name="antiphon",
        dbos_system_schema="dbos",
        executor_id=executor,
        application_version=version,
        serializer=DBOSPortableJSONSerializer(),
        max_executor_threads=THREADS,
        log_level="WARNING",
        enable_otlp=False,
    )
    if database.startswith(("postgresql:", "postgres:")):
        config["system_database_engine"] = _postgres(make_url(database))
    else:
        config["system_database_url"] = _sqlite(os.path.abspath(database))
        config["sys_db_pool_size"] = CONNECTIONS
        # We use no notifications, but DBOS sleeps this long before it sees that it ends.
        config["notification_listener_polling_interval_sec"] = ENDS_WITHIN
    return config


def _sqlite(path: str) -> str:
    """Write-ahead logging stays with the file. DBOS does not ask for it, and is far slower without."""
    try:
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
    except sqlite3.Error as error:
        raise StoreUnavailable from error
    return URL.create("sqlite", database=path).render_as_string()


def _postgres(url: URL) -> Engine:
    """An engine that says at once when it cannot connect.

    DBOS would try for ever, in threads that the process waits for when it exits.
    """
    engine = create_engine(
        url.set(drivername="postgresql+psycopg"),
        pool_size=CONNECTIONS,
        max_overflow=0,
        pool_pre_ping=True,
        connect_args={"application_name": "antiphon", "connect_timeout": CONNECTED_WITHIN},
    )

    def connect(_dialect: object, _record: object, arguments: Any, options: Any) -> psycopg.Connection:
        try:
            return psycopg.connect(*arguments, **options)
        except psycopg.OperationalError as error:
            raise StoreUnavailable from error

    event.listen(engine, "do_connect", connect)
    return engine
