"""The real codex with a scripted model behind Antiphon: the complete path, without a network."""

import os
import shutil
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from antiphon import Route, ScriptedBackend, Settings
from antiphon.backends.codex_app_server.backend import CodexBackend
from antiphon.backends.codex_app_server.thread import QUIET_SECONDS
from antiphon.settings import CodexSettings, SealSettings, StoreSettings
from antiphon.wiring import build_app
from antiphon.wiring.codex import make_codex_backend
from tests.uvicorn_here import serve_here

TEST_TIMEOUT_SECONDS = 60.0
REQUIRED = "CLIENTS_REQUIRED"
"""The variable that turns a missing client into a failure."""
ROOT = Path(__file__).parents[2]
SETTINGS = Settings(seal=SealSettings(key="test"), store=StoreSettings(url="none"))
CONFIG = """
model = "m"
model_provider = "antiphon"

[model_providers.antiphon]
name = "Antiphon"
base_url = "http://127.0.0.1:{port}/v1"
wire_api = "responses"
request_max_retries = 0
stream_max_retries = {retries}
"""

Driving = Callable[..., AbstractAsyncContextManager[CodexBackend]]


def required_report(report: pytest.TestReport) -> pytest.TestReport:
    """A skipped test becomes a failed one: `make test-clients` has installed all clients."""
    if report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped, but every client must be driven: {report.longrepr}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turn skips into failures where all clients are required."""
    report = yield
    return required_report(report) if os.environ.get(REQUIRED) else report


def find_codex() -> str | None:
    """The path of the real binary, if it is installed."""
    installed = ROOT / ".tools/clients/node_modules/.bin/codex"
    named = os.environ.get("ANTIPHON_CODEX")
    if named and shutil.which(named) is None:
        pytest.fail(f"ANTIPHON_CODEX is '{named}', which is not a program")
    return named or (str(installed) if installed.exists() else shutil.which("codex"))


@asynccontextmanager
async def provider(model: ScriptedBackend) -> AsyncGenerator[int, None]:
    """The port of an Antiphon that serves `model` as `m`."""

    def app() -> Any:
        return build_app(SETTINGS, routes=[Route("m", model)])

    async with serve_here(app) as here:
        yield here.port


@pytest.fixture
def codex(tmp_path: Path) -> Driving:
    """Opens the backend on the real binary, with its own home and this model."""
    command = find_codex()
    if command is None:
        pytest.skip("codex is not installed: `make test-clients` installs it")

    @asynccontextmanager
    async def drive(
        model: ScriptedBackend, *, retries: int = 0, quiet: float = QUIET_SECONDS, **changes: Any
    ) -> AsyncGenerator[CodexBackend, None]:
        home = tmp_path / "home"
        home.mkdir()
        async with provider(model) as port:
            (home / "config.toml").write_text(CONFIG.format(port=port, retries=retries))
            folder = str(tmp_path / "work")
            settings = CodexSettings(command=command, home=str(home), folder=folder, **changes)
            backend = make_codex_backend(Settings(codex=settings))
            backend.limits = replace(backend.limits, quiet=quiet)
            try:
                yield backend
            finally:
                await backend.aclose()

    return drive
