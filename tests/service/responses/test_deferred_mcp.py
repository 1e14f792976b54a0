"""Deferred tools of MCP servers: hidden until a search of this server has found them."""

from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any

import pytest

from antiphon.backends.scripted import ScriptedBackend
from antiphon.errors import InvalidRequest
from antiphon.http.egress import ALLOW_CONFIGURED
from antiphon.isolated.pool import IsolatedPool
from antiphon.mcp.connections import McpConnections
from antiphon.protocol.tool_items import McpCall, McpListTools, ToolSearchCall, ToolSearchOutput
from antiphon.service.checks import Checks
from antiphon.service.hosted_tools.mcp.tool import McpServed
from antiphon.service.responses.create import Creator
from antiphon.turn.chunks import Chunk
from tests.mcp.conftest import sdk_server
from tests.service.conftest import MakeCreator
from tests.service.responses.mcp_world import ADD, ANSWER, call, calls, create, outputs, stream

__all__ = ["sdk_server"]

MakeServing = Callable[..., tuple[Creator, ScriptedBackend]]
SEARCH: list[Chunk] = calls(call("tool_search", query="add two numbers", limit=1))
SEARCH_TOOL = {"type": "tool_search"}


@pytest.fixture
async def serving(make_creator: MakeCreator) -> AsyncGenerator[MakeServing, None]:
    pool, connections = IsolatedPool(), McpConnections(ALLOW_CONFIGURED)

    def made(*turns: Sequence[Chunk], **fields: Any) -> tuple[Creator, ScriptedBackend]:
        backend = ScriptedBackend(*([list(turn)] for turn in turns), **fields)
        return make_creator(backend, served_tools=(McpServed(connections, Checks(pool)),)), backend

    yield made
    await connections.aclose()
    await pool.aclose()


@pytest.fixture
def tool(sdk_url: str) -> dict[str, Any]:
    return {
        "type": "mcp",
        "server_label": "sdk",
        "server_url": f"{sdk_url}/modern/mcp",
        "require_approval": "never",
        "headers": {"X-Key": "a-secret-of-the-client"},
        "defer_loading": True,
    }


def shown(backend: ScriptedBackend, turn: int) -> list[str]:
    return [tool.name for tool in backend.turns[turn].tools]


@pytest.mark.requirement("HOSTED/mcp-deferred")
async def test_a_search_finds_a_tool_and_the_model_calls_it(
    serving: MakeServing, tool: dict[str, Any]
) -> None:
    creator, backend = serving(SEARCH, ADD, ANSWER, ADD, ANSWER)
    response = await create(creator, [SEARCH_TOOL, tool])
    listed, searched, found, called, _message = response.output
    assert isinstance(listed, McpListTools)
    assert isinstance(searched, ToolSearchCall)
    assert isinstance(found, ToolSearchOutput)
    assert found.tools == [{"type": "mcp", "server_label": "sdk", "allowed_tools": ["add"]}]
    assert isinstance(called, McpCall)
    assert (called.name, called.output) == ("add", "5")
    assert shown(backend, 0) == ["tool_search"]
    assert "sdk.add" in str(backend.turns[0].tools[0].description)
    assert shown(backend, 1) == ["tool_search", "add"]
    assert outputs(backend, 1) == ["These tools can be called now: add."]
    assert not any("defer_loading" in each.text for each in backend.turns[0].downgrades)
    # the next turn still knows what was found
    again = await create(creator, [], previous_response_id=response.id, input="And again?")
    assert isinstance(again.output[0], McpCall)
    assert shown(backend, 3) == ["tool_search", "add"]


@pytest.mark.requirement("HOSTED/mcp-deferred")
async def test_the_events_of_a_search_come_in_their_order(serving: MakeServing, tool: dict[str, Any]) -> None:
    creator, _ = serving(SEARCH, ADD, ANSWER)
    given = {"model": "m", "tools": [SEARCH_TOOL, tool]}
    events = await stream(creator, tool, **given)
    kinds = [event["item"]["type"] for event in events if event["type"] == "response.output_item.done"]
    assert kinds == ["mcp_list_tools", "tool_search_call", "tool_search_output", "mcp_call", "message"]


async def test_a_client_that_stores_nothing_sends_what_was_found(
    serving: MakeServing, tool: dict[str, Any]
) -> None:
    creator, backend = serving(ADD, ANSWER, ADD)
    reference = {"type": "mcp", "server_label": "sdk", "allowed_tools": ["add", "unknown", 3]}
    items: list[dict[str, Any]] = [
        {"type": "tool_search_call", "call_id": None, "execution": "server", "arguments": {}},
        {"type": "tool_search_output", "call_id": None, "execution": "server", "tools": [reference]},
        {"role": "user", "content": "What is 2 + 3?"},
    ]
    await create(creator, [SEARCH_TOOL, tool], input=items)
    assert shown(backend, 0) == ["tool_search", "add"]
    # the server is not declared any more: nothing can be called
    await create(creator, [{"type": "function", "name": "f"}], input=items)
    assert shown(backend, 2) == ["f"]


async def test_a_reference_gives_no_more_than_the_declaration(
    serving: MakeServing, tool: dict[str, Any]
) -> None:
    creator, backend = serving(ANSWER)
    reference = {"type": "mcp", "server_label": "sdk", "allowed_tools": ["add", "fail"]}
    items: list[dict[str, Any]] = [
        {"type": "tool_search_call", "call_id": None, "execution": "server", "arguments": {}},
        {"type": "tool_search_output", "call_id": None, "execution": "server", "tools": [reference]},
        {"role": "user", "content": "Hi"},
    ]
    await create(creator, [SEARCH_TOOL, {**tool, "allowed_tools": ["add"]}], input=items)
    assert shown(backend, 0) == ["tool_search", "add"]


async def test_a_namespace_with_the_label_of_a_server_stays_apart(
    serving: MakeServing, tool: dict[str, Any]
) -> None:
    add = {"type": "function", "name": "add", "description": "Add a contact.", "defer_loading": True}
    space = {"type": "namespace", "name": "sdk", "description": "Contacts", "tools": [add]}
    search = calls(call("tool_search", query="add", limit=50))
    creator, backend = serving(search, ANSWER)
    response = await create(creator, [SEARCH_TOOL, space, {**tool, "allowed_tools": ["add"]}])
    found = response.output[2]
    assert isinstance(found, ToolSearchOutput)
    assert sorted(each["type"] for each in found.tools) == ["mcp", "namespace"]
    assert sorted(shown(backend, 1)) == ["add", "sdk__add", "tool_search"]


async def test_without_a_search_deferred_tools_are_refused(
    serving: MakeServing, tool: dict[str, Any]
) -> None:
    creator, backend = serving(ANSWER)
    with pytest.raises(InvalidRequest) as refused:
        await create(creator, tool)
    assert refused.value.param == "tools[0].defer_loading"
    assert not backend.turns


async def test_a_demanded_tool_needs_no_search(serving: MakeServing, tool: dict[str, Any]) -> None:
    creator, backend = serving(ADD, ANSWER)
    choice = {"type": "mcp", "server_label": "sdk", "name": "add"}
    await create(creator, [SEARCH_TOOL, tool], tool_choice=choice)
    assert shown(backend, 0) == ["add"]


async def test_a_search_of_the_client_may_find_them_too(serving: MakeServing, tool: dict[str, Any]) -> None:
    creator, backend = serving(ADD, ANSWER)
    reference = {"type": "mcp", "server_label": "sdk", "allowed_tools": ["add"]}
    search: dict[str, Any] = {
        "type": "tool_search_call",
        "call_id": "s",
        "execution": "client",
        "arguments": {},
    }
    found = {"type": "tool_search_output", "call_id": "s", "execution": "client", "tools": [reference]}
    await create(creator, [{**SEARCH_TOOL, "execution": "client"}, tool], input=[search, found])
    assert shown(backend, 0) == ["tool_search", "add"]
