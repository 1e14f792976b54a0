"""Scripts of ingestion: a job claims its file, saves chunks with their vectors, and ends it."""

from collections.abc import Sequence
from typing import Protocol

from antiphon.embeddings.base import Vector
from antiphon.errors import AntiphonError, InvalidRequest, NotFound
from antiphon.protocol.vector_stores import FileError
from antiphon.store import chunk_scripts, jobs, vector_file_scripts, vector_store_scripts
from antiphon.store.base import Job
from antiphon.store.database import Script, Statement
from antiphon.store.vector_file_scripts import FileRow
from antiphon.store.vector_store_scripts import StoreRow
from antiphon.store.vector_stores import (
    INGESTION,
    Chunk,
    ClaimedFile,
    StoreQuota,
    store_file_not_found,
)

COMPONENT_BYTES = 4


class VectorWriter(Protocol):
    """How a database saves vectors."""

    def add(self, chunk_set: int, file_number: int, first: int, vectors: Sequence[Vector]) -> Script[None]:
        """Save the vectors of a portion that begins with the slot `first`."""
        ...


def claim(job: Job, now: int) -> Script[ClaimedFile | None]:
    """The file of a claimed job; None if it has ended."""
    yield from jobs.fence(job)
    try:
        row, found = yield from _lock(job, now)
    except (NotFound, InvalidRequest):
        return None
    if found.file.status != "in_progress":
        return None
    return ClaimedFile(
        file=found.file, model=row.store.model, dimensions=row.store.dimensions, chunks_saved=found.chunks
    )


def add_chunks(
    job: Job, chunks: Sequence[Chunk], quota: StoreQuota, writer: VectorWriter, now: int
) -> Script[None]:
    """Save the next chunks. Repeating it is harmless: the result of the first attempt may have got lost."""
    yield from jobs.fence(job)
    row, found = yield from _lock(job, now)
    store_id, _ = _split(job)
    chunks = [chunk for chunk in chunks if chunk.ordinal >= found.chunks]
    if not chunks:
        return
    if [chunk.ordinal for chunk in chunks] != list(range(found.chunks, found.chunks + len(chunks))):
        message = (
            f"File '{found.file.id}' has {found.chunks} chunks; the next one is not {chunks[0].ordinal}."
        )
        raise AntiphonError(message)
    yield from _check_dimensions(job, row, chunks)
    size = sum(len(chunk.text.encode("utf-8", "surrogatepass")) + len(chunk.vector) for chunk in chunks)
    first = yield from chunk_scripts.add(row.chunk_set, found.number, chunks)
    yield from writer.add(row.chunk_set, found.number, first, [chunk.vector for chunk in chunks])
    yield Statement("progress_vector_file", (job.tenant, store_id, found.file.id, len(chunks), size))
    yield from vector_store_scripts.count(job.tenant, store_id, {}, size, found=False)
    yield from jobs.progress(job.kind, job.tenant, job.id)
    yield from vector_store_scripts.charge(job.tenant, 0, size, quota)


def delay(job: Job, error: FileError, now: int) -> Script[None]:
    """Record why the file waits; the next chunks, or its end, take that away."""
    yield from jobs.fence(job)
    _, found = yield from _lock(job, now)
    if found.file.status == "in_progress":
        place = (job.tenant, *_split(job))
        yield Statement("end_vector_file", (*place, "in_progress", error.code, error.message))


def end(job: Job, error: FileError | None, now: int) -> Script[None]:
    """Complete or fail the file, and remove the job."""
    yield from jobs.fence(job)
    yield from jobs.remove(job.kind, [(job.tenant, job.id)])
    row, found = yield from _lock(job, now)
    if found.file.status == "in_progress":
        yield from vector_file_scripts.end(job.tenant, row, found, error)


def reindex(tenant: str, store_id: str, model: str, now: int) -> Script[int]:
    """Give a store an empty set of chunks for another model, and add its files anew; how many."""
    prefix = f"{store_id}/"
    yield Statement("delete_store_jobs", (INGESTION, tenant, prefix, len(prefix)))
    row = yield from vector_store_scripts.lock(tenant, store_id, now)
    [[chunk_set]] = yield Statement("add_chunk_set")
    yield Statement("erase_chunk_set", (row.chunk_set,))
    yield Statement("set_vector_model", (tenant, store_id, model, 0, chunk_set))
    return (yield from vector_file_scripts.restart(tenant, row))


def _lock(job: Job, now: int) -> Script[tuple[StoreRow, FileRow]]:
    """The store and the file of a job that is fenced."""
    store_id, file_id = _split(job)
    row = yield from vector_store_scripts.lock(job.tenant, store_id, now)
    return row, (yield from vector_file_scripts.find(job.tenant, store_id, file_id, now))


def _split(job: Job) -> tuple[str, str]:
    store_id, slash, file_id = job.id.partition("/")
    if not slash:
        raise store_file_not_found(job.id, job.id)
    return store_id, file_id


def _check_dimensions(job: Job, row: StoreRow, chunks: Sequence[Chunk]) -> Script[None]:
    """All vectors of a store have the dimensions of its first one."""
    store_id, _ = _split(job)
    dimensions = row.store.dimensions or len(chunks[0].vector) // COMPONENT_BYTES
    if not dimensions or any(len(chunk.vector) != dimensions * COMPONENT_BYTES for chunk in chunks):
        raise wrong_dimensions(store_id, dimensions)
    if not row.store.dimensions:
        yield Statement("set_vector_dimensions", (job.tenant, store_id, dimensions))


def wrong_dimensions(store_id: str, dimensions: int) -> InvalidRequest:
    """The error for vectors of another model."""
    message = (
        f"The vectors of vector store '{store_id}' have {dimensions} dimensions, and this one has another "
        "number. Use the embedding model that the store was made with, or reindex the store for the other."
    )
    return InvalidRequest(message, param="vector_store_id", code="vector_dimensions_mismatch")
