"""A process with a durable engine, for tests that kill it.

It reads `submit ID` and `release ID`, and writes `ready`, `submitted ID`, `started ID` and `ended ID`.
"""

import asyncio
import sys

from antiphon.runs.dbos_engine import DbosEngine

released: dict[str, asyncio.Event] = {}


def say(*words: str) -> None:
    print(*words, flush=True)


async def work(tenant: str, response_id: str) -> None:
    say("started", response_id)
    await released.setdefault(response_id, asyncio.Event()).wait()
    say("ended", response_id)


async def main(database: str, owner: str) -> None:
    engine = DbosEngine(database, work, owner=owner)
    say("ready")
    while line := await asyncio.to_thread(sys.stdin.readline):
        command, response_id = line.split()
        if command == "submit":
            await engine.submit("tenant", response_id)
            say("submitted", response_id)
        else:
            released.setdefault(response_id, asyncio.Event()).set()
    await engine.aclose()


asyncio.run(main(*sys.argv[1:]))
