"""Measure the search in vector stores on SQLite and PostgreSQL: latency, CPU time and memory.

    python -m bench.vector_search [--chunks 20000 100000] [--queries 200] [--graph]

Chunks have 200 terms of a vocabulary with Zipf's frequencies and vectors of 384 dimensions. A query has six
terms, half of them frequent, and a vector. PostgreSQL comes from the wheel that the tests use. Each store is
filled by one process and searched by another, whose CPU time and memory are shown; the work of PostgreSQL
itself is in the latency alone.

With `--graph`, PostgreSQL alone is measured, as if the vectors had no room in the memory of the process: the
database searches its graph (HNSW). The recall is the share of the 100 nearest chunks that this finds. A store
of less than 32 MB of vectors has no graph.
"""

import argparse
import asyncio
import resource
import subprocess
import sys
import time
from pathlib import Path
from random import Random
from statistics import mean, median, quantiles
from tempfile import TemporaryDirectory

import numpy
from tests.postgres import PostgresServer

from antiphon.protocol.attribute_filters import Comparison
from antiphon.protocol.vector_stores import Chunking
from antiphon.store.ports import Stores
from antiphon.store.postgres import PostgresDatabase
from antiphon.store.postgres_vectors import PostgresVectors
from antiphon.store.signals import LocalSignals
from antiphon.store.sql_stores import sql_stores
from antiphon.store.sqlite import SqliteDatabase
from antiphon.store.vector_search import CandidateSearch
from antiphon.store.vector_stores import (
    INGESTION,
    CandidateQuery,
    Chunk,
    StoreQuota,
    VectorStore,
    VectorStoreFile,
)

DIMENSIONS = 384
CLUSTERS = 300
VOCABULARY = 50_000
CHUNK_TERMS = 200
FILE_CHUNKS = 100
PORTION_CHUNKS = 50
FREQUENT_TERMS = 50
TENANT = "t"
QUOTA = StoreQuota(10, 1_000_000, 10**12)


class Data:
    """Random chunks and queries; the same for the same seed."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self._numpy = numpy.random.default_rng(seed)
        self._centres = numpy.random.default_rng(0).normal(size=(CLUSTERS, DIMENSIONS))
        weights = 1 / numpy.arange(1, VOCABULARY + 1)
        self._until = numpy.cumsum(weights / weights.sum())

    def vector(self) -> bytes:
        centre = self._centres[self._random.randrange(CLUSTERS)]
        return (centre + self._numpy.normal(size=DIMENSIONS)).astype("<f4").tobytes()

    def chunk(self, ordinal: int) -> Chunk:
        drawn = numpy.searchsorted(self._until, self._numpy.random(CHUNK_TERMS))
        terms = [f"w{term}" for term in drawn.tolist()]
        return Chunk(ordinal=ordinal, text=" ".join(terms), terms=terms, vector=self.vector())

    def question(self) -> list[str]:
        frequent = [self._random.randrange(FREQUENT_TERMS) for _ in range(3)]
        rare = [self._random.randrange(FREQUENT_TERMS, VOCABULARY) for _ in range(3)]
        return [f"w{term}" for term in (*frequent, *rare)]

    def query(self, *, filtered: bool) -> CandidateQuery:
        return CandidateQuery(
            terms=self.question(),
            vector=self.vector(),
            filter=Comparison("eq", "tenth", 3.0) if filtered else None,
        )


async def opened(url: str) -> Stores:
    if url.startswith("sqlite:"):
        database = await SqliteDatabase.open(Path(url.removeprefix("sqlite:")))
        return sql_stores(database, LocalSignals(), time.time)
    database = await PostgresDatabase.open(url)
    return sql_stores(database, database.signals, time.time)


async def fill(url: str, chunks: int, tenant: str = TENANT, model: str = "m") -> None:
    """Make a store with so many chunks."""
    stores, data = await opened(url), Data(1)
    vector_stores = stores.vector_stores
    store = VectorStore(id=f"vs_{chunks}", name="", created_at=1, last_active_at=1, model=model)
    await vector_stores.add_store(tenant, store, [], QUOTA)
    await stores.jobs.beat("bench")
    for number in range(chunks // FILE_CHUNKS):
        file = VectorStoreFile(
            id=f"file-{number:06}",
            store_id=store.id,
            filename="a.txt",
            created_at=1,
            chunking=Chunking(800, 400),
            attributes={"tenth": float(number % 10)},
        )
        await vector_stores.add_files(tenant, [file], QUOTA)
        job = await stores.jobs.claim_one("bench", INGESTION, tenant, f"{store.id}/{file.id}", 60.0)
        assert job is not None
        for first in range(0, FILE_CHUNKS, PORTION_CHUNKS):
            portion = [data.chunk(first + place) for place in range(PORTION_CHUNKS)]
            await vector_stores.add_chunks(job, portion, QUOTA)
        await vector_stores.end_file(job, None)
    await stores.aclose()


async def measure(url: str, chunks: int, queries: int) -> None:
    """Search a store, and print a line for each kind of query."""
    stores, data = await opened(url), Data(2)
    for filtered in (False, True):
        seconds: list[float] = []
        used: list[float] = []
        for _ in range(queries):
            query = data.query(filtered=filtered)
            begun, used_before = time.perf_counter(), time.process_time()
            await stores.vector_stores.candidates(TENANT, f"vs_{chunks}", query)
            seconds.append(time.perf_counter() - begun)
            used.append(time.process_time() - used_before)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(
            f"{url.partition(':')[0]:10} {chunks:8,} {'filter' if filtered else 'all':7}"
            f"{seconds[0] * 1000:8.1f}{median(seconds) * 1000:8.1f}{quantiles(seconds, n=20)[-1] * 1000:8.1f}"
            f"{median(used) * 1000:8.1f}{peak:8.0f}",
            flush=True,
        )
    await stores.aclose()


async def measure_graph(url: str, chunks: int, queries: int) -> None:
    """Search a store on PostgreSQL in its graph and exactly, and print a line."""
    database = await PostgresDatabase.open(url)
    exact = sql_stores(database, database.signals, time.time).vector_stores
    graph = CandidateSearch(database, PostgresVectors(database), time.time, max_bytes=0)
    data, store_id = Data(2), f"vs_{chunks}"
    seconds: list[float] = []
    recalls: list[float] = []
    for _ in range(queries):
        query = data.query(filtered=False)
        begun = time.perf_counter()
        await graph.candidates(TENANT, store_id, query)
        seconds.append(time.perf_counter() - begun)
        by_vector = CandidateQuery(vector=query.vector)
        nearest = await exact.candidates(TENANT, store_id, by_vector)
        found = {(each.file_id, each.ordinal) for each in await graph.candidates(TENANT, store_id, by_vector)}
        recalls.append(mean((each.file_id, each.ordinal) in found for each in nearest))
    print(
        f"| {chunks:,} | {mean(recalls):.3f} | {min(recalls):.2f} | {median(seconds) * 1000:.1f} ms "
        f"| {quantiles(seconds, n=20)[-1] * 1000:.1f} ms |",
        flush=True,
    )
    await database.aclose()


def in_child(*arguments: object) -> None:
    subprocess.run([sys.executable, "-m", "bench.vector_search", *map(str, arguments)], check=True)


def compare(sizes: list[int], queries: int) -> None:
    """Fill and search stores on both databases."""
    with TemporaryDirectory() as folder, TemporaryDirectory() as server_folder:
        server = PostgresServer(Path(server_folder))
        print("database     chunks query     first     p50     p95     CPU      MB", flush=True)
        try:
            for size in sizes:
                with server.database() as postgres:
                    for url in (f"sqlite:{folder}/{size}.db", postgres):
                        in_child("--url", url, "--fill", "--chunks", size)
                        in_child("--url", url, "--chunks", size, "--queries", queries)
        finally:
            server.stop()


def compare_graph(sizes: list[int], queries: int) -> None:
    """Fill stores on PostgreSQL, and search their graphs."""
    with TemporaryDirectory() as folder:
        server = PostgresServer(Path(folder))
        print(
            "| chunks | recall of the 100 nearest | worst query | p50 | p95 |\n|---|---|---|---|---|",
            flush=True,
        )
        try:
            for size in sizes:
                with server.database() as url:
                    in_child("--url", url, "--fill", "--chunks", size)
                    in_child("--url", url, "--graph", "--chunks", size, "--queries", queries)
        finally:
            server.stop()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.vector_search")
    parser.add_argument("--chunks", type=int, nargs="+", default=[20_000, 100_000])
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--url", help="search this database alone")
    parser.add_argument("--fill", action="store_true", help="fill it first")
    parser.add_argument("--graph", action="store_true", help="search the graph of PostgreSQL")
    chosen = parser.parse_args()
    if chosen.url is None:
        (compare_graph if chosen.graph else compare)(chosen.chunks, chosen.queries)
    elif chosen.fill:
        asyncio.run(fill(chosen.url, chosen.chunks[0]))
    else:
        search = measure_graph if chosen.graph else measure
        asyncio.run(search(chosen.url, chosen.chunks[0], chosen.queries))


if __name__ == "__main__":
    main()
