"""`antiphon db`: migrations, status, vacuum, on a real file."""

import json
import re
import sqlite3
from pathlib import Path

import pytest

from antiphon.store.migrations import load_migrations
from antiphon.store.ports import Stores
from tests.cli.conftest import Run
from tests.cli.stored_responses import in_store, save_responses, turn


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "kept.db"


@pytest.fixture
def url(path: Path) -> str:
    return f"sqlite:{path}"


def tables(path: Path) -> set[str]:
    connection = sqlite3.connect(path)
    try:
        return {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    finally:
        connection.close()


def test_a_migration_is_done_once(run: Run, url: str, path: Path) -> None:
    names = [f"{row.version:04} {row.name}" for row in load_migrations("sqlite")]
    first = run("db", "migrate", "--store", url)
    assert first.exit_code == 0
    assert first.stdout.splitlines() == [*names, "Up to date."]
    assert "responses" in tables(path)
    assert run("db", "migrate", "--store", url).stdout == "Up to date; no migration was missing.\n"


def test_the_missing_sql_is_printed_and_not_run(run: Run, url: str, path: Path) -> None:
    result = run("db", "migrate", "--print", "--store", url)
    assert result.exit_code == 0
    assert "CREATE TABLE responses" in result.stdout
    assert "responses" not in tables(path)
    run("db", "migrate", "--store", url)
    assert run("db", "migrate", "--print", "--store", url).stdout == ""


def test_the_status_lists_missing_migrations(run: Run, url: str) -> None:
    before = run("db", "status", "--store", url)
    assert before.exit_code == 0
    assert before.stdout.splitlines()[1].split() == ["0001", "initial", "no"]
    assert before.stdout.endswith("antiphon db migrate\n")
    run("db", "migrate", "--store", url)
    after = run("db", "status", "--store", url)
    assert after.stdout.splitlines()[1].split() == ["0001", "initial", "yes"]
    assert re.search(rf"{re.escape(url)}, [\d.]+ MB\n$", after.stdout)


def test_the_status_as_json(run: Run, url: str) -> None:
    run("db", "migrate", "--store", url)
    status = json.loads(run("db", "status", "--json", "--store", url).stdout)
    assert status["store"] == url
    assert status["size"] > 0
    assert status["migrations"][0] == {"version": 1, "name": "initial", "applied": True}


def test_a_vacuum_prints_the_size_before_and_after(run: Run, url: str) -> None:
    turns = [turn(f"resp_{n}", prompt="x" * 100_000) for n in range(20)]
    save_responses(url, *turns)

    async def forget(store: Stores) -> None:
        for stored in turns:
            await store.responses.delete("default", stored.response.id)

    in_store(url, forget)
    result = run("db", "vacuum", "--store", url)
    sizes = re.fullmatch(r"([\d.]+) MB before, ([\d.]+) MB now\.\n", result.stdout)
    assert sizes is not None
    assert float(sizes[2]) < 1 < float(sizes[1])


def test_a_password_is_not_shown(run: Run) -> None:
    result = run("db", "status", "--store", "postgresql://me:hunter2@127.0.0.1:1/x")
    assert result.exit_code != 0
    assert "hunter2" not in result.output
    assert "Traceback" not in result.output


def test_a_folder_that_cannot_exist_is_reported_in_one_line(run: Run, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    result = run("db", "status", "--store", f"sqlite:{tmp_path / 'file' / 'kept.db'}")
    assert result.exit_code != 0
    assert len(result.stderr.splitlines()) == 1
    assert result.stderr.startswith("Error: ")
