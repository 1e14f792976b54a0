"""Structure-aware fuzzing of every route; `python -m tests.fuzz --requests 100000` does more of the same."""

import random
from pathlib import Path

import pytest

from antiphon.server.routes.table import ROUTES
from tests.fuzz.pool import Pool
from tests.fuzz.routes import OPERATOR_KEY, SOCKET, Routes
from tests.fuzz.run import IN_MEMORY_ONLY, FuzzResult, fuzz, fuzz_process
from tests.fuzz.server import fuzzed_server
from tests.serving import run_server
from tests.upstream import run_upstream

LEAST_ACCEPTED = 1 / 3
"""The least share of requests on each route that get past validation."""
LEAST_ACCEPTED_OF_FEW = 1 / 20
"""The same of the few requests that each route gets over HTTP. The least seen is 0.1."""
NOT_RECORDED = {"GET /v1/responses/{id}/trace", "POST /v1/agent/runs/{id}/approvals"}
"""Few of the requests over HTTP are recorded, and no tool of the agent needs an approval."""


def check(result: FuzzResult, names: set[str], least: float) -> None:
    assert result.faults == []
    shares = {name: tally.share for name, tally in result.tallies.items() if name in names}
    assert {name: share for name, share in shares.items() if share < least} == {}


async def test_every_registered_route_is_fuzzed() -> None:
    rng = random.Random(1)
    async with fuzzed_server(rng) as server:
        registered = server.route_names
    assert registered == {route.name for route in ROUTES}
    assert set(Routes(rng, Pool(rng)).names) == registered | {SOCKET}


async def test_a_few_hundred_requests_cause_no_internal_error() -> None:
    assert (await fuzz(seed=2, requests=800)).faults == []


@pytest.mark.slow
async def test_requests_on_every_route_cause_no_internal_error() -> None:
    result = await fuzz(seed=3, requests=28_000)
    check(result, set(result.tallies), LEAST_ACCEPTED)
    assert min(tally.requests for tally in result.tallies.values()) > 250


@pytest.mark.slow
@pytest.mark.xdist_group("fuzz")
async def test_requests_over_http_cause_no_internal_error(tmp_path: Path) -> None:
    environment = {"ANTIPHON_AGENT__MODEL": "m", "ANTIPHON_SERVER__API_KEYS": f'["{OPERATOR_KEY}"]'}
    with (
        run_upstream() as upstream,
        run_server(tmp_path, "--upstream", upstream.url, environment=environment) as served,
    ):
        result = await fuzz_process(4, 4000, f"http://127.0.0.1:{served.port}", listed_model="echo")
        log = served.log.read_text()
    check(result, set(result.tallies) - IN_MEMORY_ONLY - NOT_RECORDED, LEAST_ACCEPTED_OF_FEW)
    assert "Traceback" not in log
