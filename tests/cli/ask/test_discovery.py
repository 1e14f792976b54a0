"""Models that are found without a configuration and without a running server."""

import json
import socket
import time
from collections.abc import Generator
from contextlib import ExitStack
from functools import partial

import pytest

from antiphon.discovery.probe import PROBE_TIMEOUT_SECONDS
from tests.cli.conftest import Run
from tests.discovery.servers import ScriptedServer, in_thread, serving

pytestmark = pytest.mark.usefixtures("no_running_server")


@pytest.fixture
def ollama(monkeypatch: pytest.MonkeyPatch) -> Generator[ScriptedServer, None, None]:
    """A model server that is found."""
    server = ScriptedServer("ollama", ["nomic-embed-text", "qwen3:8b", "llama3.2:latest"])
    with in_thread(partial(serving, server.answer)) as address:
        monkeypatch.setenv("ANTIPHON_DISCOVERY__ADDRESSES", json.dumps([address]))
        yield server


@pytest.mark.parametrize("command", [["ask"], ["execute"], ["ask", "--model", "auto"]])
def test_the_best_model_of_this_machine_answers(run: Run, ollama: ScriptedServer, command: list[str]) -> None:
    result = run(command[0], "Hi", *command[1:], "--store", "memory:")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "I am qwen3:8b.\n", "")


@pytest.mark.parametrize("name", ["llama3.2", "ollama/llama3.2"])
def test_a_found_model_can_be_named(run: Run, ollama: ScriptedServer, name: str) -> None:
    result = run("ask", "Hi", "--model", name, "--store", "memory:")
    assert result.stdout == "I am llama3.2:latest.\n"


def test_a_chat_lists_found_models(run: Run, ollama: ScriptedServer) -> None:
    listed = run("chat", "--store", "memory:", input="/models\n")
    assert {"qwen3:8b", "llama3.2:latest"} <= set(listed.stdout.splitlines())


def test_an_unknown_model_is_told_with_the_found_ones(run: Run, ollama: ScriptedServer) -> None:
    result = run("ask", "Hi", "--model", "qwen4", "--store", "memory:")
    assert result.exit_code != 0
    assert "qwen3:8b" in result.stderr
    assert not ollama.questions


def test_discovery_can_be_turned_off(run: Run, ollama: ScriptedServer) -> None:
    result = run("ask", "Hi", "--model", "qwen3:8b", "--no-discovery")
    assert (result.exit_code, ollama.paths) == (2, [])
    assert "unknown model 'qwen3:8b'" in result.stderr


@pytest.mark.parametrize(
    ("model", "advice"),
    [
        ("gpt-5-mini", "set OPENAI_API_KEY for this one"),
        ("groq/llama", "set GROQ_API_KEY for this one"),
        ("qwen3", "Start one, name another with --upstream URL, or use an embedded model (smollm2-135m, "),
    ],
)
def test_a_model_that_nothing_serves_is_explained(run: Run, model: str, advice: str) -> None:
    result = run("ask", "Hi", "--model", model)
    assert result.exit_code == 2
    assert f"--model: unknown model '{model}'" in result.stderr
    assert advice in result.stderr


def test_ports_that_hang_delay_the_answer_by_one_probe(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    with ExitStack() as stack:
        listeners = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(3)]
        addresses = [f"127.0.0.1:{listener.getsockname()[1]}" for listener in listeners]
        monkeypatch.setenv("ANTIPHON_DISCOVERY__ADDRESSES", json.dumps(addresses))
        began = time.monotonic()
        assert "unknown model" in run("ask", "Hi", "--model", "m").stderr
        assert time.monotonic() - began < 5 * PROBE_TIMEOUT_SECONDS


def test_a_configured_upstream_is_used_alone(run: Run, ollama: ScriptedServer) -> None:
    run("ask", "Hi", "--upstream", "http://127.0.0.1:9/v1", "--model", "qwen3:8b")
    assert not ollama.paths
