"""Checks whose findings need an unusual machine."""

from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from antiphon.cli.doctor import models, setup
from antiphon.cli.doctor.models import check_engine, check_generation, check_weights
from antiphon.cli.doctor.setup import check_packages, check_terminal
from antiphon.cli.startup.checks import check_agent
from antiphon.extras import install_command
from antiphon.settings import AgentSettings, LocalSettings, Settings


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
