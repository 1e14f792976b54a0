"""Readers that do not read, and answers without an end."""

import asyncio
import json
from contextlib import AsyncExitStack, suppress

from bench.hostile.client import HostileClient, frame
from bench.hostile.registry import attack

READERS = 10
FLOOD = {"model": "flood", "input": "x"}
TOOLS = [{"type": "function", "name": "f", "parameters": {"type": "object"}}]


@attack("stream that is not read", parallel=1)
async def unread_stream(client: HostileClient) -> None:
    """10 streams of an endless answer; the client reads nothing."""
    body = json.dumps({**FLOOD, "stream": True, "store": False}).encode()
    await leave_unread(client, client.head("POST /v1/responses", f"content-length: {len(body)}") + body)


@attack("background response that is not read", parallel=1)
async def unread_follower(client: HostileClient) -> None:
    """10 followers of an endless background response; none reads."""
    created = await client.create(model="flood", background=True, store=True)
    target = f"GET /v1/responses/{created.json.get('id')}?stream=true"
    try:
        await leave_unread(client, client.head(target))
    finally:
        await cancel(client, str(created.json.get("id")))


async def leave_unread(client: HostileClient, request: bytes) -> None:
    """Send a request on several connections, and read nothing."""
    async with AsyncExitStack() as stack:
        for _ in range(READERS):
            connection = await stack.enter_async_context(client.connect(reads=False))
            await connection.send(request)
        await asyncio.Event().wait()


@attack("WebSocket that is not read", parallel=1)
async def unread_websocket(client: HostileClient) -> None:
    """10 WebSockets with endless answers; the client reads nothing after the handshake."""
    message = frame(json.dumps({"type": "response.create", **FLOOD, "store": False}).encode())
    async with AsyncExitStack() as stack:
        for _ in range(READERS):
            connection = await stack.enter_async_context(client.connect(reads=False))
            with suppress(OSError, asyncio.IncompleteReadError):
                if await client.websocket(connection):
                    await connection.send(message)
        await asyncio.Event().wait()


@attack("endless answer, JSON", parallel=2)
async def endless_json(client: HostileClient) -> None:
    """An endless answer that is collected for a JSON answer."""
    await client.create(model="flood")


@attack("endless answer, background, cancelled", parallel=2)
async def endless_background(client: HostileClient) -> None:
    """An endless answer in the background; its cancellation is timed."""
    await run_and_cancel(client, model="flood")


@attack("endless calls, background, cancelled", parallel=2)
async def endless_calls(client: HostileClient) -> None:
    """Endless calls of a tool in the background; their cancellation is timed."""
    await run_and_cancel(client, model="flood-calls", tools=TOOLS)


async def run_and_cancel(client: HostileClient, **params: object) -> None:
    """Start a background response, cancel it a second later, and note how long that took."""
    created = await client.create(background=True, store=True, **params)
    await asyncio.sleep(1)
    if created.status == 200:
        await cancel(client, str(created.json["id"]))


async def cancel(client: HostileClient, response_id: str) -> None:
    """Cancel a response, and note how long that took."""
    seconds, status = await client.canceller.cancel(response_id)
    client.tally.requests += 1
    client.tally.outcomes[status] += 1
    client.tally.note_most("cancel seconds", seconds)
