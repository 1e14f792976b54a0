"""Lists and statistics over many stored responses: `python -m bench.lists [--responses N] [--postgres URL]`.

It fills a database of its own with responses of one tenant, and prints the median time of each query in
milliseconds. Exit code 1 if a list takes more than `MAX_LIST_MS`.
"""

import argparse
import asyncio
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from msgspec.structs import replace

from antiphon.protocol.content import OutputText
from antiphon.protocol.items import FunctionCall, Message
from antiphon.protocol.parse_create import create_from
from antiphon.protocol.response import InputTokensDetails, OutputTokensDetails, Usage, new_response
from antiphon.store.base import Page, StoredResponse
from antiphon.store.ports import Stores
from antiphon.store.signals import LocalSignals
from antiphon.store.sql_stores import sql_stores
from antiphon.store.sqlite import SqliteDatabase
from antiphon.store.stats import ResponseStats
from antiphon.store.summaries import ResponseFilter, UsageQuery

MAX_LIST_MS = 50.0
ROUNDS = 15
DAY_SECONDS = 24 * 3600
TENANT = "t"
_FIRST_PAGE = Page(limit=50)
_REQUEST = create_from(model="m", input="x")


def main() -> int:
    """Fill a store, measure, report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--responses", type=int, default=100_000)
    parser.add_argument("--postgres", help="the URL of an empty database; default: a SQLite file")
    options = parser.parse_args()
    return asyncio.run(measure(options.responses, options.postgres))


async def measure(responses: int, postgres: str | None) -> int:
    """The exit code of a run."""
    with tempfile.TemporaryDirectory() as folder:
        store = await open_store(postgres, Path(folder) / "lists.db")
        try:
            began = time.perf_counter()
            await fill(store, responses)
            print(f"{responses} responses saved in {time.perf_counter() - began:.0f} s")
            times = {name: await median_ms(query) for name, query in queries(store, responses).items()}
        finally:
            await store.aclose()
    for name, milliseconds in times.items():
        print(f"{name:<44}{milliseconds:8.1f} ms")
    slow = [name for name, taken in times.items() if not name.startswith("usage") and taken > MAX_LIST_MS]
    return 1 if slow else 0


async def open_store(postgres: str | None, path: Path) -> Stores:
    """The stores on a new database."""
    if postgres is None:
        return sql_stores(await SqliteDatabase.open(path), LocalSignals(), time.time)
    from antiphon.store.postgres import PostgresDatabase  # noqa: PLC0415 -- optional: the [postgres] extra

    database = await PostgresDatabase.open(postgres)
    return sql_stores(database, database.signals, time.time)


async def fill(store: Stores, responses: int) -> None:
    """Save responses of the last month; every fourth continues the one before."""
    rng = random.Random(1)
    start = int(time.time()) - 30 * DAY_SECONDS
    for first in range(0, responses, 500):
        numbers = range(first, min(first + 500, responses))
        roots = [number for number in numbers if number % 4 != 3]
        for batch in (roots, [number for number in numbers if number % 4 == 3]):
            await asyncio.gather(
                *(
                    store.responses.save(
                        TENANT, a_response(number, start + number * 30 * DAY_SECONDS // responses, rng)
                    )
                    for number in batch
                )
            )


def a_response(number: int, created_at: int, rng: random.Random) -> StoredResponse:
    """A response with instructions, a call and a text."""
    usage = Usage(rng.randrange(5000), InputTokensDetails(), rng.randrange(900), OutputTokensDetails(), 0)
    called = FunctionCall(id=f"fc_{number}", call_id=f"c{number}", name=f"tool_{number % 7}", arguments="{}")
    text = OutputText(text=f"Answer {number}: " + "words of the answer " * 20)
    output = [Message(id=f"msg_{number}", status="completed", role="assistant", content=[text])]
    response = replace(
        new_response(_REQUEST, id=f"resp_{number:012}", created_at=created_at),
        model=f"model-{number % 5}" if number % 1000 else "rare",
        instructions="You answer briefly and precisely. " * 20,
        status="failed" if number % 50 == 0 else "completed",
        output=[called, *output] if number % 3 == 0 else output,
        usage=usage,
    )
    return StoredResponse(
        response=response,
        parent=f"resp_{number - 1:012}" if number % 4 == 3 else None,
        input=(Message(id=f"in_{number}", role="user", content=f"Question {number} " + "why " * 30),),
        stats=ResponseStats(
            key_id=f"key{number % 3}",
            request_id=f"req_{number:012}",
            upstream=f"up{number % 2}",
            first_token_ms=rng.randrange(2000),
            total_ms=rng.randrange(2000, 30_000),
        ),
    )


def queries(store: Stores, responses: int) -> Mapping[str, Callable[[], Awaitable[object]]]:
    """What the page asks for, and the worst of it."""
    summaries, now = store.summaries, int(time.time())
    middle, month = (
        f"resp_{responses // 2:012}",
        UsageQuery(start=now - 31 * DAY_SECONDS, end=now, bucket=DAY_SECONDS),
    )

    def listed(page: Page = _FIRST_PAGE, **wanted: str) -> Callable[[], Awaitable[object]]:
        return lambda: summaries.responses(TENANT, ResponseFilter(**wanted), page)  # pyright: ignore[reportArgumentType] -- texts only

    return {
        "the newest 50": listed(),
        "the oldest 50": listed(Page(limit=50, order="asc")),
        "50 in the middle": listed(Page(limit=50, after=middle)),
        "failed ones": listed(status="failed"),
        "of a rare model": listed(model="rare"),
        "of a model that does not exist": listed(model="none"),
        "with a tool": listed(tool="tool_3"),
        "with a text": listed(text="question 12"),
        "with a text that is nowhere": listed(text="nowhere"),
        "by the id of the oldest request": lambda: summaries.of_request(TENANT, f"req_{0:012}"),
        "a tree": lambda: summaries.tree(TENANT, middle),
        "usage of a month per day": lambda: summaries.usage(TENANT, month),
        "usage per model, key and upstream": lambda: summaries.usage(
            TENANT, replace(month, by_model=True, by_key=True, by_upstream=True)
        ),
    }


async def median_ms(query: Callable[[], Awaitable[object]]) -> float:
    """The median time of a query."""
    times: list[float] = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        await query()
        times.append(1000 * (time.perf_counter() - began))
    return statistics.median(times)


if __name__ == "__main__":
    sys.exit(main())
