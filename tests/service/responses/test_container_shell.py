"""`shell` in a container: commands run in the loop, and are items of the shell."""

from collections.abc import AsyncGenerator
from typing import Any

import msgspec
import pytest

from antiphon.backends.scripted import ScriptedBackend
from antiphon.errors import InvalidRequest, NotFound, Unsupported
from antiphon.protocol.tool_items import CodeInterpreterCall, ShellCall, ShellCallOutput
from antiphon.service.containers.containers import ContainerLimits, Containers
from antiphon.service.hosted_tools.code_interpreter import CodeInterpreter
from antiphon.service.hosted_tools.container_shell import ContainerShell
from antiphon.service.hosted_tools.container_use import REPLACED
from antiphon.service.responses.create import Creator
from antiphon.turn.chunks import CallDelta, CallFinished, CallStarted, Chunk, Finished, TextDelta
from tests.sandbox.sandboxes import SMALL, bubblewrap
from tests.service.conftest import MakeCreator
from tests.service.responses.searches import create, outputs, stream
from tests.service.responses.test_code_interpreter import FilesOf

pytestmark = pytest.mark.requirement("HOSTED/containers-shell")

TOOL: dict[str, Any] = {"type": "shell", "environment": {"type": "container_auto"}}
PYTHON: dict[str, Any] = {"type": "code_interpreter", "container": {"type": "auto"}}
ANSWER: list[Chunk] = [TextDelta("Done."), Finished("stop")]


def called(name: str, **arguments: Any) -> list[Chunk]:
    delta = CallDelta(0, msgspec.json.encode(arguments).decode())
    return [CallStarted(0, "call_0", name), delta, CallFinished(0), Finished("tool_calls")]


@pytest.fixture
async def containers(make_creator: MakeCreator) -> AsyncGenerator[Containers, None]:
    creator = make_creator(ScriptedBackend([ANSWER]))
    files: Any = FilesOf(creator)
    made = Containers(bubblewrap(), files, creator.ids, creator.clock, ContainerLimits(sandbox=SMALL))
    yield made
    await made.aclose()


def running(
    make_creator: MakeCreator, containers: Containers, *turns: list[Chunk]
) -> tuple[Creator, ScriptedBackend]:
    backend = ScriptedBackend(*([turn] for turn in turns))
    tools = (CodeInterpreter(containers), ContainerShell(containers, 120))
    return make_creator(backend, served_tools=tools), backend


async def test_the_model_continues_with_the_output(make_creator: MakeCreator, containers: Containers) -> None:
    commands = ["echo a > f; cat f", "ls nowhere", "echo b >&2; exit 3"]
    creator, backend = running(make_creator, containers, called("shell", commands=commands), ANSWER)
    response = await create(creator, tools=[TOOL])
    call, output, _ = response.output
    assert isinstance(call, ShellCall)
    assert isinstance(output, ShellCallOutput)
    assert call.action["commands"] == commands
    assert str(call.id).startswith("sh_")
    environment: Any = call.environment
    assert environment["type"] == "container_reference"
    assert environment["container_id"].startswith("cntr_")
    assert (output.call_id, output.status) == (call.call_id, "completed")
    first, second, third = output.output
    assert first == {"stdout": "a\n", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}
    assert second["outcome"]["exit_code"] == 2
    assert (third["stderr"], third["outcome"]["exit_code"]) == ("b\n", 3)
    [seen] = outputs(backend)
    assert "$ echo a > f; cat f\na\n[exit code 0]" in seen
    assert backend.turns[0].tools[0].name == "shell"


async def test_the_events_come_in_their_order(make_creator: MakeCreator, containers: Containers) -> None:
    creator, _ = running(make_creator, containers, called("shell", commands=["echo a", "true"]), ANSWER)
    events = await stream(creator, tools=[TOOL])
    types = [event["type"].removeprefix("response.") for event in events]
    assert types[2:17] == [
        "output_item.added",
        *("shell_call_command.added", "shell_call_command.delta", "shell_call_command.done") * 2,
        "output_item.done",
        "output_item.added",
        "shell_call_output_content.delta",
        "shell_call_output_content.done",
        "shell_call_output_content.done",
        "output_item.done",
        "output_item.added",
        "content_part.added",
    ]
    assert "item_id" not in events[3]
    assert events[11]["delta"] == {"stdout": "a\n"}


async def test_the_shell_and_the_interpreter_share_a_container(
    make_creator: MakeCreator, containers: Containers
) -> None:
    creator, backend = running(
        make_creator,
        containers,
        called("python", code="open('/mnt/data/f', 'w').write('from python')"),
        called("shell", commands=["cat f"]),
        ANSWER,
        called("shell", commands=["cat f; python3 -c 'print(1)' || true"]),
        ANSWER,
    )
    first = await create(creator, tools=[TOOL, PYTHON])
    run, call = first.output[0], first.output[1]
    assert isinstance(run, CodeInterpreterCall)
    assert isinstance(call, ShellCall)
    environment: Any = call.environment
    assert environment["container_id"] == run.container_id
    second = await create(creator, tools=[TOOL], previous_response_id=first.id)
    again: Any = second.output[0]
    assert again.environment == environment
    assert "from python" in outputs(backend)[-1]
    assert "from python" in outputs(backend)[-2], "the next turn sees the output of earlier commands"


async def test_the_model_is_shown_that_its_files_are_gone(
    make_creator: MakeCreator, containers: Containers
) -> None:
    creator, backend = running(
        make_creator,
        containers,
        called("shell", commands=["echo a > f"]),
        ANSWER,
        called("shell", commands=["cat f", "echo b >&2"]),
        called("shell", commands=["echo c"]),
        ANSWER,
    )
    first = await create(creator, tools=[TOOL])
    await containers.aclose()
    second = await create(creator, tools=[TOOL], previous_response_id=first.id)
    [replaced, later] = [item.output for item in second.output if isinstance(item, ShellCallOutput)]
    assert replaced[0]["stderr"].startswith(f"{REPLACED}\ncat: f:")
    assert (replaced[1]["stderr"], later[0]["stderr"]) == ("b\n", ""), "it is shown once"
    assert [REPLACED in shown for shown in outputs(backend)[-2:]] == [True, False]


async def test_a_command_that_takes_too_long_is_ended(
    make_creator: MakeCreator, containers: Containers
) -> None:
    turn = called("shell", commands=["sleep 60 & echo begun; sleep 60", "echo next"], timeout_ms=300)
    creator, backend = running(make_creator, containers, turn, ANSWER)
    response = await create(creator, tools=[TOOL])
    output: Any = response.output[1]
    assert output.output[0] == {"stdout": "begun\n", "stderr": "", "outcome": {"type": "timeout"}}
    assert output.output[1]["stdout"] == "next\n"
    assert "[timed out]" in outputs(backend)[0]


async def test_a_call_without_commands_is_told_to_the_model(
    make_creator: MakeCreator, containers: Containers
) -> None:
    creator, backend = running(make_creator, containers, called("shell", commands=[]), ANSWER)
    response = await create(creator, tools=[TOOL])
    assert [type(item) for item in response.output[:2]] == [ShellCall, ShellCallOutput]
    assert "'commands' must be a list" in outputs(backend)[0]
    assert response.status == "completed"


async def test_a_full_server_is_told_to_the_model(make_creator: MakeCreator, containers: Containers) -> None:
    limits = ContainerLimits(sandbox=SMALL, total=0)
    files: Any = FilesOf(make_creator(ScriptedBackend([ANSWER])))
    full = Containers(containers.sandbox, files, containers.ids, lambda: 0.0, limits)
    creator, backend = running(make_creator, full, called("shell", commands=["true"]), ANSWER)
    response = await create(creator, tools=[TOOL])
    assert [type(item) for item in response.output[:2]] == [ShellCall, ShellCallOutput]
    assert "no room for another container" in outputs(backend)[0]


async def test_output_is_cut_off_where_the_model_wants_it(
    make_creator: MakeCreator, containers: Containers
) -> None:
    turn = called("shell", commands=["yes | head -c 2000000"], max_output_length=10)
    creator, _ = running(make_creator, containers, turn, ANSWER)
    output: Any = (await create(creator, tools=[TOOL])).output[1]
    assert output.max_output_length == 10
    assert output.output[0]["stdout"] == "y\n" * 5
    assert "more bytes of output are left out" in output.output[0]["stderr"]


@pytest.mark.parametrize(
    ("environment", "error", "param"),
    [
        ({"type": "container_reference"}, InvalidRequest, "tools[0].environment.container_id"),
        (
            {"type": "container_reference", "container_id": "cntr_" + "0" * 44},
            NotFound,
            "tools[0].environment.container_id",
        ),
        ({"type": "container_auto", "file_ids": ["file_1"]}, NotFound, "tools[0].environment.file_ids"),
        (
            {"type": "container_auto", "memory_limit": "2g"},
            InvalidRequest,
            "tools[0].environment.memory_limit",
        ),
        (
            {"type": "container_auto", "memory_limit": "64g"},
            InvalidRequest,
            "tools[0].environment.memory_limit",
        ),
        (
            {"type": "container_auto", "network_policy": {"type": "allowlist", "allowed_domains": ["a.b"]}},
            Unsupported,
            "tools[0].environment.network_policy",
        ),
        ({"type": "container_auto", "skills": [{"type": "x"}]}, Unsupported, "tools[0].environment.skills"),
    ],
)
async def test_a_wrong_declaration_is_refused_before_any_event(
    make_creator: MakeCreator,
    containers: Containers,
    environment: dict[str, Any],
    error: type[InvalidRequest | NotFound | Unsupported],
    param: str,
) -> None:
    creator, _ = running(make_creator, containers, ANSWER)
    with pytest.raises(error) as caught:
        await create(creator, tools=[{"type": "shell", "environment": environment}])
    assert caught.value.param == param


async def test_a_call_can_be_demanded(make_creator: MakeCreator, containers: Containers) -> None:
    creator, backend = running(make_creator, containers, called("shell", commands=["true"]), ANSWER)
    response = await create(creator, tools=[TOOL], tool_choice={"type": "shell"})
    assert isinstance(response.output[0], ShellCall)
    assert backend.turns[0].choice != "auto"
    assert backend.turns[1].choice == "auto"
