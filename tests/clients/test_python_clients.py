"""The common Python clients, each run through all scenarios."""

from collections.abc import Generator

import pytest

from tests.clients.programs import OPENAI_2, PYTHON_CLIENTS, Client, Programs, running_programs
from tests.clients.scenarios import SCENARIOS, Scenario
from tests.clients.world import World, run_world

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("python-clients")]

CASES = [
    pytest.param(client, scenario, id=f"{client.name}-{scenario.name}")
    for client in PYTHON_CLIENTS
    for scenario in SCENARIOS
    if scenario.name not in client.lacks
]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Generator[World, None, None]:
    with run_world(tmp_path_factory.mktemp("world")) as world:
        yield world


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Generator[Programs, None, None]:
    with running_programs(tmp_path_factory.mktemp("programs")) as programs:
        yield programs


@pytest.mark.parametrize(("client", "scenario"), CASES)
def test_a_client(world: World, programs: Programs, client: Client, scenario: Scenario) -> None:
    if OPENAI_2 in client.path and not OPENAI_2.exists():
        pytest.skip("the older openai is not installed: `make test` installs it")
    world.run(programs(client), scenario)
