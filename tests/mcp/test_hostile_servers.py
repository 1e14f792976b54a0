"""Servers that answer with too much, too late, with something else, or lead elsewhere."""

import asyncio
import json
from typing import Any

import pytest
from msgspec import Raw

from antiphon.errors import InvalidRequest, McpError, McpHttpError, McpProtocolError
from antiphon.http.egress import AllowPublic, Destination
from antiphon.mcp.connections import McpConnections
from antiphon.mcp.listing import MAX_LIST_BYTES, MAX_LIST_VALUES, MAX_TOOLS, ListReader
from antiphon.mcp.port import CallOutcome, ExecutionErrorItem, HttpErrorItem, ProtocolErrorItem, RemoteServer
from antiphon.mcp.transport import MAX_ANSWER_BYTES, MAX_COURTESIES, MAX_MESSAGES
from antiphon.protocol.content import InputText
from tests.http.raw_upstream import SSE_HEAD, Wire, chunked, complete_response
from tests.mcp.scripted_server import (
    TOOL,
    Handler,
    Request,
    error_reply,
    methods,
    reply,
    replying,
    scripted_server,
    sending,
    texts,
)

SECONDS = 30.0
METADATA = "169.254.169.254"


async def call(connections: McpConnections, server: RemoteServer, seconds: float = SECONDS) -> CallOutcome:
    return await connections.call_tool("t", server, "act", {}, seconds=seconds)


async def call_of(connections: McpConnections, handler: Handler, seconds: float = SECONDS) -> CallOutcome:
    async with scripted_server({"tools/call": handler}) as (server, _):
        return await call(connections, server, seconds)


async def list_error(connections: McpConnections, handler: Handler) -> McpError:
    async with scripted_server({"tools/list": handler}) as (server, _):
        with pytest.raises(McpError) as caught:
            await connections.list_tools("t", server)
    assert caught.value.status == 424
    assert caught.value.to_wire()["type"] == "external_connector_error"
    assert caught.value.message.startswith("Error retrieving tool list from MCP server: 'scripted'. ")
    return caught.value


async def test_too_many_tools(connections: McpConnections) -> None:
    tools = [{"name": f"tool{number}"} for number in range(10_000)]
    error = await list_error(connections, replying({"tools": tools}))
    assert error.message.endswith(f"lists more than {MAX_TOOLS} tools.")


async def test_too_large_schemas(connections: McpConnections) -> None:
    tool = {"name": "a", "inputSchema": {"description": "x" * (MAX_LIST_BYTES + 1)}}
    error = await list_error(connections, replying({"tools": [tool]}))
    assert error.message.endswith(f"lists tools of more than {MAX_LIST_BYTES} bytes.")


async def test_too_many_values(connections: McpConnections) -> None:
    """Each page would be accepted; an empty object takes thirty times the memory of its text."""

    async def page(wire: Wire, request: Request) -> None:
        page = str(request.get("params", {}).get("cursor", "0"))
        tool: Request = {"name": f"tool{page}", "inputSchema": {"enum": [{}] * 20_000}}
        await wire.send(reply(request, {"tools": [tool], "nextCursor": str(int(page) + 1)}))

    error = await list_error(connections, page)
    assert error.message.endswith(f"lists tools with more than {MAX_LIST_VALUES} JSON values.")


async def test_the_memory_of_values_counts_for_the_cache() -> None:
    reader = ListReader("scripted")
    reader.add(Raw(json.dumps({"tools": [{"name": "a", "inputSchema": {"enum": [{}] * 20_000}}]}).encode()))
    assert reader.finish().size_bytes > 20_000 * 100


async def test_pages_without_end(connections: McpConnections) -> None:
    error = await list_error(connections, replying({"tools": [TOOL], "nextCursor": "again"}))
    assert "without end" in error.message


async def test_many_pages(connections: McpConnections) -> None:
    count = 0

    async def page(wire: Wire, request: Request) -> None:
        nonlocal count
        count += 1
        await wire.send(reply(request, {"tools": [], "nextCursor": str(count)}))

    error = await list_error(connections, page)
    assert "without end" in error.message
    assert count < 200


async def test_a_list_that_is_none(connections: McpConnections) -> None:
    error = await list_error(connections, replying({"tools": "all"}))
    assert isinstance(error, McpProtocolError)
    assert "not MCP" in error.message


async def test_a_page_for_people(connections: McpConnections) -> None:
    page = complete_response(200, b"<html><h1>Sign in</h1></html>", media="text/html")
    error = await list_error(connections, sending(page))
    assert isinstance(error, McpHttpError)
    assert error.message.endswith("answered with 'text/html', which cannot be read: Sign in")
    outcome = await call_of(connections, sending(page))
    assert isinstance(outcome.error, HttpErrorItem)


@pytest.mark.parametrize("status", [401, 403, 500, 503])
async def test_an_error_status(connections: McpConnections, status: int) -> None:
    refusal = complete_response(status, b"go away, Bearer abcdefgh", media="text/plain")
    outcome = await call_of(connections, sending(refusal))
    assert outcome.error == HttpErrorItem(status, outcome.output)
    assert "go away" in outcome.output
    assert "abcdefgh" not in outcome.output


async def test_credentials_that_are_refused_are_not_tried_in_the_other_era(
    connections: McpConnections,
) -> None:
    refusal = sending(complete_response(401, b"{}"))
    async with scripted_server({"server/discover": refusal}) as (server, upstream):
        with pytest.raises(McpHttpError) as caught:
            await connections.list_tools("t", server)
    assert caught.value.number == 401
    assert methods(upstream) == ["server/discover"]


async def test_a_server_that_hangs(connections: McpConnections) -> None:
    async def hang(wire: Wire, _: Request) -> None:
        await wire.until_cut_off()

    outcome = await call_of(connections, hang, seconds=0.3)
    assert outcome.error == HttpErrorItem(504, "The MCP server 'scripted' did not answer within 0.3 s.")


async def test_a_server_that_sends_comments_only(connections: McpConnections) -> None:
    async def babble(wire: Wire, _: Request) -> None:
        await wire.send(SSE_HEAD)
        while True:
            await wire.send(chunked(b": still here\n\n"))
            await asyncio.sleep(0.01)

    outcome = await call_of(connections, babble, seconds=0.5)
    assert isinstance(outcome.error, HttpErrorItem)
    assert outcome.error.code == 504


async def test_no_server(connections: McpConnections) -> None:
    server = RemoteServer(label="none", url="http://127.0.0.1:9/mcp")
    outcome = await call(connections, server)
    assert isinstance(outcome.error, HttpErrorItem)
    assert outcome.error.message.startswith("The MCP server 'none' cannot be reached")


async def test_a_large_result(connections: McpConnections) -> None:
    outcome = await call_of(connections, replying(texts("x" * 10_000_000)))
    assert outcome.error == HttpErrorItem(502, outcome.output)
    assert outcome.output.endswith("sent a body beyond the size limit.")


@pytest.mark.parametrize("lines", [False, True])
async def test_a_large_result_in_a_stream(connections: McpConnections, lines: bool) -> None:
    async def flood(wire: Wire, _: Request) -> None:
        await wire.send(SSE_HEAD + chunked(b"data: "))
        for _number in range(200):
            await wire.send(chunked(b"x" * 50_000 + (b"\ndata: " if lines else b"")))

    outcome = await call_of(connections, flood)
    assert outcome.error == ProtocolErrorItem(-32603, outcome.output)
    assert outcome.output.endswith(f"sent more than {MAX_ANSWER_BYTES} bytes.")


async def test_a_result_just_below_the_limit(connections: McpConnections) -> None:
    text = "x" * (MAX_ANSWER_BYTES - 10_000)
    assert (await call_of(connections, replying(texts(text)))).output == text

    async def stream(wire: Wire, request: Request) -> None:
        body = json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": texts(text)}).encode()
        await wire.send(SSE_HEAD + chunked(b"event: message\r\ndata: " + body + b"\r\n\r\n") + chunked(b""))

    assert (await call_of(connections, stream)).output == text


async def test_large_messages_before_a_reply(connections: McpConnections) -> None:
    async def flood(wire: Wire, _: Request) -> None:
        note = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": "x" * 600_000}}
        await wire.send(SSE_HEAD)
        for _number in range(20):
            await wire.send(chunked(f"data: {json.dumps(note)}\n\n".encode()))

    outcome = await call_of(connections, flood)
    assert outcome.output.endswith(f"sent more than {MAX_ANSWER_BYTES} bytes.")


async def test_messages_without_end(connections: McpConnections) -> None:
    async def flood(wire: Wire, _: Request) -> None:
        await wire.send(SSE_HEAD)
        note = b'data: {"jsonrpc":"2.0","method":"notifications/message","params":{}}\n\n'
        for _number in range(MAX_MESSAGES // 100 + 1):
            await wire.send(chunked(note * 100))

    outcome = await call_of(connections, flood)
    assert outcome.output.endswith(f"sent more than {MAX_MESSAGES} messages in answer to one request.")


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b'{"jsonrpc":"2.0","id":2,"result":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested too deeply"),
        (b'{"jsonrpc":"2.0","id":2,"result":{"content":[' + b"{}," * 300_000 + b"{}]}}", "values"),
        (b"not json", "not MCP"),
        (b"[]", "not MCP"),
        (b'{"jsonrpc":"2.0","id":2,"result":{"content":3}}', "not MCP"),
        (b'{"jsonrpc":"2.0","id":2}', "without a result"),
        (b'{"jsonrpc":"2.0","id":77,"result":{}}', "another request"),
        (b'{"jsonrpc":"2.0","id":2,"result":{"content":[{"x":"\xff"}]}}', "not MCP"),
        (b'{"jsonrpc":"2.0","id":2,"error":"no"}', "not MCP"),
    ],
)
async def test_an_answer_that_is_none(connections: McpConnections, body: bytes, reason: str) -> None:
    outcome = await call_of(connections, sending(complete_response(200, body)))
    assert isinstance(outcome.error, ProtocolErrorItem)
    assert reason in outcome.output


@pytest.mark.parametrize("end", [b"", b"data: {}\n\n"])
async def test_a_stream_without_a_reply(connections: McpConnections, end: bytes) -> None:
    stream = SSE_HEAD + (chunked(end) if end else b"") + chunked(b"")
    outcome = await call_of(connections, sending(stream))
    assert outcome.output.endswith("ended its answer without a reply.")


async def test_a_connection_that_breaks_off_is_not_used_for_the_same_call_again(
    connections: McpConnections,
) -> None:
    async def break_off(wire: Wire, _: Request) -> None:
        wire.abort()

    async with scripted_server({"tools/call": break_off}) as (server, upstream):
        outcome = await call(connections, server)
    assert isinstance(outcome.error, HttpErrorItem)
    assert methods(upstream) == ["server/discover", "tools/call"]


async def test_redirects_to_another_host_are_not_followed(connections: McpConnections) -> None:
    location = f"Location: http://{METADATA}/latest/meta-data"
    outcome = await call_of(connections, sending(complete_response(307, b"", location)))
    assert outcome.error == HttpErrorItem(307, outcome.output)
    assert METADATA in outcome.output
    assert "not followed" in outcome.output


async def test_redirects_on_the_same_host_are_followed(connections: McpConnections) -> None:
    async def move(wire: Wire, request: Request) -> None:
        if wire.head.startswith("POST /mcp/ "):
            await wire.send(reply(request, texts("moved")))
        else:
            await wire.send(complete_response(308, b"", "Location: /mcp/"))

    assert (await call_of(connections, move)).output == "moved"


async def test_redirects_without_end(connections: McpConnections) -> None:
    outcome = await call_of(connections, sending(complete_response(307, b"", "Location: /mcp")))
    assert outcome.output.endswith("redirects more than 3 times.")


class CountingPolicy(AllowPublic):
    """Counts the destinations that were asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    async def permit(self, destination: Destination) -> str:
        self.asked.append(destination.host)
        return await super().permit(destination)


@pytest.mark.parametrize("host", ["127.0.0.1", METADATA, "[::1]", "0x7f000001", "localhost"])
async def test_private_addresses_of_requests_are_refused(host: str) -> None:
    policy = CountingPolicy()
    connections = McpConnections(policy)
    outcome = await call(connections, RemoteServer(label="x", url=f"http://{host}:9/mcp"))
    assert isinstance(outcome.error, HttpErrorItem)
    assert outcome.error.code == 403
    assert "egress.allow" in outcome.output
    assert policy.asked == [host.strip("[]")]
    await connections.aclose()


async def test_private_addresses_of_the_operator_are_permitted() -> None:
    connections = McpConnections(AllowPublic())
    async with scripted_server({"tools/call": replying(texts("here"))}) as (server, _):
        configured = RemoteServer(label="own", url=server.url, configured=True)
        assert (await call(connections, configured)).output == "here"
    await connections.aclose()


@pytest.mark.parametrize(
    "url", ["ftp://host/", "http://user:pw@host/", "http://", "http://host/#a", "http://host/a b", "host/mcp"]
)
async def test_an_address_that_is_none(connections: McpConnections, url: str) -> None:
    with pytest.raises(InvalidRequest, match="address of the MCP server") as caught:
        await connections.list_tools("t", RemoteServer(label="x", url=url))
    assert caught.value.param == "server_url"


@pytest.mark.parametrize(
    "headers", [{"content-length": "3"}, {"Host": "x"}, {"a b": "c"}, {"a": "b\r\nc: d"}, {"a": "ü"}]
)
async def test_headers_that_cannot_be_sent(connections: McpConnections, headers: dict[str, str]) -> None:
    with pytest.raises(InvalidRequest) as caught:
        await connections.list_tools("t", RemoteServer(label="x", url="http://127.0.0.1:9/", headers=headers))
    assert caught.value.param == "headers"


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ([{"type": "image", "data": "!!!", "mimeType": "image/png"}], "[an image that cannot be decoded]"),
        ([{"type": "image", "data": "aaaa", "mimeType": "text/html"}], "[an image of an unknown type]"),
        ([{"type": "hologram"}], "[hologram, which cannot be shown]"),
        ([{"no": "type"}], "[content that cannot be shown]"),
        ([{"type": "audio", "data": "", "mimeType": "audio/wav"}], "[audio, which cannot be shown]"),
        ([{"type": "resource", "resource": {"uri": "file:///a", "text": "inside"}}], "inside"),
        ([{"type": "resource", "resource": {"uri": "file:///a", "blob": "aaaa"}}], "[resource file:///a]"),
        ([{"type": "resource_link", "uri": "file:///a", "name": "A"}], "[resource A file:///a]"),
    ],
)
async def test_content_that_a_model_cannot_see(
    connections: McpConnections, content: list[dict[str, Any]], text: str
) -> None:
    outcome = await call_of(connections, replying({"content": content}))
    assert outcome == CallOutcome(text)


async def test_text_beside_an_image(connections: McpConnections) -> None:
    image = {"type": "image", "data": "aaaa", "mimeType": "image/png"}
    outcome = await call_of(connections, replying({"content": [{"type": "text", "text": "a cat"}, image]}))
    assert outcome.output == "a cat\n[image]"
    assert outcome.parts[0] == InputText(text="a cat")
    assert len(outcome.parts) == 2


async def test_structured_content_alone_is_the_output(connections: McpConnections) -> None:
    outcome = await call_of(connections, replying({"content": [], "structuredContent": {"a": 1}}))
    assert outcome == CallOutcome('{"a":1}', structured={"a": 1})


async def test_credentials_that_a_server_repeats_are_removed(connections: McpConnections) -> None:
    outcome = await call_of(connections, replying(texts("you sent Bearer abcdefgh")))
    assert outcome.output == "you sent Bearer [redacted]"


async def test_credentials_are_removed_everywhere(connections: McpConnections) -> None:
    async def repeat(wire: Wire, request: Request) -> None:
        note = {"progressToken": request["id"], "progress": 1, "message": "with abcdefgh"}
        lines = [
            {"jsonrpc": "2.0", "method": "notifications/progress", "params": note},
            {
                "jsonrpc": "2.0",
                "id": request["id"],
                "result": {"structuredContent": {"sent": ["abcdefgh", 1]}},
            },
        ]
        events = "".join(f"data: {json.dumps(line)}\n\n" for line in lines).encode()
        await wire.send(SSE_HEAD + chunked(events) + chunked(b""))

    async def refuse(wire: Wire, request: Request) -> None:
        await wire.send(error_reply(request, 200, -32602, message="the key abcdefgh is wrong"))

    seen: list[str] = []
    async with scripted_server({"tools/call": repeat, "tools/list": refuse}) as (server, _):
        outcome = await connections.call_tool(
            "t",
            server,
            "act",
            {},
            seconds=SECONDS,
            on_progress=lambda progress: seen.append(progress.message),
        )
        with pytest.raises(McpProtocolError) as caught:
            await connections.list_tools("t", server)
    assert outcome.structured == {"sent": ["[redacted]", 1]}
    assert seen == ["with [redacted]"]
    assert "the key [redacted] is wrong" in caught.value.message
    assert "abcdefgh" not in str(caught.value)
    async with scripted_server({"tools/call": refuse}) as (server, _):
        assert "the key [redacted] is wrong" in (await call(connections, server)).output


async def test_comments_without_end(connections: McpConnections) -> None:
    async def babble(wire: Wire, _: Request) -> None:
        await wire.send(SSE_HEAD)
        for _number in range(200):
            await wire.send(chunked(b": still here\n\n" * 4000))

    outcome = await call_of(connections, babble)
    assert outcome.output.endswith(f"sent more than {MAX_ANSWER_BYTES} bytes.")


async def test_input_that_is_required_is_declined(connections: McpConnections) -> None:
    asked: list[Request] = []

    async def ask(wire: Wire, request: Request) -> None:
        asked.append(request["params"])
        if "inputResponses" in request["params"]:
            await wire.send(reply(request, texts("without it")))
        else:
            question = {"method": "elicitation/create", "params": {"message": "Age?"}}
            result = {"resultType": "input_required", "inputRequests": {"age": question}, "requestState": "s"}
            await wire.send(reply(request, result))

    assert (await call_of(connections, ask)).output == "without it"
    assert asked[1]["inputResponses"] == {"age": {"action": "decline"}}
    assert asked[1]["requestState"] == "s"


@pytest.mark.parametrize(
    "requests", [{"a": {"method": "sampling/createMessage"}}, {"a": {"method": "elicitation/create"}}, {}]
)
async def test_input_that_is_required_again_and_again(connections: McpConnections, requests: Request) -> None:
    required = {"resultType": "input_required", "inputRequests": requests, "requestState": "s"}
    outcome = await call_of(connections, replying(required))
    assert isinstance(outcome.error, ExecutionErrorItem)
    assert outcome.output.endswith("It was declined.")


async def test_requests_of_the_server_are_answered(connections: McpConnections) -> None:
    answers: list[Request] = []

    async def ask(wire: Wire, request: Request) -> None:
        await wire.send(SSE_HEAD)
        for number, method in enumerate(("ping", "sampling/createMessage", "roots/list")):
            message = {"jsonrpc": "2.0", "id": f"s{number}", "method": method}
            await wire.send(chunked(f"data: {json.dumps(message)}\n\n".encode()))
        await asyncio.sleep(0.3)
        done = {"jsonrpc": "2.0", "id": request["id"], "result": texts("done")}
        await wire.send(chunked(f"data: {json.dumps(done)}\n\n".encode()) + chunked(b""))

    async with scripted_server({"tools/call": ask}) as (server, upstream):
        assert (await call(connections, server)).output == "done"
        answers = [json.loads(wire.body) for wire in upstream.wires if b'"method"' not in wire.body]
    found = {answer["id"]: answer.get("result", answer.get("error", {}).get("code")) for answer in answers}
    assert found == {"s0": {}, "s1": -1, "s2": -32601}


async def test_requests_of_the_server_without_end_are_not_all_answered(connections: McpConnections) -> None:
    async def ask(wire: Wire, request: Request) -> None:
        pings = [{"jsonrpc": "2.0", "id": f"s{number}", "method": "ping"} for number in range(300)]
        events = "".join(f"data: {json.dumps(ping)}\n\n" for ping in pings).encode()
        await wire.send(SSE_HEAD + chunked(events))
        await asyncio.sleep(0.5)
        done = {"jsonrpc": "2.0", "id": request["id"], "result": texts("done")}
        await wire.send(chunked(f"data: {json.dumps(done)}\n\n".encode()) + chunked(b""))

    async def hang(wire: Wire, _: Request) -> None:
        await wire.until_cut_off()

    async with scripted_server({"tools/call": ask, "POST": hang}) as (server, upstream):
        assert (await call(connections, server)).output == "done"
        assert 0 < methods(upstream).count("reply") <= MAX_COURTESIES
        await connections.aclose()
        await asyncio.sleep(0.1)  # the server notices the ends of its connections


async def test_a_version_that_is_not_spoken_here(connections: McpConnections) -> None:
    async def refuse(wire: Wire, request: Request) -> None:
        await wire.send(error_reply(request, 400, -32022, data={"supported": ["2031-01-01"]}))

    async with scripted_server({"server/discover": refuse}) as (server, upstream):
        with pytest.raises(McpProtocolError, match="-32022"):
            await connections.list_tools("t", server)
    assert methods(upstream) == ["server/discover"]
