"""Approvals of agent runs across kill -9 and across replicas: a run waits in the store, each approved call runs
once, and no call runs without its approval.
"""

import os
import signal
import time
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.postgres import PostgresServer
from tests.serving import Served
from tests.state.agent_client import TASK, JsonObject, call_api, check_run
from tests.state.test_agent_crash import SHARED, serving
from tests.upstream import Upstream, run_upstream

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("agent_crash")]

ASKING = {"ANTIPHON_AGENT__APPROVE_TOOLS": '["write_line"]'}
WAIT_SECONDS = 60


@pytest.fixture(scope="module")
def upstream() -> Generator[Upstream, None, None]:
    with run_upstream() as running:
        yield running


def waiting(base_url: str, *answered: str) -> JsonObject:
    """The next approval that waits, other than those that were answered."""
    end = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < end:
        found = [each for each in call_api(base_url, "/approvals")["data"] if each["id"] not in answered]
        if found:
            return found[0]
        time.sleep(0.05)
    raise AssertionError("the run does not wait")


def approve(base_url: str, approval: JsonObject) -> None:
    body = {"approval_request_id": approval["id"], "approve": True}
    call_api(base_url, f"/agent/runs/{approval['run_id']}/approvals", body)


def kill(served: Served) -> None:
    os.kill(served.process.pid, signal.SIGKILL)
    served.process.wait(10)


def lines(folder: Path) -> list[str]:
    notes = folder / "notes"
    return notes.read_text().split() if notes.exists() else []


def test_a_run_waits_across_kills_and_runs_each_approved_call_once(
    upstream: Upstream, tmp_path: Path
) -> None:
    with serving(tmp_path, upstream, **ASKING) as served:
        run_id = call_api(served.base_url, "/agent/runs", TASK)["id"]
        first = waiting(served.base_url)
        kill(served)
    assert lines(tmp_path) == []
    with serving(tmp_path, upstream, **ASKING) as served:
        assert waiting(served.base_url) == first
        assert call_api(served.base_url, f"/agent/runs/{run_id}")["status"] == "waiting"
        approve(served.base_url, first)
        second = waiting(served.base_url, first["id"])
        assert lines(tmp_path) == ["one"]
        kill(served)
    with serving(tmp_path, upstream, **ASKING) as served:
        approve(served.base_url, second)
        outcomes = check_run(served.base_url, run_id, tmp_path / "notes", [])
    assert outcomes == {"call_1": "ok", "call_2": "ok", "call_3": "ok"}
    assert lines(tmp_path) == ["one", "two"]


@pytest.fixture
def database(postgres: PostgresServer) -> Generator[str, None, None]:
    with postgres.database() as url:
        yield url


@pytest.mark.requirement("HOSTED/mcp-agent-approvals")
def test_any_replica_takes_the_answer_and_continues(
    upstream: Upstream, database: str, tmp_path: Path
) -> None:
    homes = {name: tmp_path / name for name in ("a", "b")}
    settings = {**SHARED, **ASKING, "NOTES": str(tmp_path / "notes")}
    for home in homes.values():
        home.mkdir()
    with serving(homes["b"], upstream, database, **settings) as second:
        with serving(homes["a"], upstream, database, **settings) as first:
            run_id = call_api(first.base_url, "/agent/runs", TASK)["id"]
            one = waiting(second.base_url)
            approve(second.base_url, one)
            two = waiting(first.base_url, one["id"])
            kill(first)
        approve(second.base_url, two)
        outcomes = check_run(second.base_url, run_id, tmp_path / "notes", [])
    assert outcomes == {"call_1": "ok", "call_2": "ok", "call_3": "ok"}
    assert lines(tmp_path) == ["one", "two"]
