"""`shell` in a container: the model runs commands in the containers of `code_interpreter`."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from antiphon.errors import AntiphonError, InvalidRequest
from antiphon.protocol.containers import SHELL, parse_container_shell
from antiphon.protocol.content import JsonObject
from antiphon.protocol.items import Item
from antiphon.protocol.tool_items import ShellCall, ShellCallOutput
from antiphon.protocol.tools import HostedTool
from antiphon.sandbox.port import DATA_FOLDER, CommandResult
from antiphon.service.containers.containers import Container, Containers
from antiphon.service.hosted_tools.base import OpenedTool, ToolScope
from antiphon.service.hosted_tools.container_use import ContainerUse, is_image, open_container
from antiphon.turn.chunks import Chunk, HostedItemBegun, HostedItemDone
from antiphon.turn.function_forms.descriptions import SHELL as PARAMETERS
from antiphon.turn.function_forms.reading import read_shell
from antiphon.turn.hosted_calls import HostedCall
from antiphon.turn.tools import HostedForm

MAX_COMMANDS = 64
COMMANDS_SHARE = 0.9
"""Of the time of a call, for its commands. A cancelled call ends its container: they end before."""
_DESCRIPTION = (
    "Run commands of a shell in a container without network. Each entry of 'commands' is one command line, "
    f"run by itself in {DATA_FOLDER}: what belongs together, such as a change of the folder, must be in one "
    "entry ('cd src && ls'). The answer has the output of each command and its exit code. Files stay until "
    f"the next call. The user's files are in {DATA_FOLDER}; save files for the user there, and link them in "
    f"the answer as [name](sandbox:{DATA_FOLDER}/name)."
)


@dataclass(frozen=True, slots=True)
class ContainerShell:
    """Serves `shell` with the environment of a container."""

    containers: Containers
    call_seconds: float
    """The time of a call (`HostedLimits.call_seconds`)."""
    types: frozenset[str] = frozenset({SHELL})

    def owns(self, declared: HostedTool) -> bool:
        """Its container has to be looked for."""
        return True

    async def open(self, declared: HostedTool, key: str, scope: ToolScope, path: str) -> OpenedTool:
        """Check the container, or the files of one that may have to be made."""
        wanted, where = parse_container_shell(declared.body, path), f"{path}.environment"
        use = await open_container(self.containers, scope, wanted, where, f"{where}.container_id")
        form = HostedForm(
            key=key, declared=declared, name=SHELL, description=_DESCRIPTION, parameters=PARAMETERS
        )
        return OpenedTool([ContainerShellFunction(form, use, COMMANDS_SHARE * self.call_seconds)])


@dataclass(slots=True)
class ContainerShellFunction:
    """The commands of one response in one container. Each call is an item with the commands, and one with
    their output."""

    form: HostedForm
    use: ContainerUse
    seconds: float
    """For all commands of a call."""
    repeatable: bool = False
    """Commands change the files of their container."""
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    """The container runs one command at a time: the time that is left to one of another call of the same turn
    is known when it begins."""
    _call_ids: dict[int, str] = field(default_factory=dict[int, str])
    """The call ids that clients see, by the index of the call in its turn."""

    def approval_request(self, call: HostedCall) -> None:
        """Commands need no approval: their container is isolated."""

    async def run(self, call: HostedCall) -> AsyncGenerator[Sequence[Chunk], None]:
        """Run the commands one after another: they are sent before, their output after."""
        until = asyncio.get_running_loop().time() + self.seconds
        action, fault = read_shell(call.arguments)
        self._call_ids[call.index] = call_id = self.use.containers.ids.new("call")
        longest = action["max_output_length"]
        item = ShellCall(call_id=call_id, action=action, status="completed")
        try:
            container = await self.use.get()
        except AntiphonError:
            yield [HostedItemDone(item)]
            raise
        environment: JsonObject = {"type": "container_reference", "container_id": container.id}
        yield [HostedItemDone(replace(item, environment=environment))]
        output = ShellCallOutput(call_id=call_id, output=[], max_output_length=longest)
        yield [HostedItemBegun(call.index, output)]
        if fault or len(action["commands"]) > MAX_COMMANDS:
            raise InvalidRequest(fault or f"There can be at most {MAX_COMMANDS} commands.")
        printed = [await self._run(container, command, action, until) for command in action["commands"]]
        yield [HostedItemDone(replace(output, output=printed, status="completed"), None, call.index)]

    async def _run(self, container: Container, command: str, action: JsonObject, until: float) -> JsonObject:
        timeout_ms, longest = action["timeout_ms"], action["max_output_length"]
        async with self._turn:
            left = until - asyncio.get_running_loop().time()
            if left <= 0:
                return {"stdout": "", "stderr": "", "outcome": {"type": "timeout"}}
            seconds = min(timeout_ms / 1000, left) if timeout_ms and timeout_ms > 0 else left
            result = await self.use.containers.run_command(container, command, seconds)
        self.use.pictures |= {file.name: None for file in result.changed if is_image(file.name)}
        return _output(result, longest if longest and longest > 0 else None, self.use.take_note())

    def failure(self, call: HostedCall, reason: str) -> HostedItemDone:
        """Commands that failed; the model is shown the reason."""
        failed: JsonObject = {
            "stdout": "",
            "stderr": f"The commands could not be run: {reason}",
            "outcome": {"type": "exit", "exit_code": 1},
        }
        call_id = self._call_ids.get(call.index, "")
        item = ShellCallOutput(call_id=call_id, output=[failed], status="completed")
        return HostedItemDone(item, None, call.index)

    def without_model(self, items: Sequence[Item]) -> str | None:
        """Only a model can write commands."""
        return None


def _output(result: CommandResult, longest: int | None, note: str) -> JsonObject:
    """The output of a command; of each stream at most `longest` characters."""
    stderr = "\n".join(filter(None, (note, result.stderr[:longest])))
    if result.dropped_bytes:
        stderr += f"[{result.dropped_bytes:,} more bytes of output are left out]"
    code = result.exit_code
    outcome: JsonObject = {"type": "timeout"} if code is None else {"type": "exit", "exit_code": code}
    return {"stdout": result.stdout[:longest], "stderr": stderr, "outcome": outcome}
