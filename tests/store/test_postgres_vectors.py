"""What PostgreSQL alone does with vectors: the graph, stores without room, former tables, no extension."""

import random
from typing import Any

import pytest

from antiphon.errors import Unavailable
from antiphon.store import postgres_vectors
from antiphon.store.database import Database, Script
from antiphon.store.postgres import PostgresDatabase
from antiphon.store.signals import LocalSignals
from antiphon.store.sql_stores import sql_stores
from antiphon.store.vector_stores import CandidateQuery
from tests.postgres import PostgresServer
from tests.store.conftest import VECTOR_TABLES, Clock, Opened
from tests.store.vector_queries import check_random_queries, fill, no_count, with_bound
from tests.store.vector_values import (
    QUOTA,
    a_chunk,
    a_file,
    a_store,
    angle,
    ingest,
    search,
    sweep,
)

pytest.importorskip("numpy", reason="antiphon[retrieval] is missing")


@pytest.mark.slow
async def test_the_graph_of_postgresql_finds_the_nearest(
    postgres: PostgresServer, postgres_url: str, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_vectors, "MIN_GRAPH_BYTES", 384 * 4 * 40)
    used: list[str] = []
    database = await PostgresDatabase.open(postgres_url)
    read = database.read

    def traced(script: Script[Any]) -> Script[Any]:
        statement = next(script)
        while True:
            used.append(statement.name)
            rows = yield statement
            try:
                statement = script.send(rows)
            except StopIteration as end:
                return end.value

    async def traced_read(script: Script[Any]) -> Any:
        return await read(traced(script))

    monkeypatch.setattr(database, "read", traced_read)
    postgres.execute(f"TRUNCATE {VECTOR_TABLES}, jobs", postgres_url)
    store, _ = with_bound(Opened(database, no_count), clock, 0)
    source = random.Random(5)
    chunks = await fill(store, source, 30, 384)
    await check_random_queries(store, chunks, source)
    assert "nearest_by_graph_384" in used
    assert "nearest_outside_graph" in used
    assert "nearest_in_files" in used
    await database.aclose()


@pytest.mark.slow
async def test_a_small_store_whose_files_are_replaced_stays_outside_of_the_graph(
    postgres: PostgresServer, postgres_url: str, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Slots are given once, so that theirs say nothing about the size of the store."""
    monkeypatch.setattr(postgres_vectors, "MIN_GRAPH_BYTES", 384 * 4 * 20)
    postgres.execute(f"TRUNCATE {VECTOR_TABLES}, jobs", postgres_url)
    database = await PostgresDatabase.open(postgres_url)
    store = sql_stores(database, LocalSignals(), clock)
    await store.vector_stores.add_store("t", a_store(), [], QUOTA)
    chunks = [a_chunk(place, "text", angle(place) + bytes(4 * 382)) for place in range(6)]
    in_graph = "SELECT count(*) FROM chunk_vectors WHERE in_graph"
    for number in range(1, 9):
        await ingest(store, a_file(number), chunks)
        await store.vector_stores.delete_file("t", "vs_1", a_file(number).id)
        await sweep(store)
    assert postgres.execute(in_graph, postgres_url) == "0"
    for number in range(9, 15):
        await ingest(store, a_file(number), chunks)
    assert postgres.execute(in_graph, postgres_url) == "12"
    await database.aclose()


@pytest.mark.slow
async def test_a_large_store_displaces_no_other_on_postgresql(
    postgres: PostgresServer, postgres_url: str, clock: Clock
) -> None:
    postgres.execute(f"TRUNCATE {VECTOR_TABLES}, jobs", postgres_url)
    database = await PostgresDatabase.open(postgres_url)
    store, bounded = with_bound(Opened(database, no_count), clock, 40_000)
    held: list[int] = []
    for number in (1, 2):
        await store.vector_stores.add_store("t", a_store(number), [], QUOTA)
        vectors = [a_chunk(place, "text", angle(place) + bytes(4 * 382)) for place in range(16)]
        await ingest(store, a_file(1, number), vectors)
        query = CandidateQuery(vector=angle(3) + bytes(4 * 382), limit=1)
        [found] = await store.vector_stores.candidates("t", f"vs_{number}", query)
        assert (found.ordinal, found.similarity) == (3, pytest.approx(1.0))
        held.append(bounded.memory_bytes)
    assert held[1] - held[0] < 16 * 384 * 4 < held[0]
    await database.aclose()


@pytest.mark.slow
async def test_the_first_form_of_the_table_of_vectors_is_migrated(
    postgres: PostgresServer, clock: Clock
) -> None:
    with postgres.database() as url:
        database = await PostgresDatabase.open(url)
        store = sql_stores(database, LocalSignals(), clock)
        await store.vector_stores.add_store("t", a_store(), [], QUOTA)
        await ingest(store, a_file(1), [a_chunk(0, "text", 10)])
        await database.aclose()
        former = (
            "ALTER TABLE chunk_vectors DROP COLUMN in_graph CASCADE; CREATE INDEX chunk_vectors_384 ON "
            "chunk_vectors USING hnsw ((vector::vector(384)) vector_ip_ops) WHERE vector_dims(vector) = 384"
        )
        postgres.execute(former, url)
        for _ in range(2):
            database = await PostgresDatabase.open(url)
            store = sql_stores(database, LocalSignals(), clock)
            [found] = await search(store, "text", vector=angle(10))
            assert found.similarity == pytest.approx(1.0)
            await database.aclose()
        names = "SELECT indexname FROM pg_indexes WHERE tablename = 'chunk_vectors' AND indexname ~ '384'"
        assert postgres.execute(names, url) == "chunk_graph_384"


@pytest.mark.slow
async def test_postgresql_without_the_extension_serves_all_else(
    postgres: PostgresServer, clock: Clock
) -> None:
    with postgres.database() as url:
        postgres.execute("DROP ROLE IF EXISTS plain", url)
        postgres.execute("CREATE ROLE plain LOGIN", url)
        postgres.execute("GRANT ALL ON SCHEMA public TO plain", url)
        database: Database = await PostgresDatabase.open(url.replace("postgres@", "plain@"))
        store = sql_stores(database, LocalSignals(), clock)
        assert await store.upkeep.sweep() == 0
        for call in (store.vector_stores.add_store("t", a_store(), [], QUOTA), search(store, "a")):
            with pytest.raises(Unavailable, match="CREATE EXTENSION vector") as refused:
                await call
            assert refused.value.code == "vector_extension_missing"
        await database.aclose()
        postgres.execute("CREATE EXTENSION vector", url)
        database = await PostgresDatabase.open(url.replace("postgres@", "plain@"))
        store = sql_stores(database, LocalSignals(), clock)
        await store.vector_stores.add_store("t", a_store(), [], QUOTA)
        await database.aclose()
