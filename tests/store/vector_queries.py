"""Random stores and queries, and the definition of the scores of their candidates."""

import math
import random
import struct
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from antiphon.protocol.attribute_filters import Attribute, Comparison, Filter, matcher
from antiphon.store.chunk_words import COUNT_LEVELS
from antiphon.store.ports import Stores
from antiphon.store.postgres_vectors import PostgresVectors
from antiphon.store.signals import LocalSignals
from antiphon.store.sql_stores import sql_stores
from antiphon.store.sql_vector_stores import SqlVectorStores
from antiphon.store.sqlite_vectors import SqliteVectors
from antiphon.store.vector_search import CandidateSearch
from antiphon.store.vector_stores import CandidateQuery, Chunk
from tests.store.conftest import Clock, Opened
from tests.store.vector_values import (
    QUOTA,
    a_chunk,
    a_file,
    a_store,
    claim,
    ingest,
)

WORDS = [f"word{number}" for number in range(30)]
Place = tuple[str, int]


def bm25(chunks: Mapping[Place, Chunk], terms: Sequence[str]) -> dict[Place, float]:
    """The definition, with rounded counts."""
    mean = sum(len(chunk.terms) for chunk in chunks.values()) / len(chunks)
    counted = {place: Counter(chunk.terms) for place, chunk in chunks.items()}
    scores = dict.fromkeys(chunks, 0.0)
    for term in dict.fromkeys(terms):
        found = sum(term in counts for counts in counted.values())
        weight = math.log(1 + (len(chunks) - found + 0.5) / (found + 0.5))
        for place, counts in counted.items():
            if term in counts:
                count = max(level for level in COUNT_LEVELS if level <= counts[term])
                norm = 1.2 * (0.25 + 0.75 * len(chunks[place].terms) / mean)
                scores[place] += weight * count * 2.2 / (count + norm)
    return scores


def cosine(one: bytes, other: bytes) -> float:
    first, second = (struct.unpack(f"<{len(each) // 4}f", each) for each in (one, other))
    dot = sum(a * b for a, b in zip(first, second, strict=True))
    return dot / (math.hypot(*first) * math.hypot(*second))


def random_vector(source: random.Random, dimensions: int = 8) -> bytes:
    return struct.pack(f"<{dimensions}f", *(source.gauss(0, 1) for _ in range(dimensions)))


async def fill(store: Stores, source: random.Random, files: int, dimensions: int = 8) -> dict[Place, Chunk]:
    """A store with random chunks, and two neighbours that must not matter."""
    stores, chunks = store.vector_stores, dict[Place, Chunk]()
    await stores.add_store("t", a_store(), [], QUOTA)
    for tenant, number in (("t", 2), ("other", 1)):
        await stores.add_store(tenant, a_store(number), [], QUOTA)
        noise = [a_chunk(place, " ".join(WORDS), random_vector(source, dimensions)) for place in range(5)]
        await ingest(store, a_file(1, number), noise, tenant)
    for number in range(1, files + 1):
        texts = [
            " ".join(source.choices(WORDS, k=source.randint(1, 40))) for _ in range(source.randint(1, 6))
        ]
        made = [a_chunk(place, text, random_vector(source, dimensions)) for place, text in enumerate(texts)]
        file = a_file(number, attributes={"number": number, "even": number % 2 == 0})
        await ingest(store, file, made)
        chunks |= {(file.id, chunk.ordinal): chunk for chunk in made}
    for number in source.sample(range(1, files + 1), files // 4):
        file_id = a_file(number).id
        await stores.delete_file("t", "vs_1", file_id)
        chunks = {place: chunk for place, chunk in chunks.items() if place[0] != file_id}
    await stores.add_files("t", [a_file(files + 1)], QUOTA)  # never completed
    [job] = await claim(store)
    await stores.add_chunks(job, [a_chunk(0, " ".join(WORDS), random_vector(source, dimensions))], QUOTA)
    return chunks


async def check_random_queries(store: Stores, chunks: dict[Place, Chunk], source: random.Random) -> None:
    """Compare the candidates of random queries with the definition of both scores."""
    dimensions = len(next(iter(chunks.values())).vector) // 4
    for _ in range(20):
        terms, vector = source.choices(WORDS, k=3), random_vector(source, dimensions)
        wanted: Filter | None = source.choice(
            [None, Comparison("eq", "even", True), Comparison("gt", "number", 4)]
        )
        query = CandidateQuery(terms=terms, vector=vector, filter=wanted, limit=5)
        found = await store.vector_stores.candidates("t", "vs_1", query)
        lexical = bm25(chunks, terms)
        similar = {place: cosine(chunk.vector, vector) for place, chunk in chunks.items()}
        admitted = [place for place in chunks if wanted is None or matcher(wanted)(attributes_of(place))]
        for each in found:
            place = (each.file_id, each.ordinal)
            assert place in admitted
            assert each.lexical == pytest.approx(lexical[place], rel=1e-4, abs=1e-6)
            assert each.similarity == pytest.approx(similar[place], abs=1e-5)
        best_words = sorted((lexical[place] for place in admitted if lexical[place] > 0), reverse=True)[:5]
        best_similar = sorted((similar[place] for place in admitted), reverse=True)[:5]
        assert top([each.lexical for each in found], len(best_words)) == pytest.approx(best_words, rel=1e-4)
        assert top([each.similarity for each in found], 5) == pytest.approx(best_similar, abs=1e-5)
        assert len({(each.file_id, each.ordinal) for each in found}) == len(found) <= 10


def top(scores: Sequence[float], count: int) -> list[float]:
    return sorted(scores, reverse=True)[:count]


def attributes_of(place: Place) -> dict[str, Attribute]:
    number = int(place[0][-4:])
    return {"number": number, "even": number % 2 == 0}


async def no_count(_table: str) -> int:
    raise AssertionError


def with_bound(opened: Opened, clock: Clock, max_bytes: int) -> tuple[Stores, CandidateSearch]:
    """The stores, with a search that keeps so many bytes."""
    database = opened.database
    vectors = (SqliteVectors if database.dialect == "sqlite" else PostgresVectors)(database)
    bounded = CandidateSearch(database, vectors, clock, max_bytes)
    vector_stores = SqlVectorStores(database, vectors, clock, bounded)
    return replace(sql_stores(database, LocalSignals(), clock), vector_stores=vector_stores), bounded
