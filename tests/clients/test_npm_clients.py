"""The common JavaScript clients, each run through all scenarios."""

import shutil
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.clients.programs import JS, NODE_MODULES, NPM_CLIENTS, Client, Programs, running_programs
from tests.clients.scenarios import SCENARIOS, Scenario
from tests.clients.world import World, run_world

pytestmark = [
    pytest.mark.slow,
    pytest.mark.clients,
    pytest.mark.xdist_group("npm-clients"),
    pytest.mark.skipif(
        not (NODE_MODULES / "ai").exists(), reason="not installed: `make test-clients` installs them"
    ),
]

CASES = [
    pytest.param(client, scenario, id=f"{client.name}-{scenario.name}")
    for client in NPM_CLIENTS
    for scenario in SCENARIOS
    if scenario.name not in client.lacks
]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Generator[World, None, None]:
    with run_world(tmp_path_factory.mktemp("world")) as world:
        yield world


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Generator[Programs, None, None]:
    with running_programs(folder_with_packages(tmp_path_factory.mktemp("programs"))) as programs:
        yield programs


def folder_with_packages(folder: Path) -> Path:
    """A folder with the programs and, as node requires, their packages."""
    for program in JS.glob("*.mjs"):
        shutil.copy(program, folder)
    (folder / "node_modules").symlink_to(NODE_MODULES)
    return folder


@pytest.mark.parametrize(("client", "scenario"), CASES)
def test_a_client(world: World, programs: Programs, client: Client, scenario: Scenario) -> None:
    world.run(programs(client), scenario)


def test_the_ai_sdk_refers_to_stored_items(world: World, programs: Programs) -> None:
    """It does so by default: the scenarios above show that the server accepts it."""
    (client,) = [client for client in NPM_CLIENTS if client.name == "AI SDK"]
    for scenario, reference in (("reasoning", True), ("reasoning, nothing stored", False)):
        result = programs(client).run(scenario, world.server.base_url)
        assert ("item_reference" in result["sent"]) is reference
