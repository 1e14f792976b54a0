"""Builds the codex backend from the settings."""

import os
from collections.abc import Mapping
from pathlib import Path

from antiphon.backends.codex_app_server.backend import CodexBackend, Limits
from antiphon.backends.codex_app_server.process import ChildOptions
from antiphon.backends.codex_app_server.request import ThreadOptions
from antiphon.settings import PREFIX, Settings
from antiphon.wiring.folders import data_folder


def make_codex_backend(settings: Settings) -> CodexBackend:
    """`codex app-server` as a backend; it is started at its first turn."""
    codex = settings.codex
    folder = Path(codex.folder).expanduser().resolve() if codex.folder else data_folder() / "codex"
    return CodexBackend(
        ChildOptions(
            command=os.path.expanduser(codex.command),
            environment=_environment(os.environ, codex.home),
            folder=folder,
            handshake_timeout=codex.handshake_timeout,
        ),
        ThreadOptions(folder=str(folder), sandbox=codex.sandbox, own_tools=codex.own_tools),
        Limits(
            turns=codex.turns,
            silence=codex.silence_timeout,
            tools=codex.tool_timeout,
            heartbeat=settings.server.heartbeat,
        ),
    )


def _environment(ours: Mapping[str, str], home: str) -> dict[str, str]:
    """The environment of codex. It runs commands that a model wrote, so our settings and keys are removed."""
    environment = {name: value for name, value in ours.items() if not name.startswith(PREFIX)}
    if home:
        environment["CODEX_HOME"] = str(Path(home).expanduser().resolve())
    return environment
