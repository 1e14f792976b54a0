"""What the hosted tools of a response cost, on a model that plays a script and costs nothing.

    python -m bench.hosted_tools [RESPONSES]

- undeclared: a request without tools, on a server that serves hosted tools, beside one that serves none.
- declared: a tool of an MCP server that the model does not call, beside the same function of the client.
- called: one call of a tool of a minimal MCP server, in a process of its own, beside the same call over a
  bare socket. What is left is the second turn of the model, the items, the events and the loop.
- waiting: 100 responses that wait for slow tools; the memory of one.

The first three take turns in slices, so that the machine's other work meets both alike. They are CPU time of
this process.
"""

import asyncio
import os
import random
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from statistics import median
from typing import Any

from antiphon.backends.scripted import ScriptedBackend
from antiphon.caller import Caller
from antiphon.documents.reader import DocumentReader
from antiphon.http.download import Downloader
from antiphon.http.egress import ALLOW_CONFIGURED, AllowPublic
from antiphon.isolated.pool import IsolatedPool
from antiphon.mcp.connections import McpConnections
from antiphon.memory_use import give_memory_back, resident_bytes
from antiphon.protocol.ids import IdSource
from antiphon.protocol.parse_create import create_from
from antiphon.service.checks import Checks
from antiphon.service.files.contents import Contents
from antiphon.service.files.files import Files
from antiphon.service.hosted_tools.base import ServedTool
from antiphon.service.hosted_tools.mcp.tool import McpServed
from antiphon.service.responses.create import Creator, ResponseOptions, response_services
from antiphon.service.responses.file_texts import FileTexts
from antiphon.service.routing.router import Route, Router
from antiphon.store.files import FileQuota
from antiphon.store.none import no_stores
from antiphon.turn.chunks import CallDelta, CallFinished, CallStarted, Chunk, Finished, TextDelta
from antiphon.turn.sealing import SealKey
from bench.mcp_calls import bare_client, running

SLICE_RESPONSES = 20
WAITING_RESPONSES = 100
WAIT_SECONDS = 3
CALLER = Caller.of("bench")
ANSWER: list[Chunk] = [TextDelta("It is 5."), Finished("stop")]
FUNCTION: dict[str, Any] = {
    "type": "function",
    "name": "add",
    "parameters": {"type": "object", "properties": {}},
}
MCP: dict[str, Any] = {"type": "mcp", "server_label": "bench", "require_approval": "never"}

Work = Callable[[], Awaitable[None]]


def call_of(arguments: str) -> list[Chunk]:
    return [
        CallStarted(0, "call_1", "add"),
        CallDelta(0, arguments),
        CallFinished(0),
        Finished("tool_calls"),
    ]


def creator(backend: ScriptedBackend, pool: IsolatedPool, *tools: ServedTool) -> Creator:
    """A service that stores nothing, on this model, with these hosted tools."""
    stores, ids = no_stores(), IdSource(time.time, os.urandom)
    contents = Contents(stores.files, stores.blobs, FileQuota(1, 1), ids.entropy)
    files = FileTexts(
        DocumentReader(pool),
        Downloader(AllowPublic(), 1, 1.0),
        Files(stores.files, contents, ids, time.time),
        1,
    )
    services = response_services(
        router=Router([Route("m", backend)], chance=random.random),
        stores=stores,
        ids=ids,
        clock=time.time,
        seal_key=SealKey(b"secret", os.urandom),
        checks=Checks(pool),
        files=files,
        options=ResponseOptions(served_tools=tools),
    )
    return services.creator


async def respond(service: Creator, tools: list[dict[str, Any]], answer: str = "It is 5.") -> None:
    """One response; it must have the expected answer."""
    request = create_from(model="m", input="What is 2 + 3?", store=False, tools=tools)
    response = await service.start(request, CALLER).result()
    texts = [part.text for item in response.output for part in getattr(item, "content", None) or ()]
    assert texts == [answer], response


async def in_turn(first: Work, second: Work, slices: int) -> tuple[float, float, float]:
    """Microseconds of CPU of each, and the median of the ratios of the pairs of slices."""
    used: tuple[list[float], list[float]] = ([], [])
    for number in range(slices + 1):
        pairs = [(0, first), (1, second)]
        for which, work in reversed(pairs) if number % 2 else pairs:
            began = time.process_time()
            for _ in range(SLICE_RESPONSES):
                await work()
            if number:  # the first slice warms up
                used[which].append((time.process_time() - began) / SLICE_RESPONSES * 1e6)
    ratios = [one / other for one, other in zip(*used, strict=True)]
    return median(used[0]), median(used[1]), median(ratios)


@asynccontextmanager
async def served(url: str, pool: IsolatedPool) -> AsyncGenerator[tuple[McpServed, dict[str, Any]], None]:
    """The hosted tool `mcp`, and the declaration of the minimal server."""
    connections = McpConnections(ALLOW_CONFIGURED)
    try:
        yield McpServed(connections, Checks(pool)), {**MCP, "server_url": f"{url}/mcp"}
    finally:
        await connections.aclose()


async def measure(url: str, responses: int) -> None:
    """Print the rows."""
    pool = IsolatedPool()
    slices = responses // SLICE_RESPONSES
    async with served(url, pool) as (mcp, declared), bare_client(f"{url}/mcp") as bare:
        silent = ScriptedBackend([ANSWER])
        with_tools, without = creator(silent, pool, mcp), creator(silent, pool)

        one, other, ratio = await in_turn(
            lambda: respond(with_tools, []), lambda: respond(without, []), slices
        )
        print(f"undeclared  {one:6.0f} µs beside {other:6.0f} µs per response: {ratio:.3f}")

        one, other, ratio = await in_turn(
            lambda: respond(with_tools, [declared]), lambda: respond(with_tools, [FUNCTION]), slices
        )
        print(f"declared    {one:6.0f} µs beside {other:6.0f} µs per response: {ratio:.3f}")

        turns = [0]

        def play(turn: object) -> list[list[Chunk]]:
            turns[0] += 1
            return [call_of('{"a": 2, "b": 3}') if turns[0] % 2 else ANSWER]

        calling = creator(ScriptedBackend(play), pool, mcp)

        async def call() -> None:
            assert await bare() == "5"

        one, other, _ = await in_turn(lambda: respond(calling, [declared]), call, slices)
        plain, _, _ = await in_turn(lambda: respond(with_tools, [declared]), call, slices)
        print(
            f"called      {one - plain - other:6.0f} µs beside a response ({plain:.0f} µs) and the bare call"
        )

        await wait_together(pool, mcp, declared)
    await pool.aclose()


async def wait_together(pool: IsolatedPool, mcp: McpServed, declared: dict[str, Any]) -> None:
    """The memory of one of many responses that wait for a slow tool."""

    def play(turn: Any) -> list[list[Chunk]]:
        answered = any(item.__struct_config__.tag == "function_call_output" for item in turn.items)
        return [ANSWER if answered else call_of(f'{{"seconds": {WAIT_SECONDS}}}')]

    waiting = creator(ScriptedBackend(play), pool, mcp)
    await respond(waiting, [declared])
    give_memory_back()
    before = resident_bytes()
    tasks = [asyncio.create_task(respond(waiting, [declared])) for _ in range(WAITING_RESPONSES)]
    await asyncio.sleep(WAIT_SECONDS * 2 / 3)
    assert not any(task.done() for task in tasks)
    grown = resident_bytes() - before
    await asyncio.gather(*tasks)
    print(f"waiting     {grown / WAITING_RESPONSES / 1000:6.0f} kB for each of {WAITING_RESPONSES} responses")


if __name__ == "__main__":
    with running("bench.mcp_calls", "minimal") as minimal:
        asyncio.run(measure(minimal, int(sys.argv[1]) if len(sys.argv) > 1 else 1000))
