"""Values for the tests of vector stores."""

import math
import struct
from collections.abc import Sequence

import pytest

from antiphon.protocol.attribute_filters import Attribute
from antiphon.protocol.vector_stores import Chunking, FileError
from antiphon.store.base import Job, JobLimit
from antiphon.store.ports import Stores
from antiphon.store.vector_stores import (
    INGESTION,
    Candidate,
    CandidateQuery,
    Chunk,
    FileBatch,
    StoreQuota,
    VectorStore,
    VectorStoreFile,
)

QUOTA = StoreQuota(10, 5000, 100_000_000)
BROKEN = FileError("invalid_file", "It has no text.")


def a_store(number: int = 1, **members: object) -> VectorStore:
    values: dict[str, object] = {
        "id": f"vs_{number}",
        "name": "handbook",
        "created_at": 1000,
        "last_active_at": 1000,
        "model": "m",
        **members,
    }
    return VectorStore(**values)  # pyright: ignore[reportArgumentType]


def a_file(
    number: int, store: int = 1, attributes: dict[str, Attribute] | None = None, batch: str | None = None
) -> VectorStoreFile:
    return VectorStoreFile(
        id=f"file-{number:04}",
        store_id=f"vs_{store}",
        filename=f"{number}.txt",
        created_at=1000,
        chunking=Chunking(800, 400),
        attributes=attributes or {},
        batch=batch,
    )


def a_batch(number: int = 1, store: int = 1) -> FileBatch:
    return FileBatch(id=f"vsfb_{number}", store_id=f"vs_{store}", created_at=1000)


def vector(*components: float) -> bytes:
    return struct.pack(f"<{len(components)}f", *components)


def angle(degrees: float) -> bytes:
    """A vector with this angle to `vector(1, 0)`."""
    return vector(math.cos(math.radians(degrees)), math.sin(math.radians(degrees)))


def a_chunk(ordinal: int, text: str, at: bytes | float = 0.0) -> Chunk:
    """A chunk whose terms are the words of its text."""
    where = at if isinstance(at, bytes) else angle(at)
    return Chunk(ordinal=ordinal, text=text, terms=text.split(), vector=where, label=f"page {ordinal + 1}")


async def claim(store: Stores, owner: str = "o", free: int = 1) -> list[Job]:
    await store.jobs.beat(owner)
    return [*await store.jobs.claim(owner, [JobLimit(INGESTION, free)])]


async def ingest(store: Stores, file: VectorStoreFile, chunks: Sequence[Chunk], tenant: str = "t") -> None:
    """Add a file to a store that exists, with its chunks."""
    await store.vector_stores.add_files(tenant, [file], QUOTA)
    await complete(store, file, chunks, tenant)


async def complete(store: Stores, file: VectorStoreFile, chunks: Sequence[Chunk], tenant: str = "t") -> None:
    await store.jobs.beat("o")
    job = await store.jobs.claim_one("o", INGESTION, tenant, f"{file.store_id}/{file.id}", 60.0)
    assert job is not None
    if chunks:
        await store.vector_stores.add_chunks(job, chunks, QUOTA)
    await store.vector_stores.end_file(job, None)


async def search(store: Stores, words: str = "", tenant: str = "t", **members: object) -> list[Candidate]:
    """Candidates, best by words first, then by similarity. Skips the test where numpy is missing."""
    pytest.importorskip("numpy", reason="antiphon[retrieval] is missing")
    query = CandidateQuery(terms=words.split(), **members)  # pyright: ignore[reportArgumentType]
    found = await store.vector_stores.candidates(tenant, "vs_1", query)
    return sorted(found, key=lambda each: (-each.lexical, -each.similarity))


def places(found: Sequence[Candidate]) -> list[tuple[str, int]]:
    return [(each.file_id, each.ordinal) for each in found]


async def sweep(store: Stores) -> None:
    """Run upkeep until there is nothing to do."""
    while await store.upkeep.sweep():
        pass
