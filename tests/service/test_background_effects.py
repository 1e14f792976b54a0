"""Images and commands in the background: after a crash none is repeated, and the model is told so."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import Any

import msgspec
import pytest

from antiphon.backends.scripted import ScriptedBackend
from antiphon.jobs.worker import Worker
from antiphon.protocol.parse_create import parse_create
from antiphon.sandbox.port import CommandResult, SandboxLimits
from antiphon.service.background import Background
from antiphon.service.containers.containers import ContainerLimits, Containers
from antiphon.service.hosted_tools.base import ServedTool
from antiphon.service.hosted_tools.container_shell import ContainerShell
from antiphon.service.hosted_tools.image_generation import ImageGeneration
from antiphon.service.responses.create import Creator
from tests.sandbox.memory_sandbox import MemorySandbox, MemorySession
from tests.service.conftest import MakeCreator
from tests.service.responses.mcp_world import ANSWER, CALLER, call, calls, outputs
from tests.service.responses.test_code_interpreter import FilesOf
from tests.service.test_background import followed
from tests.turn.order import check_order

SHELL = {"type": "shell", "environment": {"type": "container_auto"}}
IMAGE = {"type": "image_generation"}


class Work:
    """Something that begins and never ends."""

    def __init__(self) -> None:
        self.began = asyncio.Event()
        self.times = 0

    async def do(self) -> None:
        self.times += 1
        self.began.set()
        await asyncio.Event().wait()


class Painter:
    def __init__(self, work: Work) -> None:
        self._work = work

    def refused(self, _wanted: object) -> str:
        return ""

    async def make(self, *_: object) -> AsyncGenerator[Any, None]:
        await self._work.do()
        yield

    async def aclose(self) -> None: ...


class WorkingSession(MemorySession):
    work: Work

    async def run_command(self, command: str, seconds: float) -> CommandResult:
        await self.work.do()
        raise AssertionError("it never ends")


class WorkingSandbox(MemorySandbox):
    def __init__(self, work: Work) -> None:
        self._work = work

    async def start(self, limits: SandboxLimits) -> WorkingSession:
        session = WorkingSession(limits)
        session.work = self._work
        return session


def served(work: Work, creator: Creator) -> tuple[ServedTool, ...]:
    files: Any = FilesOf(creator)
    painter: Any = Painter(work)
    containers = Containers(WorkingSandbox(work), files, creator.ids, creator.clock, ContainerLimits())
    return ContainerShell(containers, 120), ImageGeneration({"painter": painter})


@pytest.mark.requirement("HOSTED/loop-resume")
@pytest.mark.parametrize(
    ("tool", "turn"),
    [
        (SHELL, calls(call("shell", commands=["send a letter"]))),
        (IMAGE, calls(call("image_generation", prompt="a cat"))),
    ],
    ids=["shell", "image_generation"],
)
async def test_work_that_was_cut_off_is_not_repeated(
    make_creator: MakeCreator, tool: dict[str, Any], turn: Any
) -> None:
    work = Work()

    def process(name: str, *turns: Any) -> tuple[Background, ScriptedBackend]:
        backend = ScriptedBackend(*([list(turn)] for turn in turns))
        creator = make_creator(backend, served_tools=served(work, make_creator(ScriptedBackend([]))))
        return Background(creator, Worker(creator.store.jobs, creator.store.signals, owner=name)), backend

    first, _ = process("first", turn, turn)
    body = msgspec.json.encode({"model": "m", "input": "Do it.", "background": True, "tools": [tool]})
    response = await first.submit(parse_create(body), body, CALLER)
    async with asyncio.timeout(10):
        await work.began.wait()
    with suppress(Exception):
        await first.jobs.aclose()
    second, backend = process("second", ANSWER)
    second.jobs.adopt()
    async with asyncio.timeout(10):
        events = await followed(second, response.id)
    check_order(events)
    await second.jobs.aclose()
    *_, cut_off, message = events[-1]["response"]["output"]
    assert (cut_off["status"], message["type"]) == ("incomplete", "message")
    assert work.times == 1
    assert "its outcome is unknown" in outputs(backend)[0]
