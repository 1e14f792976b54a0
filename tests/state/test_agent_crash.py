"""kill -9 during an agent's run, at every write to the database and within a tool: the run resumes, and no
tool with side effects runs twice.
"""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.postgres import PostgresServer
from tests.serving import Served, free_port, run_server, wait_until_ready
from tests.state.agent_client import TASK, AgentClient, call_api, check_run, environment, follow
from tests.upstream import Upstream, run_upstream

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("agent_crash")]

KILLS = [*range(4, 16), 21, 29, 37, 45, 53]
"""The writes to die after. The first three are the server's own, at its start. Every write of the first turn
and its tools, and a sample of the others, which are alike. The test ends when the server survives.
"""


@pytest.fixture(scope="module")
def upstream() -> Generator[Upstream, None, None]:
    with run_upstream() as running:
        yield running


@contextmanager
def dying(folder: Path, write: int, upstream: Upstream) -> Generator[Served, None, None]:
    """A server that is killed right after its n-th write."""
    port, log = free_port(), folder / "dying.log"
    command = [sys.executable, "-m", "tests.state.dying_server", str(write), "after", str(port)]
    command += [f"sqlite:{folder}/antiphon.db", upstream.url]
    variables = {**os.environ, "XDG_DATA_HOME": str(folder / "data"), **environment(folder)}
    with log.open("w") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, text=True, env=variables)
    try:
        wait_until_ready(process, port, log)
        yield Served(process, port, log)
    finally:
        process.kill()
        process.wait(10)


@contextmanager
def serving(
    folder: Path, upstream: Upstream, store: str | None = None, **more: str
) -> Generator[Served, None, None]:
    options = ("--store", store or f"sqlite:{folder}/antiphon.db", "--upstream", upstream.url)
    with run_server(folder, *options, environment={**environment(folder), **more}) as served:
        yield served


def test_a_kill_after_any_write_loses_nothing_and_repeats_no_tool(upstream: Upstream, tmp_path: Path) -> None:
    outcomes: set[str] = set()
    for write in KILLS:
        folder = tmp_path / str(write)
        folder.mkdir()
        client = AgentClient()
        with dying(folder, write, upstream) as served:
            if client.go(served.base_url):
                break
            assert served.process.wait(10) == -signal.SIGKILL, served.log.read_text()
        with serving(folder, upstream) as served:
            if client.submitted is not None:
                checked = check_run(served.base_url, client.submitted, folder / "notes", client.received)
                outcomes |= set(checked.values())
    else:
        raise AssertionError("the server never survived")
    assert write > KILLS[11], "the server was killed at least so often"
    assert outcomes == {"ok", "interrupted"}


@pytest.mark.parametrize(("when", "lines"), [("before", ["two"]), ("after", ["one", "two"])])
def test_a_kill_within_a_tool_is_reported_and_the_tool_is_not_run_again(
    upstream: Upstream, tmp_path: Path, when: str, lines: list[str]
) -> None:
    client = AgentClient()
    with serving(tmp_path, upstream, DIES_IN_TOOL=when) as served:
        assert not client.go(served.base_url)
        assert client.submitted is not None
    with serving(tmp_path, upstream) as served:
        outcomes = check_run(served.base_url, client.submitted, tmp_path / "notes", client.received)
        assert outcomes == {"call_1": "interrupted", "call_2": "ok", "call_3": "ok"}
        answer = call_api(served.base_url, f"/agent/runs/{client.submitted}?case=snake")["response"]
    assert (tmp_path / "notes").read_text().split() == lines
    assert any("unknown whether" in warning for warning in answer["warnings"])


@pytest.fixture
def database(postgres: PostgresServer) -> Generator[str, None, None]:
    with postgres.database() as url:
        yield url


SHARED = {"ANTIPHON_BACKGROUND__LEASE": "2", "ANTIPHON_SEAL__KEY": "shared by all replicas"}


def test_when_one_replica_dies_the_other_takes_its_run_over(
    upstream: Upstream, database: str, tmp_path: Path
) -> None:
    """The first replica dies within a tool; a client follows on the other one meanwhile."""
    received: list[dict[str, object]] = []
    homes = {name: tmp_path / name for name in ("a", "b")}
    notes = {"NOTES": str(tmp_path / "notes")}
    for home in homes.values():
        home.mkdir()
    with (
        serving(homes["a"], upstream, database, **SHARED, **notes, DIES_IN_TOOL="after") as first,
        serving(homes["b"], upstream, database, **SHARED, **notes) as second,
    ):
        run_id = call_api(first.base_url, "/agent/runs", TASK)["id"]
        listener = threading.Thread(target=follow, args=(second.base_url, run_id, received))
        listener.start()
        assert first.process.wait(30) == -signal.SIGKILL
        listener.join(60)
        assert not listener.is_alive(), "the stream continues on the other server"
        outcomes = check_run(second.base_url, run_id, tmp_path / "notes", received)
    assert outcomes == {"call_1": "interrupted", "call_2": "ok", "call_3": "ok"}
    assert (tmp_path / "notes").read_text().split() == ["one", "two"]
