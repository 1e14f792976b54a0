"""The real Claude Code, on a scripted model behind the door of the messages API."""

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

PATIENCE = 90.0
QUIET = {
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_ERROR_REPORTING": "1",
    "DISABLE_TELEMETRY": "1",
    "NO_PROXY": "127.0.0.1",
}
JsonObject = dict[str, Any]
Ask = Callable[..., Any]


def find_claude() -> str | None:
    """The real program, where there is one."""
    installed = NODE_MODULES / ".bin/claude"
    return os.environ.get("ANTIPHON_CLAUDE_CODE") or (str(installed) if installed.exists() else None)


@pytest.fixture
def ask(tmp_path: Path) -> Ask:
    """Asks it one thing, with a home and a folder of its own, over `model`."""
    command = find_claude()
    if command is None or shutil.which(command) is None:
        pytest.skip("Claude Code is not installed: `make test-clients` installs it")
    home, folder = tmp_path / "home", tmp_path / "work"
    home.mkdir()
    folder.mkdir()

    async def ask(model: ScriptedBackend, prompt: str, *options: str) -> JsonObject:
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
                output, errors = await asyncio.wait_for(process.communicate(), PATIENCE)
            finally:
                if process.returncode is None:
                    process.kill()
                    await process.wait()
        assert output, errors.decode()
        return json.loads(output)

    return ask


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


async def test_a_text_answer(ask: Ask) -> None:
    model = ScriptedBackend.saying("Hello", " from", " behind.")
    result = await ask(model, "Say hello.")
    assert (result["is_error"], result["result"]) == (False, "Hello from behind.")
    turn = model.turns[-1]
    asked = [item for item in turn.items if isinstance(item, Message) and item.role == "user"]
    assert "Say hello." in str(asked[0].content)
    assert {"Bash", "Write", "Read", "Edit"} <= {tool.name for tool in turn.tools}
    assert turn.params.reasoning is not None


async def test_it_writes_a_file_and_runs_a_command(ask: Ask, tmp_path: Path) -> None:
    path = tmp_path / "work" / "note.txt"

    def play(turn: TurnRequest) -> Iterable[Step]:
        match len(outputs(turn)):
            case 0:
                thought = [
                    ReasoningDelta("A file first."),
                    ProviderStateAdded(ProviderState("maker", {"sig": "s"})),
                ]
                return [thought, *call("call_1", "Write", file_path=str(path), content="written by a tool\n")]
            case 1:
                return call("call_2", "Bash", command="wc -w note.txt", description="Count the words")
            case _:
                return [[TextDelta(f"It has {outputs(turn)[1].split()[0]} words.")], [Finished("stop")]]

    model = ScriptedBackend(play)
    result = await ask(model, "Write a note.", "--allowedTools", "Write", "Bash(wc:*)")
    assert (result["is_error"], result["result"]) == (False, "It has 4 words.")
    assert path.read_text() == "written by a tool\n"
    thoughts = [item for item in model.turns[-1].items if isinstance(item, OpenedReasoning)]
    assert [thought.states_from("maker") for thought in thoughts] == [[{"sig": "s"}]]


async def test_an_error_of_the_model(ask: Ask) -> None:
    fault = BackendRefused("The model is out of order.", status=400, code="invalid_value")
    result = await ask(ScriptedBackend([fault]), "Say hello.")
    assert result["is_error"]
    assert "The model is out of order." in result["result"]
