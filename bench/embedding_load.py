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
from statistics import median
from typing import NamedTuple

from antiphon.backends.scripted import ScriptedBackend, Step
from antiphon.embedded import Antiphon
from antiphon.service.routing.router import Route
from antiphon.settings import Settings, StoreSettings
from antiphon.turn.chunks import TextDelta
from antiphon.turn.context import TurnRequest
from bench.bounds import Row, print_table

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


def tick_rows(name: str, ticks: list[Tick], bound: float | None = None) -> list[Row]:
    """Lateness and CPU time of these ticks, which are then forgotten.

    The bound is for the greatest CPU time, but for the 99th percentile of the lateness: the machine may hold
    any process for longer.
    """
    late = sorted(tick.late * 1000 for tick in ticks)
    used = sorted(tick.used * 1000 for tick in ticks)
    ticks.clear()
    late_p99, used_p99 = (values[int(len(values) * 0.99)] for values in (late, used))
    late_note = f"p50 {median(late):.1f} ms, at most {late[-1]:.1f} ms"
    used_note = f"p50 {median(used):.1f} ms, p99 {used_p99:.1f} ms"
    return [
        Row(f"{name}: lateness of the event loop, p99", late_p99, "ms", bound=bound, note=late_note),
        Row(f"{name}: CPU of its thread at a stretch, at most", used[-1], "ms", bound=bound, note=used_note),
    ]


async def rest(ticks: list[Tick]) -> None:
    """Forget the tick that counts the garbage collection, or the sorting of ticks, before it."""
    await asyncio.sleep(0.2)
    ticks.clear()


async def measure(texts: int) -> list[Row]:
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
        await rest(ticks)
        await asyncio.sleep(5)
        rows = tick_rows(f"{STREAMS} streams alone", ticks)
        await client.embeddings.create(model="auto", input="first")
        rows += tick_rows("first embedding: the model is loaded", ticks)
        began = time.perf_counter()
        await client.embeddings.create(model="auto", input=[TEXT] * texts)
        seconds = time.perf_counter() - began
        rows += tick_rows(f"{texts} texts of 250 tokens", ticks)
        await client.embeddings.create(model="auto", input=["short"] * SHORT_TEXTS, encoding_format="float")
        rows += tick_rows(f"{SHORT_TEXTS} short texts, answered as numbers", ticks)
        ticking.cancel()
        for stream in streams:
            stream.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.gather(*streams, return_exceptions=True)
    return [*rows, Row("texts of 250 tokens per second of the clock", texts / seconds)]


def main(texts: int = 100) -> int:
    rows = asyncio.run(measure(texts))
    own, child = getrusage(RUSAGE_SELF), getrusage(RUSAGE_CHILDREN)
    rows += [
        Row("CPU time of the server", own.ru_utime + own.ru_stime, "s"),
        Row("CPU time of the model", child.ru_utime + child.ru_stime, "s"),
        Row("memory of the process of the model", child.ru_maxrss / 1024, "MB", digits=0),
    ]
    return print_table(rows, check=False)


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:2])))
