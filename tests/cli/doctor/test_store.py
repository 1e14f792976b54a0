"""The doctor checks the store without changing it."""

import asyncio
import fcntl
import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from antiphon.cli.startup import store
from antiphon.cli.startup.check import Check
from antiphon.cli.startup.store import check_store
from antiphon.settings import SealSettings, Settings, StoreSettings
from antiphon.store import sqlite_file
from antiphon.store.migrations import Migration, load_migrations
from antiphon.store.statements import Dialect
from antiphon.wiring import open_stores
from tests.postgres import PostgresServer


def checked(url: str, seal: str = "") -> Check:
    return asyncio.run(check_store(Settings(store=StoreSettings(url), seal=SealSettings(seal))))


async def make(settings: Settings) -> None:
    async with open_stores(settings):
        pass


@pytest.fixture
def store_file(tmp_path: Path) -> Path:
    """The file of a used store."""
    path = tmp_path / "kept.db"
    asyncio.run(make(Settings(store=StoreSettings(f"sqlite:{path}"))))
    return path


@pytest.mark.parametrize(("url", "message"), [("none", "responses are not stored"), ("memory:", "10,000")])
def test_a_store_that_is_not_durable_is_reported(url: str, message: str) -> None:
    check = checked(url)
    assert (check.status, url.rstrip(":") in check.found, message in check.found) == ("ok", True, True)


def test_a_missing_file_is_not_created(tmp_path: Path) -> None:
    check = checked(f"sqlite:{tmp_path}/new/kept.db")
    assert (check.status, check.found) == ("ok", f"sqlite:{tmp_path}/new/kept.db (will be created)")
    assert not (tmp_path / "new").exists()


def test_a_file_that_cannot_be_created_fails(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    check = checked(f"sqlite:{tmp_path}/file/kept.db")
    assert check.status == "failed"
    assert "store.url" in check.advice


def test_a_store_that_was_used_has_a_size(store_file: Path) -> None:
    check = checked(f"sqlite:{store_file}")
    assert check.status == "ok"
    assert check.found.startswith(f"sqlite:{store_file}, 0.")
    assert check.found.endswith(" MB")


def test_a_file_that_cannot_be_written_fails(store_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def may(_path: Path, mode: int) -> bool:
        return mode != os.W_OK

    monkeypatch.setattr(store.os, "access", may)
    assert checked(f"sqlite:{store_file}").status == "failed"


def test_a_file_that_is_no_database_fails(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("This is no database, and it is long enough to be read as one. " * 20)
    check = checked(f"sqlite:{tmp_path}/notes.txt")
    assert check.status == "failed"
    assert "not a database" in check.advice


def test_a_database_of_a_newer_version_fails(store_file: Path) -> None:
    with closing(sqlite3.connect(store_file)) as connection, connection:
        connection.execute("INSERT INTO schema_migrations VALUES (9999, 'later', 'sum', 0)")
    check = checked(f"sqlite:{store_file}")
    assert check.status == "failed"
    assert "newer Antiphon" in check.advice


def test_an_empty_database_gets_its_tables_later(tmp_path: Path) -> None:
    (tmp_path / "kept.db").touch()
    check = checked(f"sqlite:{tmp_path}/kept.db")
    assert (check.status, "its tables will be created" in check.found) == ("ok", True)


def test_missing_migrations_are_to_be_applied(store_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def with_a_later_one(dialect: Dialect) -> list[Migration]:
        return [*load_migrations(dialect), Migration(9999, "later", "SELECT 1", "sum")]

    monkeypatch.setattr(sqlite_file, "load_migrations", with_a_later_one)
    check = checked(f"sqlite:{store_file}")
    assert (check.status, check.found.endswith(", migrations to apply: 1")) == ("warning", True)
    assert "antiphon db migrate" in check.advice


def test_a_process_that_works_in_the_background_is_noticed(store_file: Path) -> None:
    with store_file.with_name("kept.db.lock").open("ab") as lock:
        assert checked(f"sqlite:{store_file}").status == "ok", "the file does not reveal it"
        fcntl.flock(lock, fcntl.LOCK_EX)
        check = checked(f"sqlite:{store_file}")
    assert check.status == "warning"
    assert "another process runs its background jobs" in check.found


def test_a_postgres_that_does_not_answer_fails_without_its_password() -> None:
    check = checked("postgresql://me:hunter2@127.0.0.1:1/antiphon")
    assert check.status == "failed"
    assert "does not answer" in check.advice
    assert "hunter2" not in check.found + check.advice


@pytest.mark.slow
def test_replicas_on_postgres_need_a_shared_secret(postgres: PostgresServer) -> None:
    with postgres.database() as url:
        assert "its tables will be created" in checked(url, seal="shared").found
        asyncio.run(make(Settings(store=StoreSettings(url))))
        assert checked(url, seal="shared").status == "ok"
        check = checked(url)
        assert check.status == "warning"
        assert "seal.key" in check.advice
