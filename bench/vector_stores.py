"""Vector stores over their routes: quality of searches, speed of ingestion, and lag of the event loop.

    python -m bench.vector_stores quality [FOLDER...]
    python -m bench.vector_stores load [PAGES] [--store URL] [--check]
    python -m bench.vector_stores search [--chunks 20000 100000] [--queries 200] [--check]

`quality` adds each text of a collection (`bench/retrieval.py`) as a file, asks every question with
``POST /v1/vector_stores/{id}/search`` and its defaults, and reports nDCG@10; words and vectors alone are
measured by weights of the same search. The documentation of this project is measured as well.

`load` adds a PDF file while 64 streams run, and measures the event loop as `bench/embedding_load.py` does.
The store is SQLite, unless a URL is given; `postgresql:` starts a server for the time of the run.

`search` measures the latency of searches and the memory of a server (`bench/store_search.py`).
"""

import argparse
import asyncio
import gc
import sys
import time
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from tempfile import TemporaryDirectory
from typing import Any

from openai import AsyncOpenAI
from tests.postgres import PostgresServer

from antiphon.backends.scripted import ScriptedBackend
from antiphon.caller import OPERATOR
from antiphon.embedded import Antiphon
from antiphon.service.routing.router import Route
from antiphon.service.vector_stores.passages import HybridWeights, PassageQuery
from antiphon.settings import Settings, StoreSettings
from bench.bounds import Row, add_check, print_table
from bench.documents import pdf_of
from bench.embedding_load import STREAMS, Tick, follow, play, rest, tick, tick_rows
from bench.retrieval import DEPTH, Collection, ndcg, own_documentation, read_collection
from bench.store_search import measure_search

POLL_SECONDS = 0.5
MAX_HELD_MS = 20.0
"""The event loop, while a file is added."""
BATCH_FILES = 500
CHUNKING: Any = {"max_chunk_size_tokens": 250, "chunk_overlap_tokens": 0}


def open_antiphon(url: str) -> Antiphon:
    return Antiphon(Settings(store=StoreSettings(url=url)), routes=[Route("m", ScriptedBackend(play))])


async def wait_until_added(client: AsyncOpenAI, store_id: str) -> Any:
    while True:
        store = await client.vector_stores.retrieve(store_id)
        if not store.file_counts.in_progress:
            return store
        await asyncio.sleep(POLL_SECONDS)


async def add_collection(client: AsyncOpenAI, collection: Collection) -> str:
    """A store with one file per text; the name of the file is the number of the text."""
    store = await client.vector_stores.create(name=collection.name)
    files: list[str] = []
    for number, text in enumerate(collection.documents.values()):
        file = await client.files.create(file=(f"{number}.txt", text.encode() or b" "), purpose="assistants")
        files.append(file.id)
    for start in range(0, len(files), BATCH_FILES):
        await client.vector_stores.file_batches.create(store.id, file_ids=files[start : start + BATCH_FILES])
    return store.id


async def score(collection: Collection, rank: Callable[[str], Awaitable[list[str]]]) -> tuple[float, float]:
    """nDCG@10, and milliseconds per question."""
    asked = [query for query in collection.queries if query in collection.grades]
    began, total = time.perf_counter(), 0.0
    for query in asked:
        total += ndcg(await rank(collection.queries[query]), collection.grades[query])
    return total / len(asked), (time.perf_counter() - began) / len(asked) * 1000


async def measure_quality(collection: Collection) -> None:
    names = list(collection.documents)
    with TemporaryDirectory() as folder:
        async with open_antiphon(f"sqlite:{folder}/bench.db") as antiphon:
            client = antiphon.openai_client()
            began = time.perf_counter()
            store_id = await add_collection(client, collection)
            store = await wait_until_added(client, store_id)
            seconds = time.perf_counter() - began
            counts = store.file_counts
            print(
                f"{collection.name}: {counts.completed} files in {seconds:.0f} s, {counts.failed} failed",
                file=sys.stderr,
            )
            # Weights are no parameter of the route.
            search = antiphon._open().services.vector_stores.search  # pyright: ignore[reportPrivateUsage]

            async def by_default(query: str) -> list[str]:
                found = await client.vector_stores.search(store_id, query=query, max_num_results=DEPTH)
                return [names[int(Path(result.filename).stem)] for result in found.data]

            def by(weights: HybridWeights) -> Callable[[str], Awaitable[list[str]]]:
                async def rank(query: str) -> list[str]:
                    wanted = PassageQuery(queries=(query,), limit=DEPTH, weights=weights)
                    found = await search.search(OPERATOR.tenant, [store_id], wanted)
                    return [names[int(Path(passage.filename).stem)] for passage in found]

                return rank

            methods = {
                "words alone": by(HybridWeights(0.0, 1.0)),
                "vectors alone": by(HybridWeights(1.0, 0.0)),
                "`POST /search`, defaults": by_default,
            }
            for name, rank in methods.items():
                quality, milliseconds = await score(collection, rank)
                print(f"| {collection.name} | {name} | {quality:.3f} | {milliseconds:.1f} |", flush=True)


@contextmanager
def store_url(given: str, folder: str) -> Generator[str, None, None]:
    """The URL of the database, for the duration of the block."""
    if given not in ("sqlite:", "postgresql:"):
        yield given
    elif given == "sqlite:":
        yield f"sqlite:{folder}/bench.db"
    else:
        Path(folder).chmod(0o755)  # PostgreSQL runs as another user
        home = Path(folder) / "postgres"
        home.mkdir()
        server = PostgresServer(home)
        try:
            with server.database() as url:
                yield url
        finally:
            server.stop()


async def measure_load(pages: int, url: str) -> list[Row]:
    async with open_antiphon(url) as antiphon:
        client = antiphon.openai_client()
        store = await client.vector_stores.create()
        await client.embeddings.create(model="auto", input="load the model")
        file = await client.files.create(file=("pages.pdf", pdf_of(pages)), purpose="assistants")
        streams = [asyncio.create_task(follow(antiphon)) for _ in range(STREAMS)]
        ticks: list[Tick] = []
        ticking = asyncio.create_task(tick(ticks))
        await asyncio.sleep(3)
        gc.collect()
        gc.freeze()
        await rest(ticks)
        await asyncio.sleep(5)
        rows = tick_rows(f"{STREAMS} streams alone", ticks)
        await rest(ticks)
        began = time.perf_counter()
        added = await client.vector_stores.files.create(
            store.id, file_id=file.id, chunking_strategy={"type": "static", "static": CHUNKING}
        )
        await wait_until_added(client, store.id)
        seconds = time.perf_counter() - began
        rows += tick_rows(f"a PDF file of {pages} pages is added meanwhile", ticks, MAX_HELD_MS)
        ticking.cancel()
        for stream in streams:
            stream.cancel()
        await asyncio.gather(*streams, return_exceptions=True)
        content = await client.vector_stores.files.content(added.id, vector_store_id=store.id)
        chunks = len(content.data)
        await client.vector_stores.delete(store.id)
        await client.files.delete(file.id)
    child = getrusage(RUSAGE_CHILDREN)
    note = f"{chunks} chunks of 250 tokens in {seconds:.0f} s"
    per_second = chunks / (child.ru_utime + child.ru_stime)
    return [*rows, Row("chunks per second of the CPU time of the child processes", per_second, note=note)]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.vector_stores")
    modes = parser.add_subparsers(dest="mode", required=True)
    quality = modes.add_parser("quality")
    quality.add_argument("folders", nargs="*", type=Path, metavar="FOLDER")
    load = modes.add_parser("load")
    load.add_argument("pages", type=int, nargs="?", default=300)
    load.add_argument("--store", default="sqlite:", metavar="URL", help="sqlite:, postgresql: or a URL")
    add_check(load)
    search = modes.add_parser("search")
    search.add_argument("--chunks", type=int, nargs="+", default=[20_000, 100_000])
    search.add_argument("--queries", type=int, default=200)
    add_check(search)
    options = parser.parse_args()
    if options.mode == "search":
        return print_table([*measure_search(options.chunks, options.queries)], check=options.check)
    if options.mode == "load":
        with TemporaryDirectory() as folder, store_url(options.store, folder) as url:
            rows = asyncio.run(measure_load(options.pages, url))
        return print_table(rows, check=options.check)
    print("| collection | search | nDCG@10 | ms per question |\n|---|---|---|---|", flush=True)
    for collection in (*map(read_collection, options.folders), own_documentation()):
        asyncio.run(measure_quality(collection))
    return 0


if __name__ == "__main__":
    sys.exit(main())
