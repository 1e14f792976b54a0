"""`antiphon files`: files are added, listed, shown and deleted."""

import json
from pathlib import Path
from typing import Any

import pytest

from antiphon.cli.terminal import format_size
from tests.cli.conftest import Run
from tests.cli.terminal import terminal


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The store is in the environment, so that the commands need no option."""
    monkeypatch.setenv("ANTIPHON_STORE__URL", f"sqlite:{tmp_path / 'kept.db'}")
    return tmp_path


def written(folder: Path, name: str, content: bytes = b"content") -> str:
    (folder / name).write_bytes(content)
    return str(folder / name)


def add(run: Run, *arguments: str) -> list[dict[str, Any]]:
    return json.loads(run("files", "add", "--json", *arguments).stdout)


def objects(folder: Path) -> list[Path]:
    return [path for path in (folder / "kept.db-files").rglob("*") if path.is_file()]


def test_files_are_added_and_listed(run: Run, folder: Path) -> None:
    first = run("files", "add", written(folder, "a.txt"))
    [line] = first.stdout.splitlines()
    name, path = line.split()
    assert (name.startswith("file-"), path) == (True, str(folder / "a.txt"))
    [batch] = add(run, "--purpose", "batch", written(folder, "b.jsonl", b"x" * 1500))
    assert (batch["filename"], batch["bytes"], batch["purpose"]) == ("b.jsonl", 1500, "batch")
    lines = [line.split() for line in run("files", "list").stdout.splitlines()]
    assert lines[0] == ["id", "filename", "purpose", "size", "age", "expires"]
    assert lines[1][:5] == [batch["id"], "b.jsonl", "batch", "1.5", "kB"]
    assert lines[1][-3] == "in"
    assert lines[2] == [name, "a.txt", "user_data", "7", "B", *lines[2][5:]]
    assert len(run("files", "list", "--limit", "1").stdout.splitlines()) == 2
    listed = json.loads(run("files", "list", "--purpose", "batch", "--json").stdout)
    assert [file["id"] for file in listed] == [batch["id"]]


def test_a_large_file_is_added_in_pieces(run: Run, folder: Path) -> None:
    content = bytes(range(256)) * 12_000
    [file] = add(run, written(folder, "large.bin", content))
    [stored] = objects(folder)
    assert stored.read_bytes() == content
    copy = folder / "copy.bin"
    run("files", "show", file["id"], "--output", str(copy))
    assert copy.read_bytes() == content


def test_a_file_is_shown(run: Run, folder: Path) -> None:
    [file] = add(run, "--expires", "2d", written(folder, "a.txt"))
    shown = run("files", "show", file["id"]).stdout
    assert f"id        {file['id']}\nfilename  a.txt\npurpose   user_data\nsize      7 B\n" in shown
    assert "expires   in 1 d" in shown
    assert json.loads(run("files", "show", file["id"], "--json").stdout) == file
    assert run("files", "show", file["id"], "--output", "-").stdout == "content"


def test_files_are_deleted_after_asking(run: Run, folder: Path) -> None:
    files = add(run, written(folder, "a.txt", b"a"), written(folder, "b.txt", b"b"))
    ids = [file["id"] for file in files]
    assert len(objects(folder)) == 2
    assert run("files", "delete", *ids, input="n\n").exit_code == 1
    assert run("files", "delete", ids[0], "file-none", "--yes").exit_code == 2
    assert len(objects(folder)) == 2
    assert run("files", "delete", *ids, input="y\n").stdout == "Deleted 2 files.\n"
    assert objects(folder) == []
    assert "Tenant default has no files." in run("files", "list").stdout


def test_a_tenant_sees_its_own_files(run: Run, folder: Path) -> None:
    [file] = add(run, "--tenant", "acme", written(folder, "a.txt"))
    assert "has no files" in run("files", "list").stdout
    assert file["id"] in run("files", "list", "--tenant", "acme").stdout
    assert run("files", "show", file["id"]).exit_code == 2


def test_bad_input_is_wrong_usage(run: Run, folder: Path) -> None:
    path = written(folder, "a.txt")
    for arguments in (
        (str(folder / "missing.txt"),),
        ("--purpose", "fun", path),
        ("--expires", "1min", path),
        ("--expires", "soon", path),
        ("--store", "memory:", path),
        (written(folder, "empty.txt", b""),),
    ):
        assert run("files", "add", *arguments).exit_code == 2, arguments
    assert objects(folder) == []


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (20_000_000, "20.0 MB"), (8 * 10**12, "8000.0 GB")],
)
def test_sizes_are_short(size: int, text: str) -> None:
    assert format_size(size) == text


@pytest.mark.slow
def test_a_bar_shows_the_progress_on_a_terminal(folder: Path) -> None:
    path = written(folder, "large.bin", b"x" * 30_000_000)
    with terminal("files", "add", path, environment={"XDG_DATA_HOME": str(folder)}) as screen:
        screen.expect("large.bin", "30.0", "MB", "file-")
        assert screen.finish() == 0
