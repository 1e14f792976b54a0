"""What the hosted tools of a response cost, on a model that plays a script and costs nothing.

    python -m bench.hosted_tools [RESPONSES] [--check]

- Served: a request without `tools`, on a server that serves hosted tools, beside one that serves none.
- Declared: a tool of an MCP server, or `file_search`, that the model does not call, beside a request without
  `tools`, and beside a similar function of the client. The answer with the MCP tool begins with the list of
  its tools.
- Called: one call of a tool of a minimal MCP server, in a process of its own, less a response without a call
  and the same call over a bare socket. What is left is the second turn of the model, the items, the events
  and the loop.
- Waiting: responses that wait for slow tools; the memory of one.

All but the last take turns in slices, so that the machine's other work meets both alike. They are CPU time of
this process. A ratio is the median of those of the pairs of slices; half of them lie in the range beside it.
"""

import argparse
import asyncio
import os
import random
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from statistics import median, quantiles
from typing import Any, NamedTuple

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
from antiphon.service.hosted_tools.file_search import FileSearch
from antiphon.service.hosted_tools.mcp.tool import McpServed
from antiphon.service.responses.create import Creator, ResponseOptions, response_services
from antiphon.service.responses.file_texts import FileTexts
from antiphon.service.routing.router import Route, Router
from antiphon.service.vector_stores.passages import Passage, PassageQuery
from antiphon.store.files import FileQuota
from antiphon.store.none import no_stores
from antiphon.turn.chunks import CallDelta, CallFinished, CallStarted, Chunk, Finished, TextDelta
from antiphon.turn.sealing import SealKey
from bench.bounds import Row, add_check, print_table
from bench.mcp_calls import bare_client, running

SLICE_RESPONSES = 20
WAITING_RESPONSES = 100
WAIT_SECONDS = 3
MAX_RATIO = 1.02
"""Of a response with tools that are not called to one without."""
MAX_CALL_MS = 1.0
MAX_WAITING_KB = 100
CALLER = Caller.of("bench")
ANSWER: list[Chunk] = [TextDelta("It is 5."), Finished("stop")]
FUNCTION: dict[str, Any] = {
    "type": "function",
    "name": "add",
    "parameters": {"type": "object", "properties": {}},
}
QUERIES: dict[str, Any] = {
    "type": "function",
    "name": "file_search",
    "description": "Search the user's files. The answer has the passages that fit best, each with a number.",
    "parameters": {
        "type": "object",
        "properties": {"queries": {"type": "array", "items": {"type": "string"}, "minItems": 1}},
        "required": ["queries"],
    },
}
FILE_SEARCH: dict[str, Any] = {"type": "file_search", "vector_store_ids": ["vs_1"]}
MCP: dict[str, Any] = {"type": "mcp", "server_label": "bench", "require_approval": "never"}

Work = Callable[[], Awaitable[None]]


def call_of(arguments: str) -> list[Chunk]:
    return [
        CallStarted(0, "call_1", "add"),
        CallDelta(0, arguments),
        CallFinished(0),
        Finished("tool_calls"),
    ]


class NoPassages:
    """A search in a store that exists; nothing searches it."""

    async def check(self, tenant: str, store_ids: Sequence[str]) -> None:
        """Every store exists."""

    async def search(self, tenant: str, store_ids: Sequence[str], query: PassageQuery) -> Sequence[Passage]:
        return []


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


class Compared(NamedTuple):
    """Microseconds of CPU time of two kinds of work, and the quartiles of the ratios of their slices."""

    one: float
    other: float
    ratios: list[float]

    def row(self, what: str) -> Row:
        low, middle, high = self.ratios
        note = f"{low:.3f} to {high:.3f}; {self.one:.0f} µs instead of {self.other:.0f}"
        return Row(what, middle, bound=MAX_RATIO, digits=3, note=note)


async def in_turn(first: Work, second: Work, slices: int) -> Compared:
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
    return Compared(median(used[0]), median(used[1]), quantiles(ratios, n=4))


@asynccontextmanager
async def served(url: str, pool: IsolatedPool) -> AsyncGenerator[tuple[McpServed, dict[str, Any]], None]:
    """The hosted tool `mcp`, and the declaration of the minimal server."""
    connections = McpConnections(ALLOW_CONFIGURED)
    try:
        yield McpServed(connections, Checks(pool)), {**MCP, "server_url": f"{url}/mcp"}
    finally:
        await connections.aclose()


async def measure(url: str, responses: int) -> list[Row]:
    pool = IsolatedPool()
    slices = max(2, responses // SLICE_RESPONSES)
    async with served(url, pool) as (mcp, declared), bare_client(f"{url}/mcp") as bare:
        silent = ScriptedBackend([ANSWER])
        serving, plain = creator(silent, pool, mcp, FileSearch(NoPassages())), creator(silent, pool)

        async def call() -> None:
            assert await bare() == "5"

        def answers(service: Creator, *tools: dict[str, Any]) -> Work:
            return lambda: respond(service, list(tools))

        unused = await in_turn(answers(serving), answers(plain), slices)
        beside_none = await in_turn(answers(serving, declared), answers(serving), slices)
        beside_function = await in_turn(answers(serving, declared), answers(serving, FUNCTION), slices)
        search_beside_none = await in_turn(answers(serving, FILE_SEARCH), answers(serving), slices)
        search_beside_function = await in_turn(
            answers(serving, FILE_SEARCH), answers(serving, QUERIES), slices
        )
        calling = creator(ScriptedBackend(alternate()), pool, mcp)
        called = await in_turn(answers(calling, declared), call, slices)
        added = called.one - beside_none.one - called.other
        note = f"to a response of {beside_none.one:.0f} µs and the bare call of {called.other:.0f} µs"
        rows = [
            unused.row("hosted tools are served, none is declared; beside a server without"),
            beside_none.row("an MCP tool is declared and not called; beside a request without `tools`"),
            beside_function.row("the same, beside a function of the client"),
            search_beside_none.row(
                "`file_search` is declared and not called; beside a request without `tools`"
            ),
            search_beside_function.row("the same, beside a function of the client"),
            Row("a call of an MCP tool adds", added / 1000, "ms", bound=MAX_CALL_MS, digits=2, note=note),
            await wait_together(pool, mcp, declared),
        ]
    await pool.aclose()
    return rows


def alternate() -> Callable[[object], list[list[Chunk]]]:
    """A model that calls the tool in every other turn."""
    turns = [0]

    def play(_turn: object) -> list[list[Chunk]]:
        turns[0] += 1
        return [call_of('{"a": 2, "b": 3}') if turns[0] % 2 else ANSWER]

    return play


async def wait_together(pool: IsolatedPool, mcp: McpServed, declared: dict[str, Any]) -> Row:
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
    what = f"memory of each of {WAITING_RESPONSES} responses that wait for a slow tool"
    return Row(what, grown / WAITING_RESPONSES / 1000, "kB", bound=MAX_WAITING_KB, digits=0)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.hosted_tools")
    parser.add_argument("responses", type=int, nargs="?", default=1000, help="of each kind (1000)")
    add_check(parser)
    options = parser.parse_args()
    with running("bench.mcp_calls", "minimal") as url:
        rows = asyncio.run(measure(url, options.responses))
    return print_table(rows, check=options.check)


if __name__ == "__main__":
    sys.exit(main())
