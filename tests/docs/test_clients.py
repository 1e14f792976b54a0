"""The table of clients is complete, and every cell refers to an existing test."""

import json
import re
import subprocess
import sys
import tomllib
from functools import cache
from importlib.metadata import version

import pytest

from tests.clients.programs import JS, NPM_CLIENTS, OPENAI_2, PYTHON_CLIENTS, ROOT, Client
from tests.clients.scenarios import SCENARIOS

CLIENTS = [*PYTHON_CLIENTS, *NPM_CLIENTS]
FIELDS = {"client", "version", "feature", "status", "test", "note"}
MANIFEST = ROOT / "docs/requirements/clients.toml"
CELLS: list[dict[str, str]] = tomllib.loads(MANIFEST.read_text(encoding="utf-8"))["cell"]


def version_of(client: Client) -> str:
    """The version that the tests drive."""
    if client in NPM_CLIENTS:
        return json.loads((JS / "package.json").read_text())["dependencies"][client.package]
    if OPENAI_2 in client.path:
        pinned = (ROOT / "tests/clients/openai-2.txt").read_text()
        (found,) = re.findall(r"^openai==(\S+)", pinned, re.MULTILINE)
        return found
    return version(client.package)


def cells_of(client: Client) -> dict[str, dict[str, str]]:
    return {cell["feature"]: cell for cell in CELLS if cell["client"] == client.name}


@cache
def known_tests() -> set[str]:
    """The ids of all tests in the files that the table names."""
    files = sorted({cell["test"].partition("::")[0] for cell in CELLS if cell["test"]})
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *files]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 0, ran.stdout
    return set(ran.stdout.splitlines())


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_every_client_has_a_cell_for_every_scenario(client: Client) -> None:
    cells = cells_of(client)
    for scenario in SCENARIOS:
        cell = cells[scenario.name]
        if scenario.name in client.lacks:
            assert (cell["status"], cell["note"]) == ("no", client.lacks[scenario.name])
        else:
            assert cell["test"].endswith(f"::test_a_client[{client.name}-{scenario.name}]")


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_the_version_is_the_one_that_is_driven(client: Client) -> None:
    assert {cell["version"] for cell in cells_of(client).values()} == {version_of(client)}


def test_the_version_of_codex_is_the_one_that_is_driven() -> None:
    pinned = json.loads((JS / "package.json").read_text())["dependencies"]["@openai/codex"]
    assert {cell["version"] for cell in CELLS if cell["client"] == "Codex CLI"} == {pinned}


@pytest.mark.parametrize(
    ("client", "package"),
    [
        ("anthropic (Messages)", "anthropic"),
        ("openai-python (chat)", "openai"),
        ("openai-agents (chat)", "openai-agents"),
        ("langchain-openai (chat)", "langchain-openai"),
        ("pydantic-ai (chat)", "pydantic-ai-slim"),
    ],
)
def test_the_version_on_compatible_endpoints_is_the_tested_one(client: str, package: str) -> None:
    assert {cell["version"] for cell in CELLS if cell["client"] == client} == {version(package)}


def test_the_version_of_claude_code_is_the_one_that_is_driven() -> None:
    pinned = json.loads((JS / "package.json").read_text())["dependencies"]["@anthropic-ai/claude-code"]
    assert {cell["version"] for cell in CELLS if cell["client"] == "Claude Code"} == {pinned}


def test_a_cell_is_well_formed() -> None:
    for cell in CELLS:
        assert set(cell) == FIELDS, cell
        assert cell["status"] in ("works", "partly", "no"), cell
        assert cell["test"] or cell["status"] == "no", cell
        assert cell["note"] or cell["status"] == "works", cell


def test_no_cell_is_there_twice() -> None:
    named = [(cell["client"], cell["feature"]) for cell in CELLS]
    assert len(named) == len(set(named))


def test_every_cell_names_a_test_that_exists() -> None:
    known = known_tests()
    base = {test.partition("[")[0] for test in known}
    assert [cell["test"] for cell in CELLS if cell["test"] and cell["test"] not in known | base] == []


def test_the_lock_of_the_npm_clients_names_no_registry() -> None:
    lock = json.loads((JS / "package-lock.json").read_text())
    installed = {name: package for name, package in lock["packages"].items() if name}
    assert installed
    assert [name for name, package in installed.items() if "resolved" in package] == []
    assert [name for name, package in installed.items() if "integrity" not in package] == []
