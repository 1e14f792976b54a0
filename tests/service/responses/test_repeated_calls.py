"""A model that repeats a hosted call with the same arguments."""

from typing import Any

import msgspec
import pytest

from antiphon.backends.scripted import ScriptedBackend
from antiphon.isolated.pool import IsolatedPool
from antiphon.mcp.port import McpTool
from antiphon.protocol.tool_items import FileSearchCall, McpCall
from antiphon.service.checks import Checks
from antiphon.service.hosted_tools.mcp.tool import McpServed
from antiphon.tools.repeat_guard import suppressed_output
from antiphon.turn.chunks import Chunk
from tests.service.conftest import MakeCreator
from tests.service.passages import ScriptedPassages
from tests.service.responses import mcp_world
from tests.service.responses.mcp_world import calls
from tests.service.responses.searches import ANSWER, SEARCH, MakeSearching, create, outputs
from tests.service.test_background_mcp import TOOL, Shop

AGAIN = "made with the same arguments before"


async def test_a_search_is_not_run_a_third_time(searching: MakeSearching, passages: ScriptedPassages) -> None:
    creator, backend = searching(SEARCH, SEARCH, SEARCH, SEARCH, ANSWER)
    response = await create(creator)
    searches = [item for item in response.output if isinstance(item, FileSearchCall)]
    assert [item.status for item in searches] == ["completed", "completed", "failed", "failed"]
    assert len(passages.queries) == 2
    shown = outputs(backend, -1)
    assert AGAIN not in shown[1]
    assert msgspec.json.decode(suppressed_output("file_search"))["guidance"] in shown[2].replace("\\", "")


class Page(Shop):
    """A server with a tool that only looks, and one that changes what it sees."""

    async def list_tools(self, tenant: str, server: Any) -> tuple[McpTool, ...]:
        return McpTool("look", {"type": "object"}, read_only=True), McpTool("press", {"type": "object"})


def look(index: int = 0) -> list[Chunk]:
    return mcp_world.call("look", index, item="page")


def press(index: int = 0, button: str = "next") -> list[Chunk]:
    return mcp_world.call("press", index, item=button)


@pytest.mark.parametrize(
    ("made", "failed"),
    [
        ([look(), look(), look()], [2]),
        ([[*look(0), *look(1), *look(2)]], [2]),
        ([press(), press(), press(), press()], [2, 3]),
        ([press(), look(), press(), look(), press(), look()], []),
        ([press(), press(button="back")] * 3, []),
        ([look(), look(), press(), look(), look(), look()], [5]),
    ],
)
async def test_calls_that_change_something_make_others_new(
    make_creator: MakeCreator, made: list[list[Chunk]], failed: list[int]
) -> None:
    pool, page = IsolatedPool(), Page()
    turns = [[calls(each)] for each in made]
    backend = ScriptedBackend(*turns, [mcp_world.ANSWER])
    creator = make_creator(backend, served_tools=(McpServed(page, Checks(pool)),))
    try:
        response = await mcp_world.create(creator, TOOL)
    finally:
        await pool.aclose()
    found = [item for item in response.output if isinstance(item, McpCall)]
    assert [index for index, item in enumerate(found) if item.status == "failed"] == failed
    assert len(page.bought) == len(found) - len(failed)
    assert response.output[-1].__struct_config__.tag == "message"
    for index in failed:
        assert AGAIN in str(found[index].error)
