"""`antiphon codex` with the real Codex, and how Codex uses a server's catalogue."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.clients.codex_cli import Model, calls, codex_on, outputs, text_turn
from tests.clients.conftest import find_codex
from tests.serving import free_port, run_server
from tests.upstream import run_upstream

pytestmark = [pytest.mark.slow, pytest.mark.clients, pytest.mark.xdist_group("codex")]

TEST_TIMEOUT_SECONDS = 60.0
NEWEST = "gpt-6-astra"
"""A built-in model of Codex whose tools are sent as an input item."""
EXEC = ("exec", "--json", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox")


@pytest.fixture
def program() -> str:
    found = find_codex()
    if found is None:
        pytest.skip("codex is not installed: `make test-clients` installs it")
    return found


def antiphon_codex(
    program: str, folder: Path, *arguments: str, environment: Mapping[str, str] | None = None
) -> subprocess.Popen[str]:
    """Run `antiphon codex` in this folder, with its own data folder."""
    return subprocess.Popen(
        [sys.executable, "-m", "antiphon.cli", "codex", *arguments],
        cwd=folder,
        env={
            **{name: value for name, value in os.environ.items() if not name.startswith("ANTIPHON_")},
            "XDG_DATA_HOME": str(folder / "data"),
            "ANTIPHON_CODEX__COMMAND": program,
            "ANTIPHON_SERVER__PORT": str(free_port()),
            "NO_COLOR": "1",
            **(environment or {}),
        },
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def answers_of(output: str) -> list[str]:
    events = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    items = [event["item"] for event in events if event["type"] == "item.completed"]
    return [item["text"] for item in items if item["type"] == "agent_message"]


async def test_a_server_lists_its_models_for_codex(program: str, tmp_path: Path) -> None:
    model = Model(text_turn("Hello."))
    async with asyncio.timeout(TEST_TIMEOUT_SECONDS), codex_on(model, program, tmp_path) as client:
        client.catalogue = None
        ran = await client.exec("hi")
        listed = json.loads((client.home / "models_cache.json").read_text())
    assert ran.answers == ["Hello."]
    assert "metadata" not in ran.log
    assert [(one["slug"], one["context_window"]) for one in listed["models"]] == [("m", 131_072)]
    assert listed["etag"]
    assert "apply_patch" in {tool.name for tool in model.turns[0].tools}


@pytest.mark.parametrize("websocket", [False, True])
async def test_the_newest_models_of_codex_bring_their_tools_in_the_input(
    program: str, tmp_path: Path, websocket: bool
) -> None:
    script = 'const r = await tools.exec_command({cmd: "echo made > made.txt; echo fine"}); text(r.output);'
    model = Model(calls(("functions__exec", {"input": script})), text_turn("Made."))
    async with (
        asyncio.timeout(TEST_TIMEOUT_SECONDS),
        codex_on(model, program, tmp_path, websocket=websocket, names=(NEWEST,)) as client,
    ):
        client.catalogue, client.requests_models = None, False
        ran = await client.exec("make it", model=NEWEST)
        assert (client.folder / "made.txt").read_text() == "made\n"
    assert (ran.code, ran.answers) == (0, ["Made."])
    assert any("fine" in tool_output for tool_output in outputs(model.turns[1]))
    assert {"functions__wait", "clock__sleep"} <= {tool.name for tool in model.turns[0].tools}


def test_a_server_is_started_for_codex_and_ends_with_it(program: str, tmp_path: Path) -> None:
    with run_upstream() as upstream:
        options = ["--upstream", upstream.url, "--model", "echo", "--http"]
        process = antiphon_codex(program, tmp_path, *options, "--", *EXEC, "hello, you")
        output, errors = process.communicate(timeout=TEST_TIMEOUT_SECONDS)
    assert process.returncode == 0, errors
    assert answers_of(output) == ["You said: hello, you"]
    assert "context window of 'echo' is unknown" in errors
    home = tmp_path / "data/antiphon/codex-home"
    assert (home / "sessions").is_dir()
    assert len(list((home / "catalogues").iterdir())) == 1
    assert not (tmp_path / ".codex").exists()


def test_a_running_server_is_used_with_its_key(program: str, tmp_path: Path) -> None:
    key = {"ANTIPHON_SERVER__API_KEYS": '["sk-test-key"]'}
    with (
        run_upstream() as upstream,
        run_server(tmp_path, "--upstream", upstream.url, environment=key) as server,
    ):
        where = {"ANTIPHON_SERVER__PORT": str(server.port)}
        refused = antiphon_codex(program, tmp_path, "--", *EXEC, "hi", environment=where)
        _, errors = refused.communicate(timeout=TEST_TIMEOUT_SECONDS)
        allowed = antiphon_codex(
            program,
            tmp_path,
            *("--model", "reasoning", "--", *EXEC, "hi"),
            environment={**where, "ANTIPHON_API_KEY": "sk-test-key"},
        )
        output, _ = allowed.communicate(timeout=TEST_TIMEOUT_SECONDS)
        requests_before = len(upstream.requests)
    assert refused.returncode == 2
    assert "ANTIPHON_API_KEY" in errors
    assert (allowed.returncode, answers_of(output), requests_before) == (0, ["Done."], 1)


def test_the_exit_code_is_that_of_codex(program: str, tmp_path: Path) -> None:
    with run_upstream() as upstream:
        options = ["--upstream", upstream.url, "--model", "html", "--http", "--"]
        provider = ["-c", "model_providers.antiphon.request_max_retries=0"]
        provider += ["-c", "model_providers.antiphon.stream_max_retries=0"]
        process = antiphon_codex(program, tmp_path, *options, *provider, *EXEC, "hi")
        output, errors = process.communicate(timeout=TEST_TIMEOUT_SECONDS)
    assert process.returncode == 1, errors
    assert "turn.failed" in output


def test_a_request_to_end_ends_codex_too(program: str, tmp_path: Path) -> None:
    with run_upstream() as upstream:
        options = ["--upstream", upstream.url, "--model", "hangs", "--"]
        process = antiphon_codex(program, tmp_path, *options, *EXEC, "hi")
        deadline = time.monotonic() + TEST_TIMEOUT_SECONDS
        while not upstream.requests and time.monotonic() < deadline:
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=20)
        assert upstream.cut_off.wait(10)
    assert process.returncode not in (None, 0)


def test_a_model_with_a_window_smaller_than_the_prompt_is_reported(program: str, tmp_path: Path) -> None:
    """The embedded model accepts Codex's prompt with 4096 tokens, but not with 1024."""
    environment = {"ANTIPHON_LOCAL__CONTEXT": "1024"}
    process = antiphon_codex(program, tmp_path, "--", *EXEC, "say hello", environment=environment)
    output, errors = process.communicate(timeout=TEST_TIMEOUT_SECONDS)
    assert process.returncode == 1, errors
    assert "ran out of room in the model's context window" in output
    assert "'smollm2-135m' is 1024 tokens" in errors
