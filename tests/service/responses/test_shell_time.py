"""`shell` in a container: the commands of a call end before its time is over, so that the container stays."""

import asyncio
from typing import Any

import pytest

from antiphon.backends.scripted import ScriptedBackend
from antiphon.sandbox.port import CommandResult, SandboxLimits
from antiphon.service.containers.containers import ContainerLimits, Containers
from antiphon.service.hosted_tools.container_shell import ContainerShell
from antiphon.turn.chunks import Chunk
from tests.sandbox.memory_sandbox import MemorySandbox, MemorySession
from tests.service.conftest import MakeCreator
from tests.service.responses.mcp_world import ANSWER, call, calls
from tests.service.responses.searches import create
from tests.service.responses.test_code_interpreter import FilesOf

CALL_SECONDS = 3.0
TIMED_OUT = {"stdout": "", "stderr": "", "outcome": {"type": "timeout"}}
TOOL: dict[str, Any] = {"type": "shell", "environment": {"type": "container_auto"}}

pytestmark = pytest.mark.requirement("HOSTED/containers-shell")


class SlowSession(MemorySession):
    """A command `sleep` ends with its time."""

    async def run_command(self, command: str, seconds: float) -> CommandResult:
        self.contents[command] = str(seconds).encode()
        if command.startswith("sleep"):
            await asyncio.sleep(seconds)
            return CommandResult(None, "", "")
        return CommandResult(0, "made\n", "")


class SlowSandbox(MemorySandbox):
    def __init__(self) -> None:
        self.sessions: list[SlowSession] = []

    async def start(self, limits: SandboxLimits) -> SlowSession:
        self.sessions.append(SlowSession(limits))
        return self.sessions[-1]


async def played(make_creator: MakeCreator, turn: list[Chunk]) -> tuple[list[Any], SlowSession]:
    """The outputs of the calls of this turn, and the session that they ran in."""
    other = make_creator(ScriptedBackend([]))
    files: Any = FilesOf(other)
    sandbox = SlowSandbox()
    containers = Containers(sandbox, files, other.ids, other.clock, ContainerLimits())
    backend = ScriptedBackend([turn], [ANSWER])
    creator = make_creator(backend, served_tools=(ContainerShell(containers, CALL_SECONDS),))
    response: Any = await create(creator, tools=[TOOL])
    found = [item for item in response.output if type(item).__name__ == "ShellCallOutput"]
    assert [item.status for item in found] == ["completed"] * len(found)
    [session] = sandbox.sessions
    assert session.running
    return [item.output for item in found], session


async def test_commands_share_the_time_of_their_call(make_creator: MakeCreator) -> None:
    turn = calls(call("shell", commands=["make", "sleep", "never"]))
    [[made, slept, never]], session = await played(make_creator, turn)
    assert (made["stdout"], made["outcome"]) == ("made\n", {"type": "exit", "exit_code": 0})
    assert (slept, never) == (TIMED_OUT, TIMED_OUT)
    assert list(session.contents) == ["make", "sleep"], "a command without time is not run"
    assert max(map(float, session.contents.values())) <= 0.9 * CALL_SECONDS


async def test_a_call_that_waits_for_another_has_less_time(make_creator: MakeCreator) -> None:
    turn = calls(call("shell", commands=["sleep"]), call("shell", 1, commands=["after"]))
    [[slept], _], session = await played(make_creator, turn)
    assert slept == TIMED_OUT
    assert float(session.contents.get("after", b"0")) < 0.5 * CALL_SECONDS


async def test_a_shorter_time_of_a_command_counts(make_creator: MakeCreator) -> None:
    _, session = await played(make_creator, calls(call("shell", commands=["make"], timeout_ms=1)))
    assert session.contents == {"make": b"0.001"}
