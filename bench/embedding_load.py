"""The bundled embedding model beside 64 streams: texts per second of CPU time, and the lag of the event loop.

    python -m bench.embedding_load [TEXTS]

The service runs in this process on a scripted backend that writes 50 tokens a second into each stream. A
timer of the event loop should fire every 2 ms. It is late by what held the loop and by what the machine has
to do besides. The CPU time that the loop's thread used from one tick to the next is due to the server alone.
"""

import asyncio
import gc
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import suppress
from resource import RUSAGE_CHILDREN, RUSAGE_SELF, getrusage
from typing import NamedTuple

from antiphon.backends.scripted import ScriptedBackend, Step
from antiphon.embedded import Antiphon
from antiphon.service.routing.router import Route
from antiphon.settings import Settings, StoreSettings
from antiphon.turn.chunks import TextDelta
from antiphon.turn.context import TurnRequest

STREAMS = 64
TOKEN_SECONDS = 0.02
TICK_SECONDS = 0.002
SHORT_TEXTS = 512
TEXT = "word " * 250
"""250 tokens."""


async def play(_turn: TurnRequest) -> AsyncGenerator[Step, None]:
    while True:
        await asyncio.sleep(TOKEN_SECONDS)
        yield [TextDelta("token ")]


async def follow(antiphon: Antiphon) -> None:
    async for _ in antiphon.stream(model="m", input="x", store=False):
        pass


class Tick(NamedTuple):
    """Seconds that the timer was late, and CPU seconds of the thread since the last one."""

    late: float
    used: float


async def tick(ticks: list[Tick]) -> None:
    loop = asyncio.get_running_loop()
    used = time.thread_time()
    while True:
        due = loop.time() + TICK_SECONDS
        await asyncio.sleep(TICK_SECONDS)
        now = time.thread_time()
        ticks.append(Tick(loop.time() - due, now - used))
        used = now


def report(name: str, ticks: list[Tick]) -> None:
    for what, values in (("late", [tick.late for tick in ticks]), ("CPU", [tick.used for tick in ticks])):
        ordered = sorted(values)
        p50, p99 = (ordered[int(len(ordered) * share)] * 1000 for share in (0.5, 0.99))
        print(f"{name}: {what} p50 {p50:.1f} ms, p99 {p99:.1f} ms, max {ordered[-1] * 1000:.1f} ms")
    ticks.clear()


async def measure(texts: int) -> None:
    backend = ScriptedBackend(play)
    settings = Settings(store=StoreSettings(url="none"))
    async with Antiphon(settings, routes=[Route("m", backend)]) as antiphon:
        client = antiphon.openai_client()
        streams = [asyncio.create_task(follow(antiphon)) for _ in range(STREAMS)]
        ticks: list[Tick] = []
        ticking = asyncio.create_task(tick(ticks))
        await asyncio.sleep(3)
        gc.collect()
        gc.freeze()  # as a server does after its start
        ticks.clear()
        await asyncio.sleep(5)
        report(f"{STREAMS} streams alone", ticks)
        await client.embeddings.create(model="auto", input="first")
        report("first embedding: the model is loaded", ticks)
        began = time.perf_counter()
        await client.embeddings.create(model="auto", input=[TEXT] * texts)
        seconds = time.perf_counter() - began
        report(f"{texts} texts of 250 tokens", ticks)
        await client.embeddings.create(model="auto", input=["short"] * SHORT_TEXTS, encoding_format="float")
        report(f"{SHORT_TEXTS} short texts, answered as numbers", ticks)
        ticking.cancel()
        for stream in streams:
            stream.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.gather(*streams, return_exceptions=True)
    print(f"{texts / seconds:.1f} texts of 250 tokens per second of the clock")


def main(texts: int = 100) -> None:
    asyncio.run(measure(texts))
    own, child = getrusage(RUSAGE_SELF), getrusage(RUSAGE_CHILDREN)
    print(
        f"CPU time: server {own.ru_utime + own.ru_stime:.1f} s, model {child.ru_utime + child.ru_stime:.1f} s"
    )
    print(f"memory of the model's process: {child.ru_maxrss / 1024:.0f} MB")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
