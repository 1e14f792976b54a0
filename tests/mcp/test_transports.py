"""How a server is spoken to: the probe, the handshake, sessions that are lost, and the older transport."""

import asyncio
import json
from collections.abc import Mapping

import pytest

from antiphon.errors import McpHttpError, McpProtocolError
from antiphon.mcp.connections import McpConnections
from antiphon.mcp.port import HttpErrorItem, ProtocolErrorItem, RemoteServer
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


def header(wire: Wire, name: str) -> str | None:
    """The value of a header of a request."""
    for line in wire.head.split("\r\n"):
        key, _, value = line.partition(": ")
        if key.lower() == name:
            return value
    return None


def initialized(version: str = "2025-06-18", session: str = "") -> Handler:
    """A handler of the handshake."""

    async def handle(wire: Wire, request: Request) -> None:
        result = {"protocolVersion": version, "capabilities": {}, "serverInfo": {"name": "x", "version": "1"}}
        body = json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}).encode()
        extra = [f"Mcp-Session-Id: {session}"] if session else []
        await wire.send(complete_response(200, body, *extra))

    return handle


async def refuse_unknown(wire: Wire, request: Request) -> None:
    await wire.send(error_reply(request, 200, -32601))


def handshake_server(**more: Handler) -> Mapping[str, Handler]:
    """A server of the era of handshakes."""
    return {
        "server/discover": refuse_unknown,
        "initialize": initialized(),
        "tools/call": replying(texts("done")),
        **more,
    }


async def call(connections: McpConnections, server: RemoteServer, **arguments: object) -> str:
    return (await connections.call_tool("t", server, "act", arguments, seconds=SECONDS)).output


async def test_requests_of_the_newest_version_carry_everything(connections: McpConnections) -> None:
    handlers = {"tools/call": replying(texts("done"))}
    async with scripted_server(handlers) as (server, upstream):
        assert await call(connections, server, city="Köln") == "done"
    wire = upstream.wires[1]
    request = json.loads(wire.body)
    assert request["params"]["name"] == "act"
    assert request["params"]["arguments"] == {"city": "Köln"}
    assert request["params"]["_meta"] == {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "antiphon", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    assert header(wire, "mcp-protocol-version") == "2026-07-28"
    assert header(wire, "mcp-method") == "tools/call"
    assert header(wire, "mcp-name") == "act"
    assert header(wire, "accept") == "application/json, text/event-stream"
    assert header(wire, "authorization") == "Bearer abcdefgh"
    assert header(wire, "mcp-session-id") is None


async def test_connections_are_reused(connections: McpConnections) -> None:
    handlers = {"tools/call": replying(texts("done"))}
    async with scripted_server(handlers) as (server, upstream):
        for _ in range(5):
            await call(connections, server)
        assert upstream.connections == 1
    assert methods(upstream) == ["server/discover", *["tools/call"] * 5]


async def test_a_query_is_sent(connections: McpConnections) -> None:
    async with scripted_server({"tools/call": replying(texts("my key is topsecret1"))}) as (server, upstream):
        address = RemoteServer(label="x", url=f"{server.url}?key=topsecret1")
        assert await call(connections, address) == "my key is [redacted]"
    assert upstream.wires[0].head.startswith("POST /mcp?key=topsecret1 HTTP/1.1")


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
async def test_a_handshake(connections: McpConnections, version: str) -> None:
    handlers = handshake_server(initialize=initialized(version, "s-1"))
    async with scripted_server(handlers) as (server, upstream):
        assert await call(connections, server) == "done"
        await connections.aclose()
    assert methods(upstream) == [
        "server/discover",
        "initialize",
        "notifications/initialized",
        "tools/call",
        "DELETE",
    ]
    initialize, *later = upstream.wires[1:]
    assert json.loads(initialize.body)["params"]["protocolVersion"] == "2025-11-25"
    assert header(initialize, "mcp-session-id") is None
    assert header(initialize, "mcp-protocol-version") is None
    assert [header(wire, "mcp-session-id") for wire in later] == ["s-1"] * 3
    assert [header(wire, "mcp-protocol-version") for wire in later[:2]] == [version] * 2
    assert "_meta" not in json.loads(later[1].body)["params"]


@pytest.mark.parametrize(
    "refusal",
    [
        complete_response(400, b"Missing session ID", media="text/plain"),
        complete_response(404, b"{}"),
        complete_response(405, b""),
        complete_response(500, b"oops"),
    ],
)
async def test_servers_that_refuse_the_probe_with_a_status(
    connections: McpConnections, refusal: bytes
) -> None:
    handlers = {**handshake_server(), "server/discover": sending(refusal)}
    async with scripted_server(handlers) as (server, _):
        assert await call(connections, server) == "done"


@pytest.mark.parametrize("result", [{}, {"supportedVersions": ["2025-06-18"]}, {"supportedVersions": 3}])
async def test_servers_that_answer_the_probe_without_the_version(
    connections: McpConnections, result: object
) -> None:
    handlers = {**handshake_server(), "server/discover": replying(result)}
    async with scripted_server(handlers) as (server, upstream):
        assert await call(connections, server) == "done"
    assert "initialize" in methods(upstream)


async def test_an_unknown_version_in_the_handshake(connections: McpConnections) -> None:
    handlers = handshake_server(initialize=initialized("1999-01-01"))
    async with scripted_server(handlers) as (server, _):
        with pytest.raises(McpProtocolError, match="1999-01-01"):
            await connections.list_tools("t", server)


async def test_a_session_that_is_lost_is_begun_again(connections: McpConnections) -> None:
    sessions: list[str] = []

    async def initialize(wire: Wire, request: Request) -> None:
        sessions.append(f"s-{len(sessions)}")
        await initialized(session=sessions[-1])(wire, request)

    async def act(wire: Wire, request: Request) -> None:
        if header(wire, "mcp-session-id") != "s-1":
            await wire.send(error_reply(request, 404, -32600))
        else:
            await wire.send(reply(request, texts("again")))

    handlers = {**handshake_server(), "initialize": initialize, "tools/call": act}
    async with scripted_server(handlers) as (server, upstream):
        outputs = await asyncio.gather(call(connections, server), call(connections, server))
        assert outputs == ["again", "again"]
    assert sessions == ["s-0", "s-1"]
    assert methods(upstream).count("server/discover") == 1


async def test_a_session_that_is_lost_again_and_again(connections: McpConnections) -> None:
    async def lose(wire: Wire, request: Request) -> None:
        await wire.send(error_reply(request, 404, -32600))

    handlers = {**handshake_server(), "initialize": initialized(session="s"), "tools/call": lose}
    async with scripted_server(handlers) as (server, _):
        assert (await call(connections, server)).endswith("has lost its session twice in a row.")


async def test_a_404_without_a_session_is_an_error(connections: McpConnections) -> None:
    async def refuse(wire: Wire, request: Request) -> None:
        await wire.send(error_reply(request, 404, -32601))

    async with scripted_server({"tools/call": refuse}) as (server, _):
        outcome = await connections.call_tool("t", server, "act", {}, seconds=SECONDS)
    assert outcome.error == ProtocolErrorItem(-32601, outcome.output)


class SseServer:
    """A server of the transport HTTP+SSE. `endpoint` is the first event of its stream."""

    def __init__(self, endpoint: str = "/messages?session_id=1") -> None:
        self._endpoint = endpoint
        self.stream: Wire | None = None
        self.ended = asyncio.Event()

    def handlers(self) -> Mapping[str, Handler]:
        return {
            "server/discover": sending(complete_response(405, b"")),
            "initialize": self._initialize,
            "GET": self._open,
            "tools/call": self._call,
        }

    async def send(self, message: Request) -> None:
        assert self.stream is not None
        await self.stream.send(chunked(f"event: message\r\ndata: {json.dumps(message)}\r\n\r\n".encode()))

    async def _open(self, wire: Wire, _: Request) -> None:
        self.stream = wire
        await wire.send(SSE_HEAD + chunked(f"event: endpoint\r\ndata: {self._endpoint}\r\n\r\n".encode()))
        await wire.until_cut_off()
        self.ended.set()

    async def _initialize(self, wire: Wire, request: Request) -> None:
        if not wire.head.startswith("POST /messages?session_id=1 "):
            await wire.send(complete_response(405, b""))
            return
        await wire.send(complete_response(202, b"Accepted", media="text/plain"))
        await self.send({"jsonrpc": "2.0", "id": request["id"], "result": {"protocolVersion": "2024-11-05"}})

    async def _call(self, wire: Wire, request: Request) -> None:
        await wire.send(complete_response(202, b"Accepted", media="text/plain"))
        await self.send({"jsonrpc": "2.0", "id": request["id"], "result": texts("streamed")})


async def test_the_older_transport(connections: McpConnections) -> None:
    older = SseServer()
    async with scripted_server(older.handlers()) as (server, upstream):
        assert await call(connections, server) == "streamed"
        assert methods(upstream) == [
            "server/discover",
            "initialize",
            "GET",
            "initialize",
            "notifications/initialized",
            "tools/call",
        ]


@pytest.mark.parametrize("endpoint", ["http://169.254.169.254/messages", "//other.example/messages", "{}"])
async def test_an_older_transport_that_leads_elsewhere(connections: McpConnections, endpoint: str) -> None:
    async with scripted_server(SseServer(endpoint).handlers()) as (server, upstream):
        with pytest.raises(McpHttpError) as caught:
            await connections.list_tools("t", server)
    assert caught.value.number == 405
    assert methods(upstream)[-1] in ("GET", "initialize")


async def test_the_end_of_an_older_stream_fails_what_waits_and_it_is_opened_again(
    connections: McpConnections,
) -> None:
    older = SseServer()

    async def end(wire: Wire, _: Request) -> None:
        await wire.send(complete_response(202, b""))
        assert older.stream is not None
        older.stream.abort()

    async with scripted_server({**older.handlers(), "tools/list": end}) as (server, _):
        assert await call(connections, server) == "streamed"
        with pytest.raises(McpHttpError, match="broke off its answer"):
            await connections.list_tools("t", server)
        assert await call(connections, server) == "streamed"


async def test_a_flood_on_an_idle_stream_ends_it(
    connections: McpConnections, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("antiphon.mcp.transport.MAX_MESSAGES", 100)
    older = SseServer()
    async with scripted_server(older.handlers()) as (server, upstream):
        assert await call(connections, server) == "streamed"
        assert older.stream is not None
        for number in range(300):  # requests, each of which would be answered
            await older.send({"jsonrpc": "2.0", "id": number, "method": "ping"})
        await asyncio.wait_for(older.ended.wait(), SECONDS)
        assert methods(upstream).count("reply") <= 100
        assert await call(connections, server) == "streamed"
        await connections.aclose()
        await asyncio.sleep(0.1)  # the server notices the ends of its connections


async def test_neither_transport(connections: McpConnections) -> None:
    nothing = sending(complete_response(404, b"not here", media="text/plain"))
    handlers = {"server/discover": nothing, "initialize": nothing, "GET": nothing}
    async with scripted_server(handlers) as (server, _):
        outcome = await connections.call_tool("t", server, "act", {}, seconds=SECONDS)
    assert outcome.error == HttpErrorItem(404, outcome.output)
    assert "not here" in outcome.output


async def test_pages_of_tools(connections: McpConnections) -> None:
    async def page(wire: Wire, request: Request) -> None:
        if request["params"].get("cursor") == "2":
            await wire.send(reply(request, {"tools": [{**TOOL, "name": "b"}, TOOL]}))
        else:
            annotated = {**TOOL, "annotations": {"readOnlyHint": True}}
            await wire.send(reply(request, {"tools": [{"name": "z"}, annotated], "nextCursor": "2"}))

    async with scripted_server({"tools/list": page}) as (server, _):
        tools = await connections.list_tools("t", server)
    assert [(tool.name, tool.read_only) for tool in tools] == [("act", True), ("b", False), ("z", False)]
