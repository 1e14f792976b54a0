"""Commands run in an empty folder, with empty settings and their own data folder."""

import logging
import os
import socket
from collections.abc import Callable, Generator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from antiphon.cli.root import main
from tests.cli.upstream import ScriptedUpstream, scripted_upstream

Run = Callable[..., Result]


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in os.environ:
        if name.startswith("ANTIPHON_") or name.endswith("_API_KEY"):
            monkeypatch.delenv(name)
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")


@pytest.fixture(autouse=True)
def quiet_logging() -> Generator[None, None, None]:
    """Restore the root logger after each test."""
    root_logger = logging.getLogger()
    handlers, level = root_logger.handlers[:], root_logger.level
    yield
    root_logger.handlers[:] = handlers
    root_logger.setLevel(level)


@pytest.fixture
def upstream() -> Generator[ScriptedUpstream, None, None]:
    with scripted_upstream() as upstream:
        yield upstream


@pytest.fixture
def no_running_server(monkeypatch: pytest.MonkeyPatch) -> Generator[None, None, None]:
    """Commands look for a server on a port on which nothing listens, and for no other programs."""
    monkeypatch.setenv("ANTIPHON_DISCOVERY__ADDRESSES", "[]")
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        monkeypatch.setenv("ANTIPHON_SERVER__PORT", str(held.getsockname()[1]))
        yield


@pytest.fixture
def run() -> Run:
    """Run a command in this process; its standard error is separate."""

    def run(*arguments: str, input: str | bytes | None = None) -> Result:
        return CliRunner().invoke(main, arguments, input=input, prog_name="antiphon")

    return run
