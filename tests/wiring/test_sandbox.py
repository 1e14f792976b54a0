"""Which sandbox containers get: bubblewrap where it works, Monty where it does not."""

import sys
from pathlib import Path

import pytest

from antiphon.sandbox.bubblewrap import Bubblewrap
from antiphon.sandbox.monty import Monty
from antiphon.sandbox.port import SandboxLimits
from antiphon.settings.hosted_tools import InterpreterSettings
from antiphon.wiring.sandbox import working_sandbox
from tests.sandbox.sandboxes import SMALL, bubblewrap

NOT_INSTALLED = "bubblewrap (bwrap) is not installed"


@pytest.fixture
def without_bubblewrap(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(_python: str | None) -> str:
        return NOT_INSTALLED

    monkeypatch.setattr("antiphon.wiring.sandbox.find_bubblewrap", missing)


async def test_bubblewrap_is_used_where_it_works() -> None:
    bubblewrap()
    assert isinstance(await working_sandbox(InterpreterSettings(), SMALL), Bubblewrap)


@pytest.mark.usefixtures("without_bubblewrap")
async def test_monty_is_used_where_bubblewrap_is_missing() -> None:
    assert isinstance(await working_sandbox(InterpreterSettings(), SMALL), Monty)


async def test_monty_is_used_where_bubblewrap_does_not_start() -> None:
    bubblewrap()
    limits = SandboxLimits(processes=0)
    assert isinstance(await working_sandbox(InterpreterSettings(), limits), Monty)
    refused = await working_sandbox(InterpreterSettings(sandbox="bubblewrap"), limits)
    assert "does not start" in str(refused)


@pytest.mark.usefixtures("without_bubblewrap")
async def test_without_both_the_reasons_are_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pydantic_monty", None)
    monkeypatch.delitem(sys.modules, "antiphon.sandbox.monty", raising=False)
    reasons = str(await working_sandbox(InterpreterSettings(), SMALL))
    assert NOT_INSTALLED in reasons
    assert "Monty is not installed" in reasons
    assert await working_sandbox(InterpreterSettings(sandbox="bubblewrap"), SMALL) == NOT_INSTALLED


@pytest.mark.usefixtures("without_bubblewrap")
async def test_a_sandbox_without_a_folder_for_files_is_not_served(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "missing"))
    assert "no folder for its files" in str(await working_sandbox(InterpreterSettings(), SMALL))


async def test_the_operator_can_choose_monty() -> None:
    assert isinstance(await working_sandbox(InterpreterSettings(sandbox="monty"), SMALL), Monty)
