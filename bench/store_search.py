"""`POST /v1/vector_stores/{id}/search` of a server process, from the request to the answer.

A search embeds the question with the bundled model, finds candidates by words and by vectors, fuses them and
reads the chunks of the results. The store is filled with random chunks (`bench/vector_search.py`), without
embedding them. The questions follow one another on one connection.
"""

import asyncio
import http.client
import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory
from typing import NamedTuple

from tests.postgres import PostgresServer
from tests.serving import Served, run_server

from antiphon.caller import OPERATOR
from antiphon.embeddings.minilm import MODEL_NAME
from bench.bounds import Row
from bench.procfs import resident_mb
from bench.vector_search import Data, fill

MAX_MS = {20_000: 10.0, 100_000: 30.0}
"""At the median, by chunks."""
MAX_SERVER_MB = 400
WARM_UP_QUERIES = 5
TIMEOUT_SECONDS = 120.0


class Timed(NamedTuple):
    """Milliseconds of the searches, and MB of the server alone at its peak and with its child processes."""

    first: float
    milliseconds: list[float]
    server_mb: float
    family_mb: float


def measure_search(sizes: Sequence[int], queries: int) -> Iterator[Row]:
    """The rows of stores of these sizes, on both databases."""
    with TemporaryDirectory() as folder, TemporaryDirectory() as server_folder:
        postgres = PostgresServer(Path(server_folder))
        try:
            for size in sizes:
                with postgres.database() as postgres_url:
                    urls = {"SQLite": f"sqlite:{folder}/{size}.db", "PostgreSQL": postgres_url}
                    for name, url in urls.items():
                        asyncio.run(fill(url, size, OPERATOR.tenant, MODEL_NAME))
                        with run_server(Path(folder), "--store", url, "--no-discovery") as server:
                            timed = _ask(server, size, queries)
                        yield from _rows(f"{name}, {size:,} chunks", size, timed)
        finally:
            postgres.stop()


def _rows(where: str, size: int, timed: Timed) -> Iterator[Row]:
    p95 = quantiles(timed.milliseconds, n=20)[-1]
    note = f"p95 {p95:.1f} ms; the first search after the start {timed.first:,.0f} ms"
    yield Row(
        f"{where}: p50 of a search", median(timed.milliseconds), "ms", bound=MAX_MS.get(size), note=note
    )
    note = f"{timed.family_mb:,.0f} MB with the process of the embedding model"
    yield Row(
        f"{where}: memory of the server", timed.server_mb, "MB", bound=MAX_SERVER_MB, digits=0, note=note
    )


def _ask(server: Served, size: int, queries: int) -> Timed:
    data = Data(3)
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=TIMEOUT_SECONDS)
    milliseconds: list[float] = []
    for _ in range(1 + WARM_UP_QUERIES + queries):
        body = json.dumps({"query": " ".join(data.question())})
        begun = time.perf_counter()
        connection.request(
            "POST", f"/v1/vector_stores/vs_{size}/search", body, {"content-type": "application/json"}
        )
        response = connection.getresponse()
        answer = response.read()
        milliseconds.append((time.perf_counter() - begun) * 1000)
        if response.status != 200 or not json.loads(answer)["data"]:
            raise RuntimeError(f"the search failed ({response.status}): {answer[:500]!r}")
    connection.close()
    family_mb = resident_mb(server.process.pid)
    return Timed(
        milliseconds[0], milliseconds[1 + WARM_UP_QUERIES :], _peak_mb(server.process.pid), family_mb
    )


def _peak_mb(pid: int) -> float:
    """The greatest resident memory of a process so far."""
    status = Path(f"/proc/{pid}/status").read_text()
    [line] = [line for line in status.splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1]) / 1024
