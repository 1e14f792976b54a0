"""Messages to `/mcp` as both eras send them."""

from typing import Any

import httpx2

JsonObject = dict[str, Any]
MODERN = "2026-07-28"
HANDSHAKES = ("2025-03-26", "2025-06-18", "2025-11-25")
ERAS = (*HANDSHAKES, MODERN)
BOTH = "application/json, text/event-stream"


def request(method: str, params: JsonObject | None = None, id: int | str = 1) -> JsonObject:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params or {}}


def meta(version: str = MODERN) -> JsonObject:
    return {
        "io.modelcontextprotocol/protocolVersion": version,
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }


def headers_of(message: JsonObject, version: str = MODERN) -> dict[str, str]:
    """The headers of the newest era."""
    headers = {"mcp-protocol-version": version, "mcp-method": message["method"], "accept": BOTH}
    name = message["params"].get("name")
    return headers if name is None else {**headers, "mcp-name": name}


async def send(
    client: httpx2.AsyncClient,
    method: str,
    params: JsonObject | None = None,
    *,
    version: str = MODERN,
    headers: httpx2.Headers | None = None,
) -> httpx2.Response:
    """Send a request in the era of this version."""
    message = request(method, params)
    if version == MODERN:
        message["params"] = {**message["params"], "_meta": {**message["params"].get("_meta", {}), **meta()}}
        sent = headers_of(message)
    else:
        sent = {"mcp-protocol-version": version, "accept": BOTH}
    return await client.post("/mcp", json=message, headers={**sent, **(headers or {})})


async def call(client: httpx2.AsyncClient, name: str, arguments: JsonObject, **more: Any) -> JsonObject:
    """The result of a call."""
    answer = await send(client, "tools/call", {"name": name, "arguments": arguments}, **more)
    assert answer.status_code == 200, answer.text
    return answer.json()["result"]


def text_of(result: JsonObject) -> str:
    return "\n".join(part["text"] for part in result["content"])
