"""kill -9 at every write of a loop of MCP tools: no call with side effects runs twice, and the model is told of
each call whose outcome was lost. Approvals are answered after a kill, and on another replica.
"""

import json
import os
import signal
import subprocess
import sys
import urllib.error
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import cycle
from pathlib import Path

import pytest

from tests.postgres import PostgresServer
from tests.serving import Served, free_port, run_server, wait_until_ready
from tests.state.tool_loop import Ending, LoopClient, World, decoded, read, run_world
from tests.upstream import JsonObject

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("tool_loop_crash"),
    pytest.mark.requirement("HOSTED/mcp-resume"),
]

FIRST_WRITE = 4
"""The first three writes are the server's own. Those that follow store the response, the start and the end of
each call, what the model says, and the end of the response; the server is killed at every one of them."""
MIN_KILLS = 8
MAX_WRITES = 60
ENVIRONMENT = {"ANTIPHON_EGRESS__ALLOW": '["127.0.0.1"]', "ANTIPHON_TOOLS__MAX_ROUNDS": "3"}
"""The model calls tools in two rounds, of which a kill may repeat one."""
SHARED = {"ANTIPHON_BACKGROUND__LEASE": "2", "ANTIPHON_SEAL__KEY": "shared by all replicas"}
ENDINGS: set[Ending] = {
    ("look", "completed", 1),
    ("record", "completed", 1),
    # after the start of a call was stored, and before its tool ran
    ("look", "incomplete, completed", 1),
    ("record", "incomplete", 0),
    # after the tool ran, and before the end was stored
    ("look", "incomplete, completed", 2),
    ("record", "incomplete", 1),
}
Successor = Callable[[Path], AbstractContextManager[Served]]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Generator[World, None, None]:
    with run_world(tmp_path_factory.mktemp("world")) as running:
        yield running


@pytest.fixture
def database(postgres: PostgresServer) -> Generator[str, None, None]:
    with postgres.database() as url:
        yield url


def sqlite(folder: Path) -> str:
    return f"sqlite:{folder}/antiphon.db"


@contextmanager
def serving(folder: Path, store: str, world: World, **more: str) -> Generator[Served, None, None]:
    folder.mkdir(exist_ok=True)
    options = ("--store", store, "--upstream", world.upstream.url)
    with run_server(folder, *options, environment={**ENVIRONMENT, **more}) as served:
        yield served


def kill(served: Served) -> None:
    os.kill(served.process.pid, signal.SIGKILL)
    served.process.wait(10)


def die(client: LoopClient, folder: Path, store: str, write: int, when: str, world: World) -> bool:
    """Run a server until its n-th write; False if it was not killed."""
    folder.mkdir()
    port, log = free_port(), folder / "dying.log"
    command = [sys.executable, "-m", "tests.state.dying_server", str(write), when, str(port)]
    command += [store, world.upstream.url]
    shared = {} if store.startswith("sqlite:") else SHARED
    variables = {**os.environ, **ENVIRONMENT, **shared, "XDG_DATA_HOME": str(folder / "data")}
    with log.open("w") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, text=True, env=variables)
    try:
        wait_until_ready(process, port, log)
        if client.go(f"http://127.0.0.1:{port}/v1"):
            return False
        assert process.wait(10) == -signal.SIGKILL, log.read_text()
        return True
    finally:
        process.kill()
        process.wait(10)


def kill_at_writes(
    world: World,
    folder: Path,
    moments: Sequence[str],
    store: Callable[[Path], str],
    successor: Successor,
) -> set[Ending]:
    """Kill a server at each write in turn, before and after it by turns, until one is not reached, and check the
    response on its successor; how the calls ended."""
    endings: set[Ending] = set()
    for write, when in zip(range(FIRST_WRITE, MAX_WRITES), cycle(moments), strict=False):
        home = folder / str(write)
        client = LoopClient(world, f"{folder.name} {write}")
        if not die(client, home, store(home), write, when, world):
            assert write >= FIRST_WRITE + MIN_KILLS, "the server was killed at least so often"
            return endings
        with successor(home) as served:
            endings |= client.check(served.base_url)
    raise AssertionError("the server never survived")


# The start of a call is stored before its tool runs, its end after that. Between the two tests every write of
# every call is one before which a server was killed, and one after which it was.


def test_a_kill_before_or_after_a_write_to_sqlite_repeats_no_call(world: World, tmp_path: Path) -> None:
    def restarted(home: Path) -> AbstractContextManager[Served]:
        return serving(home, sqlite(home), world)

    endings = kill_at_writes(world, tmp_path, ("before", "after"), sqlite, restarted)
    assert endings >= ENDINGS


def test_a_kill_after_or_before_a_write_to_postgres_repeats_no_call(
    world: World, database: str, tmp_path: Path
) -> None:
    """Another replica continues."""
    with serving(tmp_path / "other", database, world, **SHARED) as other:
        moments = ("after", "before")
        endings = kill_at_writes(world, tmp_path, moments, lambda _: database, lambda _: nullcontext(other))
    assert endings >= ENDINGS


ASKING = {"never": {"read_only": True}}


def ask(world: World, served: Served, task: str) -> JsonObject:
    """The response to a task whose calls of `record` need approvals."""
    return ended(served, world.create(served.base_url, ASKING, input=task))


def approve(world: World, served: Served, asked: JsonObject, request: JsonObject) -> JsonObject:
    """The response that continues one, with an approval."""
    answer = {"type": "mcp_approval_response", "approval_request_id": request["id"], "approve": True}
    new = world.create(served.base_url, ASKING, input=[answer], previous_response_id=asked["id"])
    return ended(served, new)


def ended(served: Served, response_id: str) -> JsonObject:
    response = decoded(read(served.base_url, response_id))[-1]["response"]
    assert response["status"] == "completed", response
    return response


def request_of(response: JsonObject, name: str) -> JsonObject:
    """The approval that a response asks for."""
    request = response["output"][-1]
    assert request["type"] == "mcp_approval_request", response
    assert (request["name"], json.loads(request["arguments"])) == ("record", {"name": name})
    return request


def recorded(world: World, task: str) -> list[str]:
    """The parts of a task that were recorded, in order."""
    calls = world.calls(task)
    return [name.rsplit(" ", 1)[1] for (tool, name) in calls.elements() if tool == "record"]


def check_refused(world: World, served: Served, response: JsonObject, request: JsonObject) -> None:
    """A second answer to a request is refused."""
    with pytest.raises(urllib.error.HTTPError) as caught:
        approve(world, served, response, request)
    assert caught.value.code == 400
    assert "already answered" in caught.value.read().decode()


@pytest.mark.requirement("HOSTED/mcp-approvals-durable")
def test_an_approval_is_answered_after_a_kill(world: World, tmp_path: Path) -> None:
    task, store = "after a kill", sqlite(tmp_path)
    with serving(tmp_path, store, world) as served:
        first = ask(world, served, task)
        one = request_of(first, f"{task} one")
        kill(served)
    assert recorded(world, task) == []
    with serving(tmp_path, store, world) as served:
        second = approve(world, served, first, one)
        two = request_of(second, f"{task} two")
        assert recorded(world, task) == ["one"]
        kill(served)
    with serving(tmp_path, store, world) as served:
        third = approve(world, served, second, two)
        check_refused(world, served, third, one)
    assert third["output"][-1]["type"] == "message"
    assert recorded(world, task) == ["one", "two"]


@pytest.mark.requirement("HOSTED/mcp-approvals-durable")
def test_an_approval_is_answered_on_another_replica(world: World, database: str, tmp_path: Path) -> None:
    task = "on another replica"
    with serving(tmp_path / "b", database, world, **SHARED) as second:
        with serving(tmp_path / "a", database, world, **SHARED) as first:
            asked = ask(world, first, task)
            one = request_of(asked, f"{task} one")
            going_on = approve(world, second, asked, one)
            two = request_of(going_on, f"{task} two")
            assert recorded(world, task) == ["one"]
            last = approve(world, first, going_on, two)
            kill(first)
        check_refused(world, second, last, one)
    assert last["output"][-1]["type"] == "message"
    assert recorded(world, task) == ["one", "two"]
