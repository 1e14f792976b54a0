"""Checks whose findings need an unusual machine."""

from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from antiphon.cli.doctor import models, setup
from antiphon.cli.doctor.models import check_embeddings, check_engine, check_generation, check_weights
from antiphon.cli.doctor.setup import check_packages, check_terminal
from antiphon.cli.startup.checks import check_agent
from antiphon.embeddings.minilm import MODEL_FILE, TOKENIZER_FILE
from antiphon.extras import install_command
from antiphon.settings import AgentSettings, LocalSettings, Settings
from antiphon.settings.sections import EmbeddingsSettings
from antiphon.wiring import embeddings as wiring_embeddings


def nothing_installed(name: str) -> str:
    raise PackageNotFoundError(name)


def test_a_missing_package_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(setup, "version", nothing_installed)
    check = check_packages()
    assert check.status == "failed"
    assert "missing: click" in check.found


def test_a_missing_engine_is_reported_with_the_package_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "version", nothing_installed)
    check = check_engine()
    assert check.status == "failed"
    assert install_command("local") in check.advice


def test_an_unknown_model_is_reported() -> None:
    check = check_weights(Settings(local=LocalSettings(model="gpt-9")))
    assert check.status == "failed"
    assert "unknown model 'gpt-9'" in check.advice


def test_a_custom_file_has_no_checksum_check(tmp_path: Path) -> None:
    path = tmp_path / "mine.gguf"
    path.touch()
    check = check_weights(Settings(local=LocalSettings(model=str(path))))
    assert check.status == "ok"
    assert "your own file" in check.found


@pytest.mark.slow
async def test_a_file_that_is_not_a_model_fails_with_a_message(tmp_path: Path) -> None:
    path = tmp_path / "mine.gguf"
    path.write_bytes(b"GGUF and then nothing")
    check = await check_generation(Settings(local=LocalSettings(model=str(path))))
    assert check.status == "failed"
    assert "cannot be loaded" in check.found


@pytest.mark.parametrize(("encoding", "warning"), [("utf-8", False), ("UTF8", False), ("ascii", True)])
def test_a_terminal_without_utf8_is_a_warning(encoding: str, warning: bool) -> None:
    assert (check_terminal(encoding) is not None) is warning


def test_an_agent_that_cannot_be_built_is_reported() -> None:
    broken = check_agent(Settings(agent=AgentSettings(tools=("nope:x",))))
    assert (broken.status, "nope" in broken.found) == ("failed", True)
    assert check_agent(Settings()).status == "ok"


def test_embedding_models_are_named_with_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(wiring_embeddings, "is_installed", lambda: False)
    none = check_embeddings(Settings())
    assert none.status == "ok"
    assert install_command("retrieval") in none.found
    demanded = check_embeddings(Settings(embeddings=EmbeddingsSettings(local=True)))
    assert demanded.status == "failed"
    monkeypatch.setattr(wiring_embeddings, "is_installed", lambda: True)
    absent = check_embeddings(Settings())
    assert absent.status == "warning"
    assert "antiphon model fetch all-minilm-l6-v2" in absent.advice
    folder = tmp_path / "antiphon" / "models"
    folder.mkdir(parents=True)
    for file in (MODEL_FILE, TOKENIZER_FILE):
        (folder / file.file).touch()
    here = check_embeddings(Settings())
    assert (here.status, here.found) == ("ok", "all-minilm-l6-v2; auto: all-minilm-l6-v2")
