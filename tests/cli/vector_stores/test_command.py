"""`antiphon vector-stores`: stores are created, listed, shown, reindexed and deleted."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.cli.vector_stores.conftest import EmbeddingModel


def test_a_store_is_created_and_listed(run: Run, model: EmbeddingModel) -> None:
    created = run("vector-stores", "create", "handbook", "--expires-after", "7", "--description", "Rules")
    assert created.stdout.startswith("vs_")
    [stored] = json.loads(run("vector-stores", "list", "--json").stdout)
    assert (stored["id"], stored["name"], stored["model"]) == (created.stdout.strip(), "handbook", "theirs")
    assert (stored["expires_after"]["days"], stored["description"]) == (7, "Rules")
    headings, row = (line.split() for line in run("vector-stores", "list").stdout.splitlines())
    assert headings == ["name", "id", "files", "size", "model", "last", "used"]
    assert row[:6] == ["handbook", stored["id"], "none", "0", "B", "theirs"]


def test_files_are_counted_by_status_and_shown_with_reasons(
    run: Run, model: EmbeddingModel, docs: Path
) -> None:
    (docs / "broken.pdf").write_bytes(b"%PDF-1.4 nothing more")
    run("vector-stores", "add", "docs", "--store", "handbook")
    assert "2 completed, 1 failed" in run("vector-stores", "list").stdout
    shown = run("vector-stores", "show", "handbook").stdout
    assert "model       theirs\n" in shown
    [line] = [line for line in shown.splitlines() if line.startswith("docs/broken.pdf")]
    assert "failed" in line
    assert "The PDF is damaged" in line


def test_a_store_is_found_by_name_and_by_id(run: Run, model: EmbeddingModel) -> None:
    created = run("vector-stores", "create", "handbook").stdout.strip()
    assert created in run("vector-stores", "show", created).stdout
    assert created in run("vector-stores", "show", "handbook").stdout
    again = run("vector-stores", "create", "handbook")
    assert (again.exit_code, created in again.stderr) == (2, True)
    assert run("vector-stores", "show", "handbook", "--tenant", "acme").exit_code == 2
    assert "There is no vector store 'other'" in run("vector-stores", "show", "other").stderr


def test_a_store_is_deleted_after_asking(run: Run, model: EmbeddingModel, docs: Path) -> None:
    run("vector-stores", "add", "docs", "--store", "handbook")
    assert run("vector-stores", "delete", "handbook", input="n\n").exit_code == 1
    deleted = run("vector-stores", "delete", "handbook", input="y\n")
    assert deleted.stdout == "Deleted the vector store 'handbook'.\n"
    assert "has no vector stores" in run("vector-stores", "list").stdout
    assert len(json.loads(run("files", "list", "--json").stdout)) == 2
    run("vector-stores", "add", "docs", "--store", "handbook")
    run("vector-stores", "delete", "handbook", "--files", "--yes")
    assert len(json.loads(run("files", "list", "--json").stdout)) == 2
    assert run("vector-stores", "delete", "handbook", "--yes").exit_code == 2


def test_a_store_moves_to_another_embedding_model(
    run: Run, model: EmbeddingModel, docs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("vector-stores", "add", "docs", "--store", "handbook")
    model.requests.clear()
    result = run("vector-stores", "reindex", "handbook", "--model", "other")
    assert result.exit_code == 0
    assert "completed  docs/holidays.md" in result.stderr
    assert ": 2 added, 0 unchanged, 0 failed." in result.stdout
    assert {request["model"] for request in model.requests} == {"other"}
    assert "other" in run("vector-stores", "list").stdout
    assert "28 days" in run("vector-stores", "search", "handbook", "days").stdout
    assert run("vector-stores", "reindex", "handbook", "--model", "none").exit_code == 2
    model.refused = "Trains"
    failed = run("vector-stores", "reindex", "handbook")
    assert (failed.exit_code, "docs/money/expenses.md: The embedding" in failed.stderr) == (1, True)
