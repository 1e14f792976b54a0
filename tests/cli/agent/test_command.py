"""`antiphon agent`: runs in a durable store, in this process or on a server."""

import json
import re
from collections.abc import Generator
from pathlib import Path

import pytest
from click.testing import Result

from tests.cli.agent.agent_upstream import AgentUpstream, Call, agent_upstream
from tests.cli.conftest import Run
from tests.cli.terminal import terminal
from tests.serving import run_server

pytestmark = pytest.mark.usefixtures("no_running_server")

TASK = 'title = "A sum"\ninstruction = "Add one and two"\n'
STORE = ("--store", "sqlite:store.db")


@pytest.fixture
def model() -> Generator[AgentUpstream, None, None]:
    with agent_upstream() as upstream:
        yield upstream


@pytest.fixture
def run_task(run: Run, model: AgentUpstream) -> Run:
    """Run `agent run` with the scripted model."""
    Path("task.toml").write_text(TASK)
    Path("summing.py").write_text('def add(a: int, b: int) -> int:\n    """Add."""\n    return a + b\n')
    Path("antiphon.toml").write_text('[agent]\ntools = ["summing:add"]\n')
    model.turns = [Call("add", {"a": 1, "b": 2}), "It is 3."]

    def run_task(*arguments: str, input: str | None = None) -> Result:
        return run(
            "agent", "run", *arguments, *STORE, "--upstream", model.url, "--model", "tiny", input=input
        )

    return run_task


def run_id(result: Result) -> str:
    found = re.search(r"run_\w+", result.stdout + result.stderr)
    assert found is not None, result.output
    return found[0]


def test_a_run_is_followed_to_its_end_and_drawn(run_task: Run) -> None:
    result = run_task("task.toml")
    assert (result.exit_code, result.stdout) == (0, "It is 3.\n"), result.stderr
    assert "A sum" in result.stderr
    assert "✓ add" in result.stderr
    assert "turn 2" in result.stderr


def test_a_task_is_read_from_standard_input(run_task: Run) -> None:
    assert run_task("-", input=TASK).stdout == "It is 3.\n"


def test_a_run_that_has_ended_is_listed_shown_followed_and_deleted(run: Run, run_task: Run) -> None:
    created = run_id(run_task("task.toml"))
    listed = run("agent", "list", *STORE)
    assert created in listed.stdout
    assert "completed" in listed.stdout
    assert [found["id"] for found in json.loads(run("agent", "list", "--json", *STORE).stdout)] == [created]

    shown = run("agent", "show", created, *STORE)
    assert re.search(r'turn 1.*\n.*add \{"a": 1, "b": 2\}  ok', shown.stdout), shown.stdout
    complete = json.loads(run("agent", "show", created, "--json", *STORE).stdout)
    assert (complete["id"], complete["object"], complete["status"]) == (created, "agent.run", "completed")
    assert complete["response"]["text"] == "It is 3."
    assert complete["response"]["turnId"] == complete["tree"]["turns"][-1]["response_id"]
    assert run("agent", "follow", created, *STORE).stdout == "It is 3.\n"
    assert run("agent", "cancel", created, *STORE).stdout == f"{created} is completed.\n"
    assert run("agent", "resume", created, *STORE, "--upstream-kind", "plain").exit_code == 0

    assert run("agent", "delete", created, *STORE, input="n\n").exit_code == 1
    assert run("agent", "delete", created, "--yes", *STORE).stdout == f"Deleted {created}.\n"
    gone = run("agent", "show", created, *STORE)
    assert (gone.exit_code, created in gone.stderr) == (2, True)
    assert "There are no runs." in run("agent", "list", *STORE).stdout


def test_a_run_that_fails_fails_the_command(run_task: Run, model: AgentUpstream) -> None:
    model.turns = [422]
    result = run_task("task.toml")
    assert result.exit_code == 1
    assert result.stderr.endswith("Error: broken on purpose\n")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["task.toml", "--detach"], "--base-url"),
        (["nowhere.toml"], "nowhere.toml"),
        (["wrong.toml"], "unknown keys: instructions"),
        (["long.toml"], "'title' has 201 characters"),
    ],
)
def test_wrong_usage_starts_no_run(
    run_task: Run, model: AgentUpstream, arguments: list[str], complaint: str
) -> None:
    Path("wrong.toml").write_text('instructions = "x"')
    Path("long.toml").write_text(f'title = "{"x" * 201}"\ninstruction = "x"')
    result = run_task(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert complaint in result.stderr
    assert model.requests == []


def test_a_store_that_stores_nothing_is_rejected(run: Run) -> None:
    Path("task.toml").write_text(TASK)
    for command in (["run", "task.toml"], ["list"], ["show", "run_1"], ["resume", "run_1"]):
        result = run("agent", *command, "--store", "memory:")
        assert result.exit_code == 2
        assert "does not persist responses" in result.stderr


@pytest.mark.parametrize("command", ["show", "follow", "cancel", "delete", "resume"])
def test_an_unknown_run_is_wrong_usage(run: Run, command: str) -> None:
    options = ["--upstream-kind", "plain"] if command == "resume" else []
    result = run("agent", command, "run_none", *STORE, *options, *(["--yes"] if command == "delete" else []))
    assert result.exit_code == 2
    assert "run_none" in result.stderr


def test_modes_are_listed(run: Run) -> None:
    Path("antiphon.toml").write_text('[agent.modes.sums]\nwhen_to_use = "To add."\ntools = ["write_file"]\n')
    listed = run("agent", "modes").stdout
    assert "general*" in listed
    assert re.search(r"sums +To add\. +write_file", listed)
    modes = {mode["key"]: mode for mode in json.loads(run("agent", "modes", "--json").stdout)}
    assert modes["general"]["default"]


@pytest.mark.slow
@pytest.mark.usefixtures("run_task")
def test_a_run_that_is_interrupted_is_resumed(run: Run, model: AgentUpstream) -> None:
    model.gate.clear()
    options_given = (*STORE, "--upstream", model.url, "--model", "tiny")
    with terminal("agent", "run", "task.toml", *options_given) as screen:
        screen.expect("run_")
        assert model.requested.wait(30)
        screen.interrupt()
        screen.expect("antiphon agent resume run_")
        assert screen.finish() == 130
        match = re.search(r"agent resume (run_\w+)", screen.seen)
    assert match is not None
    assert "in progress" in run("agent", "list", *STORE).stdout
    model.gate.set()
    model.turns = [Call("add", {"a": 1, "b": 2}), Call("add", {"a": 1, "b": 2}), "It is 3."]
    resumed = run("agent", "resume", match[1], *options_given)
    assert (resumed.exit_code, resumed.stdout) == (0, "It is 3.\n"), resumed.stderr


@pytest.mark.slow
@pytest.mark.usefixtures("run_task")
def test_a_run_on_a_server_continues_when_its_follower_disconnects(run: Run, model: AgentUpstream) -> None:
    model.gate.clear()
    options = ("--upstream", model.url, "--model", "tiny", "--store", "sqlite:served.db")
    with run_server(Path.cwd(), *options) as served:
        at = ("--base-url", served.base_url)
        with terminal("agent", "run", "task.toml", *at) as screen:
            screen.expect("run_")
            assert model.requested.wait(30)
            screen.interrupt()
            assert screen.finish() == 130
        hint = re.search(r"agent follow (run_\w+) --base-url (\S+)`", screen.seen.replace("\n", ""))
        assert hint is not None, screen.seen
        assert f"agent cancel {hint[1]} --base-url {hint[2]}" in screen.seen
        assert "unfinished" not in screen.seen
        model.gate.set()
        followed = run("agent", "follow", hint[1], "--base-url", hint[2])
        assert (followed.exit_code, followed.stdout) == (0, "It is 3.\n"), followed.stderr


@pytest.mark.slow
@pytest.mark.usefixtures("run_task")
def test_a_server_executes_and_lists_runs(run: Run, model: AgentUpstream) -> None:
    options = ("--upstream", model.url, "--model", "tiny", "--store", "sqlite:served.db")
    with run_server(Path.cwd(), *options) as served:
        at = ("--base-url", served.base_url)
        result = run("agent", "run", "task.toml", *at)
        assert (result.exit_code, result.stdout) == (0, "It is 3.\n"), result.stderr
        created = run_id(result)
        assert created in run("agent", "list", *at).stdout
        assert "turn 2" in run("agent", "show", created, *at).stdout
        assert (
            json.loads(run("agent", "show", created, "--json", *at).stdout)["response"]["text"] == "It is 3."
        )
        assert run("agent", "follow", created, *at).stdout == "It is 3.\n"
        assert "general*" in run("agent", "modes", *at).stdout

        model.gate.clear()
        detached = run("agent", "run", "task.toml", "--detach", *at)
        assert detached.exit_code == 0
        assert run("agent", "cancel", detached.stdout.strip(), *at).stdout.endswith("is cancelled.\n")
        assert run("agent", "delete", "--yes", created, *at).exit_code == 0
        gone = run("agent", "show", created, *at)
        assert (gone.exit_code, created in gone.stderr) == (2, True)
        model.gate.set()


@pytest.mark.parametrize("option", ["--tenant", "--model", "--upstream", "--store"])
def test_options_of_the_server_cannot_be_combined_with_base_url(run: Run, option: str) -> None:
    Path("task.toml").write_text(TASK)
    result = run("agent", "run", "task.toml", "--base-url", "http://127.0.0.1:1", option, "acme")
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"{option} cannot be combined with --base-url" in result.stderr


def test_a_title_that_is_too_long_is_rejected_before_a_server_is_called(run: Run) -> None:
    Path("long.toml").write_text(f'title = "{"x" * 201}"\ninstruction = "x"')
    result = run("agent", "run", "long.toml", "--base-url", "http://127.0.0.1:1")
    assert (result.exit_code, "'title' has 201 characters" in result.stderr) == (2, True)
