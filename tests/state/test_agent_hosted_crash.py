"""kill -9 at every write of an agent's run whose turn calls MCP tools: no call with side effects runs twice."""

import json
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, nullcontext
from http.client import HTTPException
from pathlib import Path

import pytest

from tests.postgres import PostgresServer
from tests.serving import Served
from tests.state.agent_client import END, JsonObject, call_api, follow
from tests.state.test_tool_loop_crash import SHARED, Successor, die, serving, sqlite
from tests.state.tool_loop import ROUNDS, TOOLS, World, run_world

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("tool_loop_crash"),
    pytest.mark.requirement("HOSTED/mcp-resume"),
]

FIRST_WRITE = 4
"""The first three writes are the server's own."""
MIN_KILLS = 12
SAMPLE = 4
"""The distance between kills in a sample."""
MAX_WRITES = 60


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Generator[World, None, None]:
    with run_world(tmp_path_factory.mktemp("world")) as running:
        yield running


class RunClient:
    """Submits a run and follows it. The events that it received must be preserved."""

    def __init__(self, world: World, task: str) -> None:
        self.task = task
        self.submitted: str | None = None
        self.received: list[JsonObject] = []
        self._world = world

    def submit(self, base_url: str) -> str:
        body = {"instruction": self.task, "toolsJson": json.dumps([self._world.tool()])}
        run_id: str = call_api(base_url, "/agent/runs", body)["id"]
        self.submitted = run_id
        return run_id

    def go(self, base_url: str) -> bool:
        """Submit and follow; False if the server died meanwhile."""
        try:
            follow(base_url, self.submit(base_url), self.received)
        except (OSError, HTTPException):
            return False
        return bool(self.received) and self.received[-1]["type"] in END

    def check(self, base_url: str) -> dict[tuple[str, str], int]:
        """Check the run on the next server; how often each of its calls was run."""
        if self.submitted is None:
            assert not self._world.calls(self.task)
            return {}
        finished = {
            (call["name"], json.loads(call["arguments_json"])["name"])
            for event in self.received
            if event["type"] == "agent.hosted.completed"
            if (call := event["call"])["status"] == "completed"
        }
        before = self._world.calls(self.task)
        events: list[JsonObject] = []
        follow(base_url, self.submitted, events)
        assert events[: len(self.received)] == self.received, "the events are the same as before"
        assert [event["sequence_number"] for event in events] == list(range(len(events)))
        assert (events[-1]["type"], events[-1]["response"]["text"]) == ("agent.completed", "Done."), events[
            -1
        ]
        shown = [(event["type"], event["call"]["call_id"]) for event in events if "call" in event]
        assert len(shown) == len(set(shown)), "a call is shown once"
        run = self._world.calls(self.task)
        for call in finished:
            assert run[call] == before[call], "a finished call is not run again"
        for part in ROUNDS:
            assert run["record", f"{self.task} {part}"] <= 1, "a call with side effects never runs twice"
            assert 1 <= run["look", f"{self.task} {part}"] <= 2
        return dict(run)


def kill_at_writes(
    world: World, folder: Path, when: str, step: int, store: Callable[[Path], str], successor: Successor
) -> set[int]:
    """Kill a server at writes in turn, until one is not reached, and check the run on its successor; how often
    a call of `record` was run."""
    counts: set[int] = set()
    for write in range(FIRST_WRITE, MAX_WRITES, step):
        home = folder / str(write)
        client = RunClient(world, f"{folder.name} {write}")
        if not die(client, home, store(home), write, when, world):
            assert write >= FIRST_WRITE + MIN_KILLS, "the server was killed at least so often"
            assert sum(world.calls(client.task).values()) == len(ROUNDS) * len(TOOLS)
            return counts
        with successor(home) as served:
            run = client.check(served.base_url)
        counts |= {run.get(("record", f"{client.task} {part}"), 0) for part in ROUNDS if run}
    raise AssertionError("the server never survived")


@pytest.mark.parametrize(("when", "step"), [("before", 1), ("after", SAMPLE)])
def test_a_kill_at_any_write_repeats_no_call_of_a_run(
    world: World, tmp_path: Path, when: str, step: int
) -> None:
    def restarted(home: Path) -> AbstractContextManager[Served]:
        return serving(home, sqlite(home), world)

    assert 1 in kill_at_writes(world, tmp_path, when, step, sqlite, restarted)


def test_another_replica_repeats_no_call_of_a_run(
    world: World, postgres: PostgresServer, tmp_path: Path
) -> None:
    with (
        postgres.database() as database,
        serving(tmp_path / "other", database, world, **SHARED) as other,
    ):
        kill_at_writes(world, tmp_path, "before", SAMPLE, lambda _: database, lambda _: nullcontext(other))
