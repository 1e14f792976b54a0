"""The real Claude Code, with a scripted model behind the Messages API endpoint."""

import asyncio
import json
import os
import shutil
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from antiphon import ScriptedBackend
from antiphon.backends.scripted import Step
from antiphon.errors import BackendRefused
from antiphon.protocol.content import InputText
from antiphon.protocol.items import FunctionCallOutput, Message
from antiphon.turn.chunks import (
    CallDelta,
    CallStarted,
    Finished,
    ProviderStateAdded,
    ReasoningDelta,
    TextDelta,
)
from antiphon.turn.context import TurnRequest
from antiphon.turn.provider_state import OpenedReasoning, ProviderState
from tests.clients.conftest import provider
from tests.clients.programs import NODE_MODULES

pytestmark = [pytest.mark.clients, pytest.mark.slow, pytest.mark.xdist_group("claude-code")]

TEST_TIMEOUT_SECONDS = 90.0
QUIET = {
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_ERROR_REPORTING": "1",
    "DISABLE_TELEMETRY": "1",
    "NO_PROXY": "127.0.0.1",
}
JsonObject = dict[str, Any]
RunPrompt = Callable[..., Any]


def find_claude() -> str | None:
    """The path of the real program, if it is installed."""
    installed = NODE_MODULES / ".bin/claude"
    return os.environ.get("ANTIPHON_CLAUDE_CODE") or (str(installed) if installed.exists() else None)


@pytest.fixture
def run_prompt(tmp_path: Path) -> RunPrompt:
    """Run one prompt with its own home and folder, and this model."""
    command = find_claude()
    if command is None or shutil.which(command) is None:
        pytest.skip("Claude Code is not installed: `make test-clients` installs it")
    home, folder = tmp_path / "home", tmp_path / "work"
    home.mkdir()
    folder.mkdir()

    async def run_prompt(model: ScriptedBackend, prompt: str, *options: str) -> JsonObject:
        async with provider(model) as port:
            process = await asyncio.create_subprocess_exec(
                command,
                *("-p", prompt, "--model", "m", "--output-format", "json", *options),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                cwd=folder,
                env={
                    "PATH": os.environ["PATH"],
                    "HOME": str(home),
                    "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{port}",
                    "ANTHROPIC_API_KEY": "none",
                    **QUIET,
                },
            )
            try:
                output, errors = await asyncio.wait_for(process.communicate(), TEST_TIMEOUT_SECONDS)
            finally:
                if process.returncode is None:
                    process.kill()
                    await process.wait()
        assert output, errors.decode()
        return json.loads(output)

    return run_prompt


def call(call_id: str, name: str, **arguments: Any) -> list[Step]:
    text = json.dumps(arguments)
    started = [CallStarted(0, call_id, name)]
    pieces = [[CallDelta(0, text[at : at + 7])] for at in range(0, len(text), 7)]
    return [started, *pieces, [Finished("tool_calls")]]


def outputs(turn: TurnRequest) -> list[str]:
    items = [item for item in turn.items if isinstance(item, FunctionCallOutput)]
    return [item.output if isinstance(item.output, str) else _text(item.output) for item in items]


def _text(parts: Sequence[object]) -> str:
    return "".join(part.text for part in parts if isinstance(part, InputText))


async def test_a_text_answer(run_prompt: RunPrompt) -> None:
    model = ScriptedBackend.saying("Hello", " from", " behind.")
    result = await run_prompt(model, "Say hello.")
    assert (result["is_error"], result["result"]) == (False, "Hello from behind.")
    turn = model.turns[-1]
    user_messages = [item for item in turn.items if isinstance(item, Message) and item.role == "user"]
    assert "Say hello." in str(user_messages[0].content)
    assert {"Bash", "Write", "Read", "Edit"} <= {tool.name for tool in turn.tools}
    assert turn.params.reasoning is not None


async def test_it_writes_a_file_and_runs_a_command(run_prompt: RunPrompt, tmp_path: Path) -> None:
    path = tmp_path / "work" / "note.txt"

    def steps_for(turn: TurnRequest) -> Iterable[Step]:
        match len(outputs(turn)):
            case 0:
                reasoning_steps = [
                    ReasoningDelta("A file first."),
                    ProviderStateAdded(ProviderState("maker", {"sig": "s"})),
                ]
                return [
                    reasoning_steps,
                    *call("call_1", "Write", file_path=str(path), content="written by a tool\n"),
                ]
            case 1:
                return call("call_2", "Bash", command="wc -w note.txt", description="Count the words")
            case _:
                return [[TextDelta(f"It has {outputs(turn)[1].split()[0]} words.")], [Finished("stop")]]

    model = ScriptedBackend(steps_for)
    result = await run_prompt(model, "Write a note.", "--allowedTools", "Write", "Bash(wc:*)")
    assert (result["is_error"], result["result"]) == (False, "It has 4 words.")
    assert path.read_text() == "written by a tool\n"
    reasoning_items = [item for item in model.turns[-1].items if isinstance(item, OpenedReasoning)]
    assert [item.states_from("maker") for item in reasoning_items] == [[{"sig": "s"}]]


async def test_an_error_of_the_model(run_prompt: RunPrompt) -> None:
    fault = BackendRefused("The model is out of order.", status=400, code="invalid_value")
    result = await run_prompt(ScriptedBackend([fault]), "Say hello.")
    assert result["is_error"]
    assert "The model is out of order." in result["result"]
