"""Approvals on the command line: asked on the terminal, listed, and answered for runs."""

import json
import re
from collections.abc import Generator
from pathlib import Path

import pytest
from click.testing import Result
from rich.console import Console

from antiphon.cli.agent import approvals
from antiphon.cli.agent.output import print_tree
from antiphon.orchestrator.models import HostedCallRecord
from antiphon.orchestrator.run_tree import RunTree, TurnNode
from tests.cli.agent.agent_upstream import AgentUpstream, Call, agent_upstream
from tests.cli.conftest import Run
from tests.cli.terminal import terminal
from tests.serving import run_server

pytestmark = pytest.mark.usefixtures("no_running_server")

STORE = ("--store", "sqlite:store.db")
SUMMING = '''def add(a: int, b: int) -> int:
    """Add."""
    with open("ran", "a") as file:
        file.write("x")
    return a + b
'''


@pytest.fixture(autouse=True)
def approving() -> None:
    Path("task.toml").write_text('instruction = "Add one and two"\n')
    Path("approved_sums.py").write_text(SUMMING)
    Path("antiphon.toml").write_text('[agent]\ntools = ["approved_sums:add"]\napprove_tools = ["add"]\n')


@pytest.fixture
def model() -> Generator[AgentUpstream, None, None]:
    with agent_upstream() as upstream:
        upstream.turns = [Call("add", {"a": 1, "b": 2}), "It is 3."]
        yield upstream


@pytest.fixture
def confirming(monkeypatch: pytest.MonkeyPatch) -> None:
    def there_is_one(_remedy: str) -> None: ...

    monkeypatch.setattr(approvals, "_check_terminal", there_is_one)


def options(model: AgentUpstream) -> tuple[str, ...]:
    return (*STORE, "--upstream", model.url, "--model", "tiny")


def ran() -> bool:
    return Path("ran").exists()


@pytest.mark.usefixtures("confirming")
@pytest.mark.parametrize(("said", "runs"), [("y\n", True), ("n\n", False)])
def test_execute_shows_the_exact_arguments_and_asks(
    run: Run, model: AgentUpstream, said: str, runs: bool
) -> None:
    result = run("execute", "Add", *options(model), input=said)
    assert (result.exit_code, result.stdout) == (0, "It is 3.\n"), result.stderr
    assert 'add {"a": 1, "b": 2}' in result.stderr
    assert ran() is runs
    outputs = [message["content"] for message in model.requests[-1]["messages"] if message["role"] == "tool"]
    assert ("rejected" in outputs[0]) is not runs


def test_execute_refuses_without_a_terminal(run: Run, model: AgentUpstream) -> None:
    result = run("execute", "Add", *options(model))
    assert result.exit_code == 2
    assert "standard input is not a terminal" in result.stderr
    assert 'add {"a": 1, "b": 2}' in result.stderr
    assert not ran()


def test_execute_with_json_returns_the_requests(run: Run, model: AgentUpstream) -> None:
    result = run("execute", "Add", "--json", *options(model))
    assert result.exit_code == 0
    [request] = json.loads(result.stdout)["approvals"]
    assert request["arguments"] == '{"a": 1, "b": 2}'
    assert not ran()


@pytest.fixture
def waiting(run: Run, model: AgentUpstream) -> str:
    """A run that waits."""
    result = run("agent", "run", "task.toml", *options(model))
    assert result.exit_code == 3, result.output
    assert "antiphon agent approve" in result.stderr
    found = re.search(r"run_\w+", result.stderr)
    assert found is not None
    return found[0]


def resume(run: Run, model: AgentUpstream, run_id: str) -> Result:
    return run("agent", "resume", run_id, *options(model))


def test_a_run_is_approved_and_resumed(run: Run, model: AgentUpstream, waiting: str) -> None:
    listed = run("agent", "approvals", *STORE)
    assert listed.stdout == f'{waiting}  call_1  add {{"a": 1, "b": 2}}\n'
    approved = run("agent", "approve", waiting, "--yes", *STORE)
    assert (approved.exit_code, approved.stdout) == (0, f"{waiting} is queued.\n"), approved.stderr
    assert run("agent", "approvals", *STORE).stdout == "Nothing waits for an approval.\n"
    result = resume(run, model, waiting)
    assert (result.exit_code, result.stdout.splitlines()[-1]) == (0, "It is 3."), result.output
    assert ran()


def test_a_run_is_rejected_with_a_reason(run: Run, model: AgentUpstream, waiting: str) -> None:
    assert run("agent", "approve", waiting, "--reject", "--reason", "no sums", *STORE).exit_code == 0
    assert resume(run, model, waiting).exit_code == 0
    assert not ran()
    assert "no sums" in json.dumps(model.requests[-1]["messages"])


def test_answering_again_or_an_unknown_run_fails(run: Run, model: AgentUpstream, waiting: str) -> None:
    run("agent", "approve", waiting, "--yes", *STORE)
    again = run("agent", "approve", waiting, "--call", "call_1", "--yes", *STORE)
    assert again.exit_code == 2
    assert "already answered" in again.stderr
    nothing = run("agent", "approve", waiting, "--yes", *STORE)
    assert (nothing.exit_code, "waits for no approval" in nothing.stderr) == (1, True)
    unknown = run("agent", "approve", "run_none", "--yes", *STORE)
    assert unknown.exit_code == 2
    assert "not found" in unknown.stderr


def test_an_approval_needs_a_confirmation(run: Run, model: AgentUpstream, waiting: str) -> None:
    refused = run("agent", "approve", waiting, *STORE)
    assert refused.exit_code == 2
    assert "--yes" in refused.stderr
    assert run("agent", "approve", waiting, "--reason", "x", *STORE).exit_code == 2
    [entry] = json.loads(run("agent", "approvals", "--json", *STORE).stdout)
    assert (entry["run_id"], entry["name"]) == (waiting, "add")


def test_a_run_that_waits_shows_what_it_waits_for(run: Run, waiting: str) -> None:
    shown = run("agent", "show", waiting, *STORE)
    assert '? add {"a": 1, "b": 2} waits for an approval (call_1)' in shown.stdout


@pytest.mark.slow
def test_a_run_on_a_server_says_how_it_is_approved_and_continues(run: Run, model: AgentUpstream) -> None:
    with run_server(Path.cwd(), *options(model)) as served:
        at = ("--base-url", served.base_url)
        with terminal("agent", "run", "task.toml", *at) as screen:
            screen.expect("it continues then")
            hint = re.search(r"agent approve (run_\w+) --base-url (\S+)`", screen.seen.replace("\n", ""))
            assert hint is not None, screen.seen
            approved = run("agent", "approve", hint[1], "--yes", "--base-url", hint[2])
            assert approved.exit_code == 0, approved.stderr
            assert screen.finish() == 0, screen.seen
    assert "It is 3." in screen.seen
    assert ran()


def test_calls_of_hosted_tools_are_in_the_tree() -> None:
    call = HostedCallRecord(
        call_id="mcp_1",
        type="mcp_call",
        name="look",
        server_label="shop",
        arguments_json="{}",
        status="completed",
    )
    tree = RunTree(mode="general", model="m", turns=(TurnNode(number=1, hosted_calls=(call,)),))
    console = Console(record=True, width=100)
    print_tree(tree, console)
    assert "shop.look {}  completed" in console.export_text()
