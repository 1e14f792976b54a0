"""`antiphon vector-stores add`: new and changed files are sent, the others are not; it continues after Ctrl-C."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from antiphon.jobs.process_lock import ProcessLock, lock_path
from tests.cli.conftest import Run
from tests.cli.terminal import terminal
from tests.cli.vector_stores.conftest import EmbeddingModel
from tests.serving import run_server

WAIT_SECONDS = 60.0


def add(run: Run, *arguments: str, code: int = 0) -> dict[str, Any]:
    result = run("vector-stores", "add", *arguments, "--store", "handbook", "--json")
    assert result.exit_code == code, result.output
    return json.loads(result.stdout)


def shown(run: Run) -> dict[str, Any]:
    return json.loads(run("vector-stores", "show", "handbook", "--json").stdout)


def paths(run: Run) -> list[str]:
    return sorted(file["attributes"]["path"] for file in shown(run)["files"])


def test_a_folder_is_added_to_a_new_store(run: Run, model: EmbeddingModel, docs: Path) -> None:
    (docs / "photo.png").write_bytes(b"\x89PNG\r\n\x1a\n" + b"x" * 100)
    (docs / "empty.txt").touch()
    result = run("vector-stores", "add", "docs", "--store", "handbook")
    assert result.exit_code == 0
    assert "Created the vector store handbook for vectors of theirs." in result.stderr
    assert "Skipped 2 files" in result.stderr
    assert "completed  docs/money/expenses.md" in result.stderr
    assert ": 2 added, 0 unchanged, 0 failed." in result.stdout
    store = shown(run)
    assert (store["model"], store["dimensions"], store["file_counts"]["completed"]) == ("theirs", 64, 2)
    assert paths(run) == ["docs/holidays.md", "docs/money/expenses.md"]


def test_only_new_and_changed_files_are_sent(
    run: Run, model: EmbeddingModel, docs: Path, tmp_path: Path
) -> None:
    add(run, "docs")
    before = [file["id"] for file in shown(run)["files"]]
    model.requests.clear()
    again = add(run, "docs")
    assert (again["added"], again["unchanged"], model.requests) == ([], 2, [])
    assert [file["id"] for file in shown(run)["files"]] == before
    (docs / "holidays.md").write_text("# Holidays\n\nEverybody has 30 days now.\n")
    (docs / "new.md").write_text("Something else.\n")
    changed = add(run, "docs")
    assert (sorted(changed["added"]), changed["unchanged"]) == (["docs/holidays.md", "docs/new.md"], 1)
    assert len(model.texts) == 2
    assert paths(run) == ["docs/holidays.md", "docs/money/expenses.md", "docs/new.md"]
    found = json.loads(run("vector-stores", "search", "handbook", "days", "--json").stdout)
    assert ["30 days" in hit["text"] for hit in found if hit["filename"] == "holidays.md"] == [True]
    assert len(json.loads(run("files", "list", "--json").stdout)) == 3  # the version before is deleted
    with closing(sqlite3.connect(tmp_path / "kept.db")) as database:  # and erased, without a server
        for table, rows in {"chunks": 3, "jobs": 0}.items():
            assert database.execute(f"SELECT count(*) FROM {table}").fetchone() == (rows,)


def test_failures_are_listed_and_tried_again(run: Run, model: EmbeddingModel, docs: Path) -> None:
    (docs / "broken.pdf").write_bytes(b"%PDF-1.4 nothing more")
    model.refused = "Trains"
    result = run("vector-stores", "add", "docs", "--store", "handbook")
    assert result.exit_code == 1
    assert "failed     docs/broken.pdf" in result.stderr
    assert "docs/broken.pdf: The PDF is damaged" in result.stderr
    assert "docs/money/expenses.md: The embedding model does not take the text" in result.stderr
    assert ": 1 added, 0 unchanged, 2 failed." in result.stdout
    model.refused = ""
    (docs / "broken.pdf").unlink()
    again = add(run, "docs")
    assert (again["added"], again["unchanged"]) == (["docs/money/expenses.md"], 1)
    assert len(json.loads(run("files", "list", "--json").stdout)) == 3  # and the failed one stays


def test_the_version_before_is_found_until_the_new_one_is_completed(
    run: Run, model: EmbeddingModel, docs: Path
) -> None:
    add(run, "docs")
    model.refused = "30"
    (docs / "holidays.md").write_text("# Holidays\n\nEverybody has 30 days now.\n")
    assert list(add(run, "docs", code=1)["failed"]) == ["docs/holidays.md"]
    found = json.loads(run("vector-stores", "search", "handbook", "holidays", "--json").stdout)
    assert "28 days" in found[0]["text"]


def test_attributes_are_those_of_all_files(run: Run, model: EmbeddingModel, docs: Path) -> None:
    add(run, "docs", "--attribute", "year=2026", "--attribute", "kind=rules", "--attribute", "open=true")
    files = shown(run)["files"]
    assert [{**file["attributes"], "path": ""} for file in files] == [
        {"year": 2026.0, "kind": "rules", "open": True, "path": ""}
    ] * 2
    add(run, "docs/holidays.md", "--attribute", "year=2027")
    assert sorted(file["attributes"]["year"] for file in shown(run)["files"]) == [2026.0, 2027.0]
    assert add(run, "docs")["unchanged"] == 2
    assert sorted(file["attributes"]["year"] for file in shown(run)["files"]) == [2026.0, 2027.0]


def test_a_file_elsewhere_has_the_path_below_the_folder_that_was_named(
    run: Run, model: EmbeddingModel, tmp_path: Path
) -> None:
    folder = tmp_path / "elsewhere" / "notes"
    folder.mkdir(parents=True)
    (folder / "a.txt").write_text("Some text.")
    add(run, str(folder))
    assert paths(run) == ["notes/a.txt"]


def test_bad_input_is_wrong_usage(run: Run, model: EmbeddingModel, docs: Path, tmp_path: Path) -> None:
    (tmp_path / "bare").mkdir()
    for arguments in (
        ("missing", "--store", "handbook"),
        ("docs",),
        (str(tmp_path / "bare"), "--store", "handbook"),
        ("docs", "--store", "handbook", "--attribute", "year"),
        ("docs", "--store", "handbook", "--attribute", "path=x"),
        ("docs", "--store", "handbook", "--database", "memory:"),
    ):
        assert run("vector-stores", "add", *arguments).exit_code == 2, arguments
    assert "has no vector stores" in run("vector-stores", "list").stdout


def test_a_store_of_a_model_that_is_not_served_takes_no_files(
    run: Run, model: EmbeddingModel, docs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("vector-stores", "create", "handbook")
    monkeypatch.setenv("ANTIPHON_UPSTREAMS", os.environ["ANTIPHON_UPSTREAMS"].replace('"theirs",', ""))
    result = run("vector-stores", "add", "docs", "--store", "handbook")
    assert result.exit_code == 2
    assert "vectors of the embedding model 'theirs'" in result.stderr
    assert "has no files" in run("files", "list").stdout


@pytest.mark.requirement("VECTOR-STORES/command-continues")
@pytest.mark.slow
def test_the_same_command_continues_after_an_interruption(
    run: Run, model: EmbeddingModel, docs: Path
) -> None:
    (docs / "aaa.md").write_text("The first one.\n")
    add(run, "docs/aaa.md")
    model.requests.clear()
    model.may_answer.clear()
    command = [sys.executable, "-m", "antiphon.cli", "vector-stores", "add", "docs", "--store", "handbook"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    watch = threading.Timer(WAIT_SECONDS, process.kill)
    watch.start()
    assert process.stderr is not None
    for line in process.stderr:
        if "The file waits for the embedding model 'theirs'" in line:
            process.send_signal(signal.SIGINT)
            break
    _, printed = process.communicate(timeout=WAIT_SECONDS)
    watch.cancel()
    assert process.returncode == 130
    assert "The same command continues from here." in printed
    assert "Traceback" not in printed
    counts = shown(run)["file_counts"]
    assert (counts["completed"], counts["in_progress"]) == (1, 2)
    model.may_answer.set()
    again = add(run, "docs")
    assert (sorted(again["added"]), again["unchanged"]) == (
        ["docs/holidays.md", "docs/money/expenses.md"],
        1,
    )
    assert len(json.loads(run("files", "list", "--json").stdout)) == 3  # none was sent twice
    assert not any("first one" in text for text in model.texts)


@pytest.mark.slow
def test_a_running_server_does_the_work(run: Run, model: EmbeddingModel, docs: Path, tmp_path: Path) -> None:
    with run_server(tmp_path, "--log-level", "warning") as served:
        wait_until_locked(tmp_path / "kept.db")
        assert sorted(add(run, "docs")["added"]) == ["docs/holidays.md", "docs/money/expenses.md"]
        assert served.process.poll() is None
    assert ": 0 added, 2 unchanged" in run("vector-stores", "add", "docs", "--store", "handbook").stdout


def wait_until_locked(database: Path) -> None:
    """Until the server works on the jobs of this file."""
    lock = ProcessLock(lock_path(database))
    deadline = time.monotonic() + WAIT_SECONDS
    while lock.acquire():
        lock.release()
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.slow
def test_bars_show_the_progress_on_a_terminal(model: EmbeddingModel, docs: Path) -> None:
    model.may_answer.clear()
    with terminal("vector-stores", "add", "docs", "--store", "handbook") as screen:
        screen.expect("all files", "holidays.md", "indexed")
        model.may_answer.set()
        screen.expect("2 added, 0 unchanged, 0 failed.")
        assert screen.finish() == 0
