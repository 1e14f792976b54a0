"""Images that code and commands have written in one container are cited once."""

from typing import Any

import pytest

from antiphon.backends.scripted import ScriptedBackend
from antiphon.service.containers.containers import ContainerLimits, Containers
from antiphon.service.hosted_tools.code_interpreter import CodeInterpreter
from antiphon.service.hosted_tools.container_shell import ContainerShell
from antiphon.turn.chunks import Chunk, Finished, TextDelta
from tests.sandbox.memory_sandbox import MemorySandbox
from tests.service.conftest import MakeCreator
from tests.service.responses.mcp_world import call, calls
from tests.service.responses.searches import create
from tests.service.responses.test_code_interpreter import FilesOf

TOOLS: list[dict[str, Any]] = [
    {"type": "code_interpreter", "container": {"type": "auto"}},
    {"type": "shell", "environment": {"type": "container_auto"}},
]
LINKED = "See [it](sandbox:/mnt/data/plot.png)."

pytestmark = pytest.mark.requirement("HOSTED/containers-citations")


async def annotations(make_creator: MakeCreator, *turns: list[Chunk]) -> list[list[dict[str, Any]]]:
    """Those of each message. Code and commands are the names of files that they write."""
    other = make_creator(ScriptedBackend([]))
    files: Any = FilesOf(other)
    containers = Containers(MemorySandbox(), files, other.ids, other.clock, ContainerLimits())
    tools = (CodeInterpreter(containers), ContainerShell(containers, 120))
    creator = make_creator(ScriptedBackend(*([turn] for turn in turns)), served_tools=tools)
    response: Any = await create(creator, tools=TOOLS)
    messages = [item for item in response.output if type(item).__name__ == "Message"]
    return [message.content[0].annotations for message in messages]


def python(name: str) -> list[Chunk]:
    return calls(call("python", code=name))


def shell(name: str) -> list[Chunk]:
    return calls(call("shell", commands=[name]))


def answer(text: str) -> list[Chunk]:
    return [TextDelta(text), Finished("stop")]


@pytest.mark.parametrize("text", ["Done.", LINKED], ids=["not linked", "linked"])
async def test_an_image_of_two_tools_is_cited_once(make_creator: MakeCreator, text: str) -> None:
    [[citation]] = await annotations(make_creator, python("plot.png"), shell("plot.png"), answer(text))
    assert citation["filename"] == "plot.png"
    assert (citation["end_index"] > 0) is (text is LINKED)


async def test_images_of_both_tools_are_cited(make_creator: MakeCreator) -> None:
    [found] = await annotations(make_creator, python("a.png"), shell("b.png"), answer("Done."))
    assert [each["filename"] for each in found] == ["a.png", "b.png"]
    assert [(each["start_index"], each["end_index"]) for each in found] == [(0, 0), (0, 0)]
