"""Small requests that continue a huge history, and permitted requests with many items."""

import asyncio

from bench.hostile.client import HostileClient, JsonObject
from bench.hostile.registry import attack

HISTORY_TURNS = 4
LONG_TEXT = {"role": "user", "content": "word " * 10_000}
SHORT_TEXT = {"role": "user", "content": "word"}
TURN = [*[LONG_TEXT] * 100, *[SHORT_TEXT] * 9_000]
"""Its items: 5 MB."""
NOT_FOUND = 400
_building = asyncio.Lock()
_built: dict[str, str] = {}
"""The id of the last response of a chain, by key. It is built once."""


async def huge_history(client: HostileClient) -> str:
    """The id of a response with a history of 36,000 items and 20 MB."""
    async with _building:
        last = _built.get(client.key)
        for _ in range(0 if last else HISTORY_TURNS):
            answer = await client.create(input=TURN, store=True, previous_response_id=last)
            last = str(answer.json.get("id", "resp_unknown"))
        assert last is not None
        _built[client.key] = last
        return last


@attack("a history of 36,000 items, 8 at once", parallel=8)
async def continue_history(client: HostileClient) -> None:
    """Requests of 150 bytes that continue a history of 36,000 items and 20 MB."""
    answer = await client.create(previous_response_id=await huge_history(client))
    if answer.status == NOT_FOUND:  # the server has a new store
        _built.pop(client.key, None)


def many_calls(count: int) -> list[JsonObject]:
    """Calls of a function, each with its output."""
    calls = (
        {"type": "function_call", "call_id": f"c{n}", "name": "f", "arguments": "{}"} for n in range(count)
    )
    outputs = ({"type": "function_call_output", "call_id": f"c{n}", "output": "x"} for n in range(count))
    return [item for pair in zip(calls, outputs, strict=True) for item in pair]


@attack("10,000 items, 4 at once", parallel=4)
async def permitted_items(client: HostileClient) -> None:
    """Requests with as many calls and outputs as are permitted."""
    await client.create(input=many_calls(5_000))
