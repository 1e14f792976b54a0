"""Real processes with a tool that ignores its cancellation: they end nevertheless."""

import json
import urllib.request
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.cli.agent.agent_upstream import AgentUpstream, Call, agent_upstream
from tests.cli.terminal import terminal
from tests.serving import run_server

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("no_running_server")]

TOOL = """
import asyncio, pathlib

async def hang() -> str:
    \"\"\"Never end.\"\"\"
    pathlib.Path("begun").touch()
    print("begun", flush=True)
    while True:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            pass
"""


@pytest.fixture
def model() -> Generator[AgentUpstream, None, None]:
    with agent_upstream() as upstream:
        upstream.turns = [Call("hang", {}), "Done."]
        yield upstream


def options(model: AgentUpstream, deadline: float) -> tuple[str, ...]:
    Path("stubborn_tools.py").write_text(TOOL)
    settings = f'[agent]\nmodel = "tiny"\ntools = ["stubborn_tools:hang"]\ntool_deadline = {deadline}\n'
    Path("antiphon.toml").write_text(settings)
    return ("--upstream", model.url, "--model", "tiny", "--store", "sqlite:store.db")


def test_the_command_ends_after_its_answer(model: AgentUpstream) -> None:
    with terminal("execute", "Hang", "--no-stream", *options(model, 0.1)) as screen:
        assert screen.finish() == 0
    assert "Done." in screen.seen
    assert "Task was destroyed" not in screen.seen


def test_the_command_ends_when_it_is_interrupted(model: AgentUpstream) -> None:
    with terminal("execute", "Hang", *options(model, 600)) as screen:
        screen.expect("begun")
        screen.interrupt()
        assert screen.finish() == 130
    assert "Traceback" not in screen.seen


@pytest.mark.parametrize("endpoint", ["execute", "runs"])
def test_the_server_stops_on_a_signal(model: AgentUpstream, endpoint: str) -> None:
    with run_server(Path.cwd(), *options(model, 0.1)) as served:
        body = json.dumps({"instruction": "Hang", "streaming": True}).encode()
        headers = {"content-type": "application/json"}
        execute_request = urllib.request.Request(f"{served.base_url}/agent/{endpoint}", body, headers)
        with urllib.request.urlopen(execute_request, timeout=60) as answer:
            assert b"agent.completed" in answer.read()
        assert served.stop(30) == 0
        assert "Traceback" not in served.log.read_text()
