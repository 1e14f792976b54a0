"""The codex backend from the settings."""

from pathlib import Path

import pytest

from antiphon.cli.doctor.models import check_codex
from antiphon.errors import BackendBroken
from antiphon.settings import CodexSettings, Settings
from antiphon.wiring.codex import make_codex_backend
from tests.backends.codex_app_server.child_support import child_options


async def test_codex_gets_its_home_and_none_of_our_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTIPHON_SEAL__KEY", "canary")
    command = tmp_path / "codex"
    command.write_text('#!/bin/sh\nenv > "$CODEX_HOME/seen"\npwd >> "$CODEX_HOME/seen"\nexit 1\n')
    command.chmod(0o755)
    settings = CodexSettings(command=str(command), home=str(tmp_path), folder=str(tmp_path / "work"))
    backend = make_codex_backend(Settings(codex=settings))
    with pytest.raises(BackendBroken, match="exited with status 1"):
        await backend.models()
    await backend.aclose()
    seen = (tmp_path / "seen").read_text()
    assert "PATH=" in seen
    assert "canary" not in seen
    assert seen.endswith(f"{tmp_path / 'work'}\n")


@pytest.mark.parametrize(
    ("logged_out", "status", "message"),
    [
        (False, "ok", "it knows 2 models; the key of its model provider was not tested"),
        (True, "failed", "it knows 2 models, but it is not logged in"),
    ],
)
async def test_the_doctor_looks_at_the_login(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, logged_out: bool, status: str, message: str
) -> None:
    options = child_options(tmp_path, "answer")
    for name in ("PLAY", "STARTS", "NOTES"):
        monkeypatch.setenv(name, options.environment[name])
    if logged_out:
        monkeypatch.setenv("LOGGED_OUT", "1")
    settings = CodexSettings(command=options.command, folder=str(tmp_path / "work"))
    check = await check_codex(Settings(codex=settings))
    assert check.status == status
    assert check.found.endswith(message)
    assert ("codex login" in check.advice) == logged_out
