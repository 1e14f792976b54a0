"""The codex backend from the settings."""

from pathlib import Path

import pytest

from antiphon.errors import BackendBroken
from antiphon.settings import CodexSettings, Settings
from antiphon.wiring.codex import make_codex_backend


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
