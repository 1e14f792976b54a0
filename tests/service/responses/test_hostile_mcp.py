"""Responses with MCP servers that lie, flood, hang or change: one clear error or one failed call, and the next
request is unharmed."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any

import pytest

from antiphon.backends.scripted import ScriptedBackend
from antiphon.errors import InvalidRequest, McpError
from antiphon.http.egress import AllowPublic
from antiphon.isolated.pool import IsolatedPool
from antiphon.mcp import client as mcp_client
from antiphon.mcp.connections import McpConnections
from antiphon.mcp.port import RemoteServer
from antiphon.protocol.tool_items import McpCall, McpListTools
from antiphon.service.checks import Checks
from antiphon.service.hosted_tools import calls as hosted_calls
from antiphon.service.hosted_tools.mcp.tool import MAX_OUTPUT_BYTES, McpServed
from antiphon.service.responses.create import Creator
from antiphon.turn.chunks import Chunk
from tests.http.raw_upstream import SSE_HEAD, Wire, chunked, complete_response
from tests.mcp.scripted_server import TOOL, Handler, Request, reply, replying, scripted_server, sending, texts
from tests.service.conftest import MakeCreator
from tests.service.responses.mcp_world import ANSWER, approval, call, calls, create, outputs, stream

MakeServing = Callable[..., tuple[Creator, ScriptedBackend]]
ACT: list[Chunk] = calls(call("act"))
METADATA = "http://169.254.169.254/latest/meta-data/"
HTML = complete_response(200, b"<html>Log in</html>", media="text/html")
REDIRECT = complete_response(307, b"", f"Location: {METADATA}")
GOOD = replying({"tools": [TOOL], "ttlMs": 0})
IMAGE = {"type": "image", "data": "aaaa", "mimeType": "image/png"}


@pytest.fixture
async def serving(make_creator: MakeCreator) -> AsyncGenerator[MakeServing, None]:
    pool, connections = IsolatedPool(), McpConnections(AllowPublic(["127.0.0.1"]))

    def made(*turns: Sequence[Chunk], **fields: Any) -> tuple[Creator, ScriptedBackend]:
        backend = ScriptedBackend(*([list(turn)] for turn in turns))
        return make_creator(backend, served_tools=(McpServed(connections, Checks(pool), **fields),)), backend

    yield made
    await connections.aclose()
    await pool.aclose()


def declared(server: RemoteServer, **members: Any) -> dict[str, Any]:
    tool = {"type": "mcp", "server_label": "docs", "server_url": server.url, "require_approval": "never"}
    return {**tool, **members}


async def hang(wire: Wire, _: Request) -> None:
    await wire.until_cut_off()


async def report_progress(wire: Wire, request: Request) -> None:
    """Progress without end."""
    await wire.send(SSE_HEAD)
    while True:
        note = {"progressToken": request["id"], "progress": 1, "message": "soon"}
        message = {"jsonrpc": "2.0", "method": "notifications/progress", "params": note}
        await wire.send(chunked(f"data: {json.dumps(message)}\n\n".encode()))
        await asyncio.sleep(0.05)


@pytest.mark.requirement("HOSTED/mcp-hostile")
@pytest.mark.parametrize(
    ("listing", "reason"),
    [
        (
            replying({"tools": [{"name": f"tool{number}"} for number in range(10_000)]}),
            "more than 1000 tools",
        ),
        (replying({"tools": [{**TOOL, "inputSchema": {"description": "x" * 5 * 2**20}}]}), "the size limit"),
        (
            replying({"tools": [{**TOOL, "inputSchema": {"type": "nothing"}}], "ttlMs": 0}),
            "schema that cannot be used",
        ),
        (sending(HTML), "text/html"),
        (sending(REDIRECT), "which is not followed"),
        (hang, "did not answer"),
    ],
    ids=["10,000 tools", "5 MB schema", "invalid schema", "HTML", "redirect", "hang"],
)
async def test_a_list_that_cannot_be_used_refuses_the_request_before_any_event(
    serving: MakeServing, monkeypatch: pytest.MonkeyPatch, listing: Handler, reason: str
) -> None:
    if listing is hang:
        monkeypatch.setattr(mcp_client.McpClient.list_tools, "__defaults__", (0.5,))
    creator, backend = serving(ACT, ANSWER)
    handlers: dict[str, Handler] = {"tools/list": listing, "tools/call": replying(texts("done"))}
    async with scripted_server(handlers) as (server, _):
        with pytest.raises(McpError) as refused:
            await create(creator, declared(server))
        assert refused.value.status == 424
        assert "Error retrieving tool list from MCP server: 'docs'." in refused.value.message
        assert reason in refused.value.message
        assert not backend.turns
        handlers["tools/list"] = GOOD
        response = await create(creator, declared(server))
    assert response.status == "completed"
    assert outputs(backend) == ["done"]


@pytest.mark.requirement("HOSTED/mcp-hostile")
@pytest.mark.parametrize(
    ("answer", "kind", "reason"),
    [
        (sending(HTML), "http_error", "text/html"),
        (sending(REDIRECT), "http_error", "which is not followed"),
        (hang, "http_error", "0.5 s"),
        (report_progress, "http_error", "0.5 s"),
        (replying(texts("x" * 10 * 2**20)), "http_error", "the size limit"),
    ],
    ids=["HTML", "redirect", "hang", "progress", "10 MB"],
)
async def test_a_call_that_goes_wrong_is_a_failed_item(
    serving: MakeServing, answer: Handler, kind: str, reason: str
) -> None:
    creator, backend = serving(ACT, ACT, ANSWER, call_seconds=0.5 if reason == "0.5 s" else 20.0)
    handlers: dict[str, Handler] = {"tools/list": GOOD, "tools/call": answer}

    async def once(wire: Wire, request: Request) -> None:
        handlers["tools/call"] = replying(texts("done"))
        await answer(wire, request)

    handlers["tools/call"] = once
    async with scripted_server(handlers) as (server, _):
        response = await create(creator, declared(server))
    _, failed, good, _ = response.output
    assert isinstance(failed, McpCall)
    assert isinstance(good, McpCall)
    assert failed.status == "failed"
    assert isinstance(failed.error, dict)
    assert failed.error["type"] == kind
    assert reason in str(failed.error["message"])
    assert (good.status, good.output, response.status) == ("completed", "done", "completed")
    assert reason in outputs(backend)[0]


@pytest.mark.requirement("HOSTED/mcp-hostile")
async def test_a_large_output_is_cut_and_an_image_is_named(serving: MakeServing) -> None:
    creator, backend = serving(ACT, ANSWER, ACT, ANSWER)
    large = replying(texts("x" * 3 * 2**20))
    async with scripted_server({"tools/list": GOOD, "tools/call": large}) as (server, _):
        response = await create(creator, declared(server))
    called = response.output[1]
    assert isinstance(called, McpCall)
    assert MAX_OUTPUT_BYTES <= len(called.output or "") < MAX_OUTPUT_BYTES + 200
    assert len(outputs(backend)[0]) < 70_000
    picture = replying({"content": [IMAGE]})
    async with scripted_server({"tools/list": GOOD, "tools/call": picture}) as (server, _):
        await create(creator, declared(server))
    assert outputs(backend) == ["[image]"]


@pytest.mark.requirement("HOSTED/mcp-hostile")
async def test_a_list_that_changes_in_a_conversation_is_another_item(serving: MakeServing) -> None:
    creator, backend = serving(ACT, ANSWER, calls(call("other")), ANSWER)
    handlers: dict[str, Handler] = {"tools/list": GOOD, "tools/call": replying(texts("done"))}
    async with scripted_server(handlers) as (server, _):
        first = await create(creator, declared(server))
        handlers["tools/list"] = replying({"tools": [{**TOOL, "name": "other"}], "ttlMs": 0})
        second = await create(creator, declared(server), previous_response_id=first.id, input="Again.")
    listed, called, _ = second.output
    assert isinstance(listed, McpListTools)
    assert isinstance(called, McpCall)
    assert ([tool["name"] for tool in listed.tools], called.name) == (["other"], "other")
    assert [tool.name for tool in backend.turns[2].tools] == ["other"]
    assert outputs(backend, 2) == ["done"]


@pytest.mark.requirement("HOSTED/mcp-hostile")
async def test_a_tool_that_vanishes_before_its_approval_is_not_run(serving: MakeServing) -> None:
    creator, backend = serving(ACT, ANSWER)
    ran: list[str] = []

    async def act(wire: Wire, request: Request) -> None:
        ran.append(request["params"]["name"])
        await wire.send(reply(request, texts("done")))

    handlers: dict[str, Handler] = {"tools/list": GOOD, "tools/call": act}
    async with scripted_server(handlers) as (server, _):
        tool = declared(server, require_approval="always")
        first = await create(creator, tool)
        here = {"previous_response_id": first.id, "input": [approval(first)]}
        handlers["tools/list"] = replying({"tools": [{**TOOL, "name": "other"}], "ttlMs": 0})
        with pytest.raises(InvalidRequest, match="no MCP server 'docs' with a tool 'act'"):
            await create(creator, tool, **here)
        assert not ran
        handlers["tools/list"] = GOOD
        await create(creator, tool, **here)
    assert ran == ["act"]
    assert outputs(backend) == ["done"]


@pytest.mark.requirement("HOSTED/mcp-hostile")
async def test_a_server_that_forgets_a_listed_tool_is_told_to_the_model(serving: MakeServing) -> None:
    creator, backend = serving(ACT, ANSWER)

    async def unknown(wire: Wire, request: Request) -> None:
        error = {"code": -32602, "message": "Unknown tool: act"}
        body = json.dumps({"jsonrpc": "2.0", "id": request["id"], "error": error}).encode()
        await wire.send(complete_response(200, body))

    async with scripted_server({"tools/list": GOOD, "tools/call": unknown}) as (server, _):
        response = await create(creator, declared(server))
    called = response.output[1]
    assert isinstance(called, McpCall)
    assert isinstance(called.error, dict)
    assert called.error["type"] == "mcp_protocol_error"
    assert "Unknown tool: act" in outputs(backend)[0]


@pytest.mark.requirement("HOSTED/mcp-progress")
async def test_a_long_call_is_accompanied_by_heartbeats_alone(
    serving: MakeServing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hosted_calls, "HEARTBEAT_SECONDS", 0.01)
    creator, _ = serving(ACT, ANSWER)

    async def slow(wire: Wire, request: Request) -> None:
        await wire.send(SSE_HEAD)
        for step in range(5):
            note = {"progressToken": request["id"], "progress": step, "message": f"step {step}"}
            message = {"jsonrpc": "2.0", "method": "notifications/progress", "params": note}
            await wire.send(chunked(f"data: {json.dumps(message)}\n\n".encode()))
            await asyncio.sleep(0.05)
        done = {"jsonrpc": "2.0", "id": request["id"], "result": texts("done")}
        await wire.send(chunked(f"data: {json.dumps(done)}\n\n".encode()) + chunked(b""))

    async with scripted_server({"tools/list": GOOD, "tools/call": slow}) as (server, _):
        events = await stream(creator, declared(server))
    kinds = [event["type"].removeprefix("response.") for event in events]
    begin, end = kinds.index("mcp_call_arguments.done"), kinds.index("mcp_call.completed")
    assert kinds[begin + 1 : end].count("keepalive") >= 3
    assert set(kinds[begin + 1 : end]) == {"keepalive"}
    assert events[-1]["response"]["status"] == "completed"
