"""Tools of MCP servers in responses: the model calls them, the server runs them."""

from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any

import msgspec
import pytest

from antiphon.backends.scripted import ScriptedBackend
from antiphon.errors import InvalidRequest, McpError
from antiphon.http.egress import ALLOW_CONFIGURED, AllowPublic
from antiphon.isolated.pool import IsolatedPool
from antiphon.mcp.approval import ALL_TOOLS, ALWAYS, NEVER, ToolFilter
from antiphon.mcp.configured import ConfiguredServer
from antiphon.mcp.connections import McpConnections
from antiphon.protocol.items import FunctionCall
from antiphon.protocol.tool_items import McpApprovalRequest, McpCall, McpListTools
from antiphon.service.checks import Checks
from antiphon.service.hosted_tools import base
from antiphon.service.hosted_tools.mcp.tool import McpServed
from antiphon.service.responses.create import Creator
from antiphon.turn.chunks import CallDelta, CallStarted, Chunk, Finished, TextDelta
from tests.mcp.conftest import sdk_server
from tests.service.conftest import MakeCreator
from tests.service.responses.mcp_world import ADD, ANSWER, approval, call, calls, create, outputs, stream

MakeServing = Callable[..., tuple[Creator, ScriptedBackend]]


@pytest.fixture
async def serving(make_creator: MakeCreator) -> AsyncGenerator[MakeServing, None]:
    """A creator whose model plays these turns, and calls tools of MCP servers."""
    pool, connections = IsolatedPool(), McpConnections(ALLOW_CONFIGURED)

    def made(*turns: Sequence[Chunk], **fields: Any) -> tuple[Creator, ScriptedBackend]:
        backend = ScriptedBackend(*([list(turn)] for turn in turns))
        served = McpServed(fields.pop("mcp", connections), Checks(pool), **fields)
        return make_creator(backend, served_tools=(served,)), backend

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
    }


@pytest.mark.requirement("HOSTED/mcp-calls")
async def test_a_tool_is_called_and_the_model_continues(serving: MakeServing, tool: dict[str, Any]) -> None:
    creator, backend = serving(ADD, ANSWER)
    response = await create(creator, tool)
    listed, called, _message = response.output
    assert isinstance(listed, McpListTools)
    add = listed.tools[0]
    assert (add["name"], add["description"], add["annotations"]) == (
        "add",
        "Add two numbers.",
        {"read_only": True},
    )
    assert isinstance(called, McpCall)
    assert (called.status, called.name, called.arguments, called.output, called.error) == (
        "completed",
        "add",
        '{"a":2,"b":3}',
        "5",
        None,
    )
    assert outputs(backend) == ["5"]
    shown = backend.turns[1].items[1]
    assert isinstance(shown, FunctionCall)
    assert (shown.name, backend.turns[0].tools[0].name) == ("add", "add")
    assert response.tools[0]["headers"] is None  # pyright: ignore[reportIndexIssue] -- JSON
    assert not backend.turns[1].downgrades


@pytest.mark.requirement("HOSTED/mcp-calls")
@pytest.mark.parametrize("path", ["/modern/mcp", "/handshake/mcp", "/handshake-json/mcp", "/sse/sse"])
async def test_the_events_come_in_their_order(serving: MakeServing, sdk_url: str, path: str) -> None:
    creator, _ = serving(ADD, ANSWER)
    tool = {
        "type": "mcp",
        "server_label": "sdk",
        "server_url": sdk_url + path,
        "require_approval": "never",
        "allowed_tools": ["add"],
    }
    events = await stream(creator, tool)
    assert [event["type"].removeprefix("response.") for event in events][2:12] == [
        "output_item.added",
        "mcp_list_tools.in_progress",
        "mcp_list_tools.completed",
        "output_item.done",
        "output_item.added",
        "mcp_call.in_progress",
        "mcp_call_arguments.delta",
        "mcp_call_arguments.done",
        "mcp_call.completed",
        "output_item.done",
    ]
    assert [each["name"] for each in events[5]["item"]["tools"]] == ["add"]
    assert events[-1]["response"]["status"] == "completed"


async def test_a_list_is_not_repeated_while_it_is_in_the_context(
    serving: MakeServing, tool: dict[str, Any]
) -> None:
    creator, backend = serving(ADD, ANSWER, ANSWER, ANSWER)
    first = await create(creator, tool)
    second = await create(creator, [], previous_response_id=first.id, input="Sure?")
    assert [type(item).__name__ for item in second.output] == ["Message"]
    assert outputs(backend) == ["5"]
    changed = {**tool, "allowed_tools": {"read_only": True}}
    third = await create(creator, changed, previous_response_id=second.id, input="Really?")
    assert isinstance(third.output[0], McpListTools)
    assert [each["name"] for each in third.output[0].tools] == ["add"]


@pytest.mark.requirement("HOSTED/mcp-failure")
async def test_a_failed_call_is_told_to_the_model(serving: MakeServing, tool: dict[str, Any]) -> None:
    creator, backend = serving(calls(call("fail"), call("add", 1, a="x")), ANSWER)
    events = await stream(creator, tool)
    items = events[-1]["response"]["output"]
    assert [item["status"] for item in items[1:3]] == ["failed", "failed"]
    assert items[1]["error"] == {
        "type": "mcp_tool_execution_error",
        "content": [{"type": "text", "text": "no such city"}],
    }
    assert items[1]["output"] is None
    assert outputs(backend)[0] == "The call failed: no such city"
    assert "response.mcp_call.failed" in [event["type"] for event in events]


async def test_arguments_that_are_not_an_object_are_a_protocol_error(
    serving: MakeServing, tool: dict[str, Any]
) -> None:
    broken: list[Chunk] = [CallStarted(0, "c", "add"), CallDelta(0, "[1"), Finished("tool_calls")]
    creator, _ = serving(broken, ANSWER)
    called = (await create(creator, tool)).output[1]
    assert isinstance(called, McpCall)
    assert isinstance(called.error, dict)
    assert (called.error["type"], called.error["code"]) == ("mcp_protocol_error", -32602)


async def test_a_long_output_is_cut_for_the_model(serving: MakeServing, tool: dict[str, Any]) -> None:
    creator, backend = serving(calls(call("route", region="é" * 300)), ANSWER, max_tokens=100)
    called = (await create(creator, tool)).output[1]
    assert isinstance(called, McpCall)
    assert called.output == "in " + "é" * 300
    assert outputs(backend)[0].endswith("[The output is longer: 400 of its 603 bytes are shown.]")


@pytest.mark.requirement("HOSTED/mcp-listing")
async def test_a_list_that_fails_refuses_the_request(serving: MakeServing, tool: dict[str, Any]) -> None:
    creator, backend = serving(ADD)
    with pytest.raises(McpError, match="Error retrieving tool list from MCP server: 'sdk'") as refused:
        await create(creator, {**tool, "server_url": "http://127.0.0.1:9/mcp"})
    assert (refused.value.status, backend.turns) == (424, [])


@pytest.mark.requirement("HOSTED/mcp-egress")
async def test_private_addresses_are_refused(serving: MakeServing, tool: dict[str, Any]) -> None:
    connections = McpConnections(AllowPublic())
    creator, _ = serving(ADD, mcp=connections)
    with pytest.raises((McpError, InvalidRequest)) as refused:
        await create(creator, tool)
    assert refused.value.status in (400, 424)
    await connections.aclose()


@pytest.mark.requirement("HOSTED/mcp-declaration")
@pytest.mark.parametrize(
    ("changes", "param"),
    [
        ({"server_url": None}, "tools[0].server_url"),
        ({"server_url": "ftp://x"}, "tools[0].server_url"),
        ({"connector_id": "connector_gmail"}, "tools[0].connector_id"),
        ({"tunnel_id": "t"}, "tools[0].tunnel_id"),
        ({"server_label": "a b"}, "tools[0].server_label"),
        ({"server_label": None}, "tools[0].server_label"),
        ({"server_label": {}}, "tools[0].server_label"),
        ({"server_label": ["sdk"], "server_url": None}, "tools[0].server_label"),
        ({"headers": {"Host": "x"}}, "tools[0].server_url"),
        ({"require_approval": "sometimes"}, "tools[0].require_approval"),
        ({"allowed_tools": 1}, "tools[0].allowed_tools"),
        ({"authorization": "x", "headers": {"Authorization": "y"}}, "tools[0].authorization"),
    ],
)
async def test_a_wrong_declaration_names_its_member(
    serving: MakeServing, tool: dict[str, Any], changes: dict[str, Any], param: str
) -> None:
    creator, _ = serving(ADD)
    with pytest.raises(InvalidRequest) as refused:
        await create(creator, {**tool, **changes})
    assert (refused.value.status, refused.value.param) == (400, param)


async def test_a_label_is_used_once(serving: MakeServing, tool: dict[str, Any]) -> None:
    creator, _ = serving(ADD)
    with pytest.raises(InvalidRequest, match="used twice") as refused:
        await create(creator, [tool, tool])
    assert refused.value.param == "tools[1].server_label"


async def test_a_response_has_few_servers(serving: MakeServing, tool: dict[str, Any]) -> None:
    creator, _ = serving(ADD)
    many = [{**tool, "server_label": f"s{number}"} for number in range(base.MAX_DECLARED + 1)]
    with pytest.raises(InvalidRequest, match="At most") as refused:
        await create(creator, many)
    assert refused.value.param == "tools"


async def test_the_lists_of_all_servers_are_bounded(
    serving: MakeServing, tool: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    creator, _ = serving(ANSWER)
    [listed, *_] = (await create(creator, tool)).output
    monkeypatch.setattr(base, "MAX_LISTED_BYTES", int(1.5 * len(msgspec.json.encode(listed))))
    await create(creator, tool)
    with pytest.raises(InvalidRequest, match="allowed_tools") as refused:
        await create(creator, [tool, {**tool, "server_label": "two"}])
    assert (refused.value.code, refused.value.param) == ("tools_too_large", "tools[1]")


@pytest.mark.requirement("HOSTED/mcp-names")
async def test_tools_of_the_same_name_are_told_apart(serving: MakeServing, tool: dict[str, Any]) -> None:
    creator, backend = serving(calls(call("two__add", a=1, b=1)), ANSWER)
    function = {"type": "function", "name": "count", "parameters": {"type": "object"}}
    both = [{**tool, "server_label": "one"}, {**tool, "server_label": "two"}, function]
    called = (await create(creator, both)).output[2]
    assert isinstance(called, McpCall)
    assert (called.server_label, called.name) == ("two", "add")
    names = [each.name for each in backend.turns[0].tools]
    assert {"one__add", "two__add", "one__count", "count"} <= set(names)
    shown = backend.turns[1].items[1]
    assert isinstance(shown, FunctionCall)
    assert shown.name == "two__add"


@pytest.mark.requirement("HOSTED/mcp-choice")
async def test_a_tool_can_be_demanded(serving: MakeServing, tool: dict[str, Any]) -> None:
    creator, backend = serving(ADD, ANSWER)
    choice = {"type": "mcp", "server_label": "sdk", "name": "add"}
    await create(creator, tool, tool_choice=choice)
    assert [each.name for each in backend.turns[0].tools] == ["add"]
    assert backend.turns[1].choice == "auto"
    creator, backend = serving(ADD, ANSWER)
    await create(creator, tool, tool_choice={"type": "mcp", "server_label": "sdk"})
    assert (len(backend.turns[0].tools), backend.turns[0].choice) == (8, "required")
    with pytest.raises(InvalidRequest, match="'no' of the server 'sdk', which is not declared"):
        await create(creator, tool, tool_choice={**choice, "name": "no"})


async def test_a_server_of_the_operator_has_his_rules(serving: MakeServing, sdk_url: str) -> None:
    server = sdk_server("stdio", sdk_url)
    configured = {
        "own": ConfiguredServer(server, ToolFilter(read_only=True), NEVER, 60.0),
        "asks": ConfiguredServer(server, ALL_TOOLS, ALWAYS, 60.0),
    }
    creator, backend = serving(ADD, ANSWER, ADD, configured=configured)
    response = await create(creator, {"type": "mcp", "server_label": "own"})
    assert [each.name for each in backend.turns[0].tools] == ["add"]
    assert isinstance(response.output[1], McpCall)
    asked = await create(
        creator,
        {"type": "mcp", "server_label": "asks", "allowed_tools": ["add"], "require_approval": "never"},
    )
    assert isinstance(asked.output[-1], McpApprovalRequest)
    with pytest.raises(InvalidRequest, match="the operator configures"):
        await create(creator, {"type": "mcp", "server_label": "own", "authorization": "x"})


@pytest.mark.requirement("HOSTED/mcp-approvals")
async def test_an_approved_call_runs_before_the_model_is_asked(
    serving: MakeServing, tool: dict[str, Any]
) -> None:
    creator, backend = serving(ADD, ANSWER)
    first = await create(creator, {**tool, "require_approval": None})
    asked = first.output[-1]
    assert isinstance(asked, McpApprovalRequest)
    assert (first.status, asked.name, asked.arguments) == ("completed", "add", '{"a":2,"b":3}')
    assert len(backend.turns) == 1

    events = await stream(creator, {**tool, "require_approval": "always"},
                          previous_response_id=first.id, input=[approval(first)])  # fmt: skip
    called, message = events[-1]["response"]["output"]
    assert (called["output"], called["approval_request_id"]) == ("5", asked.id)
    assert message["type"] == "message"
    assert outputs(backend) == ["5"]


@pytest.mark.requirement("HOSTED/mcp-approvals")
async def test_a_refused_call_is_told_to_the_model(serving: MakeServing, tool: dict[str, Any]) -> None:
    creator, backend = serving(ADD, [TextDelta("Fine."), Finished("stop")], ANSWER)
    first = await create(creator, {**tool, "require_approval": "always"})
    answer = approval(first, approve=False, reason="too expensive")
    second = await create(creator, [], previous_response_id=first.id, input=[answer])
    assert [type(item).__name__ for item in second.output] == ["Message"]
    refused = "The user refused this call, so it was not run. The reason: too expensive"
    assert outputs(backend) == [refused]
    await create(creator, [], previous_response_id=second.id, input="Why?")
    assert outputs(backend) == [refused]


@pytest.mark.requirement("HOSTED/mcp-approvals")
async def test_several_approvals_at_once_and_one_without_an_answer(
    serving: MakeServing, tool: dict[str, Any]
) -> None:
    three = calls(call("add", a=1, b=1), call("add", 1, a=2, b=2), call("add", 2, a=3, b=3))
    creator, backend = serving(three, ANSWER)
    asking = {**tool, "require_approval": {"always": {"tool_names": ["add"]}}}
    first = await create(creator, asking)
    answers = [approval(first, 0), approval(first, 2, approve=False)]
    second = await create(creator, asking, previous_response_id=first.id, input=answers)
    assert [type(item).__name__ for item in second.output] == ["McpCall", "Message"]
    assert sorted(outputs(backend)) == [
        "2",
        "The user has not approved this call, so it was not run.",
        "The user refused this call, so it was not run.",
    ]


@pytest.mark.requirement("HOSTED/mcp-approvals")
async def test_calls_that_need_no_approval_run_first(serving: MakeServing, tool: dict[str, Any]) -> None:
    creator, _ = serving(calls(call("count", steps=1), call("add", 1, a=1, b=1)))
    mixed = {**tool, "require_approval": {"never": {"read_only": True}}}
    response = await create(creator, mixed)
    assert [type(item).__name__ for item in response.output] == [
        "McpListTools",
        "McpCall",
        "McpApprovalRequest",
    ]
    assert response.status == "completed"


@pytest.mark.requirement("HOSTED/mcp-approval-errors")
async def test_wrong_approvals_are_refused(serving: MakeServing, tool: dict[str, Any]) -> None:
    creator, _ = serving(ADD, ANSWER, ANSWER)
    asking = {**tool, "require_approval": "always"}
    first = await create(creator, asking)
    answer, here = approval(first), {"previous_response_id": first.id}

    async def refused(message: str, **params: Any) -> None:
        with pytest.raises(InvalidRequest, match=message):
            await create(creator, asking, **params)

    unknown = {**answer, "approval_request_id": "mcpr_unknown"}
    await refused("No approval request found", **here, input=[unknown])
    await refused("No approval request found", input=[answer])
    await refused("already answered", **here, input=[answer, answer])
    request = {
        "type": "mcp_approval_request",
        "id": answer["approval_request_id"],
        "server_label": "sdk",
        "name": "add",
        "arguments": "{}",
    }
    await refused("Duplicate item found", **here, input=[request, answer])
    with pytest.raises(InvalidRequest, match="'tools' declares no MCP server 'sdk' with a tool 'add'"):
        await create(creator, {**asking, "allowed_tools": ["count"]}, **here, input=[answer])
    second = await create(creator, asking, **here, input=[answer])
    await refused("already answered", previous_response_id=second.id, input=[answer])


@pytest.mark.requirement("HOSTED/mcp-approvals")
async def test_a_client_that_keeps_the_items_itself_can_approve(
    serving: MakeServing, tool: dict[str, Any]
) -> None:
    creator, backend = serving(ANSWER)
    request = {
        "type": "mcp_approval_request",
        "id": "mcpr_1",
        "server_label": "sdk",
        "name": "add",
        "arguments": '{"a":1,"b":2}',
    }
    answer = {"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": True}
    response = await create(creator, tool, store=False, input=[request, answer])
    called = response.output[1]
    assert isinstance(called, McpCall)
    assert (called.output, outputs(backend)) == ("3", ["3"])
