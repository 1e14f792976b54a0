"""The OpenAI Agents SDK runs a shell, patches and the local shell for a model that supports only functions."""

from typing import Any

import pytest
from agents import (
    Agent,
    ApplyPatchTool,
    LocalShellCommandRequest,
    LocalShellTool,
    OpenAIResponsesModel,
    RunConfig,
    Runner,
    ShellCallOutcome,
    ShellCommandOutput,
    ShellCommandRequest,
    ShellResult,
    ShellTool,
)
from agents.editor import ApplyPatchOperation, ApplyPatchResult

from antiphon import Antiphon, Route, ScriptedBackend, Settings
from antiphon.protocol.items import FunctionCallOutput
from antiphon.settings import SealSettings
from antiphon.turn.chunks import CallDelta, CallStarted, Chunk, Finished, TextDelta

SETTINGS = Settings(seal=SealSettings(key="test"))


async def run_commands(request: ShellCommandRequest) -> ShellResult:
    exited = ShellCallOutcome(type="exit", exit_code=0)
    return ShellResult(
        output=[
            ShellCommandOutput(stdout=f"ran {command}\n", stderr="", outcome=exited)
            for command in request.data.action.commands
        ]
    )


def run_command(request: LocalShellCommandRequest) -> str:
    return f"ran {' '.join(request.data.action.command)}"


class Editor:
    """Describes its operations."""

    def create_file(self, operation: ApplyPatchOperation) -> ApplyPatchResult:
        return ApplyPatchResult(output=f"created {operation.path}")

    def update_file(self, operation: ApplyPatchOperation) -> ApplyPatchResult:
        return ApplyPatchResult(output=f"updated {operation.path} with {operation.diff}")

    def delete_file(self, operation: ApplyPatchOperation) -> ApplyPatchResult:
        return ApplyPatchResult(output=f"deleted {operation.path}")


CASES: list[tuple[Any, str, str, str]] = [
    (
        ShellTool(executor=run_commands),
        "shell",
        '{"commands":["ls","pwd"]}',
        "$ ls\nran ls\n[exit code 0]\n$ pwd\nran pwd\n[exit code 0]",
    ),
    (
        ApplyPatchTool(editor=Editor()),
        "apply_patch",
        '{"type":"update_file","path":"a.py","diff":"+b"}',
        "The patch was applied.\nupdated a.py with +b",
    ),
    (LocalShellTool(executor=run_command), "local_shell", '{"command":["ls","-l"]}', "ran ls -l"),
]


@pytest.mark.parametrize("streamed", [False, True], ids=["json", "stream"])
@pytest.mark.parametrize(("tool", "name", "arguments", "output_seen"), CASES, ids=[case[1] for case in CASES])
async def test_the_sdk_runs_the_tool_and_the_model_sees_its_output(
    tool: Any, name: str, arguments: str, output_seen: str, streamed: bool
) -> None:
    call: list[Chunk] = [CallStarted(0, "call_1", name), CallDelta(0, arguments), Finished("tool_calls")]
    backend = ScriptedBackend([call], [[TextDelta("done"), Finished("stop")]])
    async with Antiphon(SETTINGS, routes=[Route("m", backend)]) as service:
        agent = Agent(name="a", tools=[tool], model=OpenAIResponsesModel("m", service.openai_client()))
        quiet = RunConfig(tracing_disabled=True)
        if streamed:
            result = Runner.run_streamed(agent, "hi", run_config=quiet)
            async for _ in result.stream_events():
                pass
            assert result.final_output == "done"
        else:
            assert (await Runner.run(agent, "hi", run_config=quiet)).final_output == "done"
    (output,) = (item for item in backend.turns[1].items if isinstance(item, FunctionCallOutput))
    assert output.output == output_seen
