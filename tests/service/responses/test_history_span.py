"""The clock of a trace: the reading of the history ends before tools are listed, and is absent without one."""

from typing import Any

import pytest

from antiphon.backends.scripted import ScriptedBackend
from antiphon.protocol.parse_create import create_from
from antiphon.protocol.tools import HostedTool
from antiphon.service.hosted_tools.base import OpenedTool, ToolScope
from antiphon.service.hosted_tools.file_search import FileSearch
from antiphon.service.responses.create import Creator
from antiphon.service.responses.record import TracePolicy
from antiphon.service.responses.run import ResponseRun
from antiphon.turn.trace import TraceRecorder
from tests.service.conftest import MakeCreator
from tests.service.passages import ScriptedPassages
from tests.service.responses.mcp_world import ANSWER, CALLER

FILES = {"type": "file_search", "vector_store_ids": ["vs_1"]}


class Listing(FileSearch):
    """Notes when it is opened."""

    done: list[str]

    async def open(self, declared: HostedTool, key: str, scope: ToolScope, path: str) -> OpenedTool:
        self.done.append("tools opened")
        return await super().open(declared, key, scope, path)


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was done, in order."""
    found: list[str] = []

    def read(recorder: TraceRecorder) -> None:
        found.append("history read")

    monkeypatch.setattr(TraceRecorder, "history_read", read)
    monkeypatch.setattr(Listing, "done", found, raising=False)
    return found


@pytest.fixture
def creator(make_creator: MakeCreator) -> Creator:
    backend = ScriptedBackend(*[[ANSWER]] * 3)
    tools = (Listing(ScriptedPassages()),)
    return make_creator(backend, served_tools=tools, traces=TracePolicy(record="all"))


async def ended(creator: Creator, **params: Any) -> ResponseRun:
    request = create_from(model="m", input="Why?", **params)
    run = creator.start(request, CALLER)
    await run.result()
    return run


async def test_the_history_is_read_before_tools_are_opened(creator: Creator, done: list[str]) -> None:
    first = await ended(creator)
    assert done == []
    await ended(creator, previous_response_id=first.id, tools=[FILES])
    assert done == ["history read", "tools opened"]


@pytest.mark.parametrize("stored", [False, True])
async def test_a_response_without_a_history_reads_none(
    creator: Creator, done: list[str], stored: bool
) -> None:
    await ended(creator, store=stored, tools=[FILES])
    assert done == ["tools opened"]
