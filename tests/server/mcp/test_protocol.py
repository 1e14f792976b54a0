"""The rules of the transport and of JSON-RPC: eras, headers, batches, faults."""

from typing import Any

import httpx2
import pytest

from antiphon.server.mcp.routes import MAX_MESSAGE_BYTES
from antiphon.server.mcp.rpc import MAX_BATCH_MESSAGES
from tests.server.agent_server import hello_backend
from tests.server.conftest import OpenClient, options
from tests.server.mcp.messages import ERAS, HANDSHAKES, MODERN, headers_of, meta, request, send

DISCOVER = request("server/discover", {"_meta": meta()})


async def post(
    open_client: OpenClient, message: Any, headers: dict[str, str] | None = None, **more: Any
) -> httpx2.Response:
    sent: dict[str, Any] = {"content": message} if isinstance(message, bytes) else {"json": message}
    async with open_client(hello_backend(), **more) as client:
        return await client.post(
            "/mcp", headers={"content-type": "application/json", **(headers or {})}, **sent
        )


def code_of(answer: httpx2.Response) -> tuple[int, int]:
    return answer.status_code, answer.json()["error"]["code"]


@pytest.mark.requirement("HOSTED/server-eras")
@pytest.mark.parametrize(
    ("wanted", "agreed"),
    [*((each, each) for each in HANDSHAKES), ("2024-11-05", "2025-11-25"), ("9", "2025-11-25")],
)
async def test_a_handshake_agrees_on_a_version(open_client: OpenClient, wanted: str, agreed: str) -> None:
    params = {"protocolVersion": wanted, "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    answer = await post(open_client, request("initialize", params))
    result = answer.json()["result"]
    assert (answer.status_code, result["protocolVersion"]) == (200, agreed)
    assert result["capabilities"] == {"tools": {}}
    assert result["serverInfo"]["name"] == "antiphon"
    assert "mcp-session-id" not in answer.headers


async def test_the_newest_version_is_discovered(open_client: OpenClient) -> None:
    answer = await post(open_client, DISCOVER, headers_of(DISCOVER))
    result = answer.json()["result"]
    assert result["supportedVersions"] == [MODERN]
    assert (result["resultType"], result["cacheScope"]) == ("complete", "private")
    assert result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "antiphon"


@pytest.mark.parametrize("version", ERAS)
async def test_tools_are_listed_in_every_version(open_client: OpenClient, version: str) -> None:
    async with open_client(hello_backend()) as client:
        answer = await send(client, "tools/list", version=version)
    result = answer.json()["result"]
    names = [tool["name"] for tool in result["tools"]]
    assert names == ["ask_model", "get_response", "list_models", "search_vector_store"]  # there is no agent
    assert (result.get("ttlMs", 0) > 0) == (version == MODERN)


async def test_ping_belongs_to_the_era_of_handshakes(open_client: OpenClient) -> None:
    async with open_client(hello_backend()) as client:
        older = await send(client, "ping", version="2025-06-18")
        modern = await send(client, "ping")
    assert older.json() == {"jsonrpc": "2.0", "id": 1, "result": {}}
    assert code_of(modern) == (404, -32601)


@pytest.mark.parametrize("method", ["initialize", "zebra", "resources/list"])
async def test_unknown_methods(open_client: OpenClient, method: str) -> None:
    async with open_client(hello_backend()) as client:
        modern = await send(client, method)
        older = await send(client, "zebra", version="2025-11-25")
    assert code_of(modern) == (404, -32601)
    assert modern.json()["id"] == 1
    assert code_of(older) == (200, -32601)


CALL = request("tools/call", {"name": "list_models", "_meta": meta()})


@pytest.mark.requirement("HOSTED/server-faults")
@pytest.mark.parametrize(
    ("header", "value"),
    [
        ("mcp-protocol-version", "2025-11-25"),
        ("mcp-protocol-version", None),
        ("mcp-method", "tools/list"),
        ("mcp-method", None),
        ("mcp-name", "ask_model"),
        ("mcp-name", None),
        ("mcp-name", "=?base64?!?="),
    ],
)
async def test_headers_must_be_those_of_the_body(
    open_client: OpenClient, header: str, value: str | None
) -> None:
    headers = {name: sent for name, sent in headers_of(CALL).items() if name != header}
    answer = await post(open_client, CALL, headers if value is None else {**headers, header: value})
    assert code_of(answer) == (400, -32020)
    assert header in answer.json()["error"]["message"]


async def test_a_header_may_be_in_base64_and_must_not_be_repeated(open_client: OpenClient) -> None:
    headers = {**headers_of(CALL), "mcp-name": "=?base64?bGlzdF9tb2RlbHM=?="}
    assert (await post(open_client, CALL, headers)).status_code == 200
    async with open_client(hello_backend()) as client:
        twice = [*headers_of(CALL).items(), ("mcp-method", "tools/call")]
        assert code_of(await client.post("/mcp", json=CALL, headers=twice)) == (400, -32020)


async def test_versions_that_are_not_served_are_refused_with_those_that_are(open_client: OpenClient) -> None:
    future = request("tools/list", {"_meta": meta("2099-01-01")})
    modern = await post(open_client, future, headers_of(future, "2099-01-01"))
    older = await post(open_client, request("tools/list"), {"mcp-protocol-version": "2024-11-05"})
    for answer, version in ((modern, "2099-01-01"), (older, "2024-11-05")):
        assert code_of(answer) == (400, -32022)
        assert answer.json()["error"]["data"] == {
            "supported": [MODERN, *reversed(HANDSHAKES)],
            "requested": version,
        }


@pytest.mark.parametrize("missing", ["protocolVersion", "clientCapabilities"])
async def test_a_request_of_the_newest_era_carries_everything(open_client: OpenClient, missing: str) -> None:
    sent = {name: value for name, value in meta().items() if not name.endswith(missing)}
    message = request("tools/list", {"_meta": sent})
    assert code_of(await post(open_client, message, headers_of(message))) == (400, -32602)


@pytest.mark.requirement("HOSTED/server-faults")
@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", -32700),
        (b"{", -32700),
        (b'{"jsonrpc":"2.0","id":1,"method":"\xff"}', -32700),
        (b"[" * 100_000, -32700),
        (b"1", -32600),
        (b"{}", -32600),
        (b'{"jsonrpc":"1.0","id":1,"method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":{},"method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":1}', -32600),
        (b"[]", -32600),
        (b"[%b]" % b",".join([b"1"] * (MAX_BATCH_MESSAGES + 1)), -32600),
    ],
)
async def test_bodies_that_are_no_message(open_client: OpenClient, body: bytes, code: int) -> None:
    answer = await post(open_client, body)
    assert code_of(answer) == (400, code)
    assert answer.json()["id"] is None


@pytest.mark.parametrize(
    "params",
    [
        [],
        None,
        {},
        {"name": 1},
        {"name": "list_models", "arguments": []},
        {"name": "list_models", "arguments": "{}"},
        {"name": "list_models", "_meta": {"progressToken": {}}},
    ],
)
async def test_invalid_params(open_client: OpenClient, params: Any) -> None:
    message = {**request("tools/call"), "params": params}
    answer = await post(open_client, message, {"mcp-protocol-version": "2025-11-25"})
    assert code_of(answer) == (200, -32602)


@pytest.mark.parametrize("arguments", [{}, None])
async def test_arguments_may_be_absent(open_client: OpenClient, arguments: Any) -> None:
    message = request("tools/call", {"name": "list_models", "arguments": arguments})
    assert (await post(open_client, message)).json()["result"]["isError"] is False


@pytest.mark.parametrize("version", ERAS)
async def test_notifications_are_accepted(open_client: OpenClient, version: str) -> None:
    message = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    answer = await post(open_client, message, {"mcp-protocol-version": version})
    assert (answer.status_code, answer.content) == (202, b"")


async def test_replies_are_accepted_where_servers_could_send_requests(open_client: OpenClient) -> None:
    reply: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "result": {}}
    older = await post(open_client, reply, {"mcp-protocol-version": "2025-11-25"})
    modern = await post(open_client, reply, {"mcp-protocol-version": MODERN})
    assert older.status_code == 202
    assert code_of(modern) == (400, -32600)


@pytest.mark.requirement("HOSTED/server-batches")
@pytest.mark.parametrize("version", [None, "2025-03-26"])
async def test_a_batch_is_answered_in_the_version_that_has_batches(
    open_client: OpenClient, version: str | None
) -> None:
    batch = [
        request("ping", id="a"),
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        request("zebra", id=2),
        1,
        request("initialize", {"protocolVersion": "2025-03-26"}, id=3),
        request("tools/call", {"name": "list_models", "_meta": {"progressToken": 1}}, id=4),
    ]
    headers = {} if version is None else {"mcp-protocol-version": version}
    answer = await post(open_client, batch, {**headers, "accept": "application/json, text/event-stream"})
    replies = answer.json()
    assert [(reply["id"], reply.get("error", {}).get("code")) for reply in replies] == [
        ("a", None),
        (2, -32601),
        (None, -32600),
        (3, -32600),
        (4, None),
    ]
    notified = await post(open_client, batch[1:2], headers)
    assert (notified.status_code, notified.content) == (202, b"")


@pytest.mark.requirement("HOSTED/server-batches")
@pytest.mark.parametrize("version", ["2025-06-18", "2025-11-25", MODERN])
async def test_a_batch_is_refused_in_other_versions(open_client: OpenClient, version: str) -> None:
    answer = await post(open_client, [request("ping")], {"mcp-protocol-version": version})
    assert code_of(answer) == (400, -32600)


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT"])
async def test_other_methods_of_http_are_not_allowed(open_client: OpenClient, method: str) -> None:
    async with open_client(hello_backend()) as client:
        answer = await client.request(method, "/mcp", headers={"accept": "text/event-stream"})
    assert code_of(answer) == (405, -32600)
    assert answer.headers["allow"] == "POST"


async def test_errors_of_http_have_the_form_of_json_rpc(open_client: OpenClient) -> None:
    async with open_client(hello_backend()) as client:
        below = await client.post("/mcp/", json=DISCOVER)
        text = await client.post("/mcp", content=b"{}", headers={"content-type": "text/plain"})
        packed = await client.post("/mcp", content=b"{}", headers={"content-encoding": "gzip"})
    assert [code_of(answer) for answer in (below, text, packed)] == [
        (404, -32600),
        (415, -32600),
        (415, -32600),
    ]
    assert "The endpoint of MCP is /mcp." in below.json()["error"]["message"]


@pytest.mark.requirement("HOSTED/server-limits")
async def test_a_body_is_bounded(open_client: OpenClient) -> None:
    large = await post(open_client, request("ping", {"x": "y" * MAX_MESSAGE_BYTES}))
    many = await post(open_client, request("ping", {"x": [0] * 300_000}))
    small = await post(open_client, request("ping", {"x": "y" * 200}), app_options=options(max_body=100))
    assert [answer.status_code for answer in (large, many, small)] == [413, 400, 413]
    assert many.json()["error"]["data"]["code"] == "too_many_values"


@pytest.mark.requirement("HOSTED/server-limits")
async def test_web_pages_of_other_sites_are_refused(open_client: OpenClient) -> None:
    headers = {**headers_of(DISCOVER), "origin": "https://evil.example"}
    assert code_of(await post(open_client, DISCOVER, headers)) == (403, -32600)
    own = {**headers, "origin": "http://localhost"}
    assert (await post(open_client, DISCOVER, own)).status_code == 200


async def test_a_client_that_accepts_events_only_gets_an_event(open_client: OpenClient) -> None:
    headers = {**headers_of(DISCOVER), "accept": "text/event-stream"}
    answer = await post(open_client, DISCOVER, headers)
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.text.startswith('event: message\ndata: {"jsonrpc":"2.0","id":1,')
    any_type = await post(open_client, DISCOVER, {**headers, "accept": "*/*"})
    assert any_type.headers["content-type"] == "application/json"
