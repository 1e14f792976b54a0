"""The port of vector stores: their rows, files, batches and chunks, and the search for candidates.

A file of a store is added with its job (`INGESTION`) in one transaction. The job's work claims the file,
saves chunks with their vectors in portions, and completes or fails the file; portions of an earlier attempt
stay, so that the next one continues after them. Only chunks of completed files are found.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from msgspec import UNSET, Struct, UnsetType

from antiphon.embeddings.base import Vector
from antiphon.errors import InvalidRequest, NotFound
from antiphon.protocol.attribute_filters import Attribute, Filter
from antiphon.protocol.content import Metadata
from antiphon.protocol.vector_stores import Chunking, FileCounts, FileError, FileStatus
from antiphon.store.base import Job, Page

INGESTION = "ingestion"
"""The kind of job that adds a file; the id of a job is `store_id/file_id`."""


class VectorStore(Struct, frozen=True, kw_only=True):
    """A vector store. `model` and `dimensions` are those of all its vectors; 0: there are no vectors yet."""

    id: str
    name: str
    created_at: int
    last_active_at: int
    model: str
    dimensions: int = 0
    description: str | None = None
    expires_after_days: int | None = None
    metadata: Metadata = {}
    file_counts: FileCounts = FileCounts()
    usage_bytes: int = 0
    is_expired: bool = False


class VectorStoreChange(Struct, frozen=True, kw_only=True):
    """What is changed of a store; the rest stays."""

    name: str | UnsetType = UNSET
    expires_after_days: int | UnsetType | None = UNSET
    metadata: Metadata | UnsetType = UNSET


class VectorStoreFile(Struct, frozen=True, kw_only=True):
    """A file of a store. `batch` is the batch that it was added with."""

    id: str
    store_id: str
    filename: str
    created_at: int
    chunking: Chunking
    attributes: Mapping[str, Attribute] = {}
    status: FileStatus = "in_progress"
    error: FileError | None = None
    usage_bytes: int = 0
    batch: str | None = None


class FileBatch(Struct, frozen=True, kw_only=True):
    """Files that were added together."""

    id: str
    store_id: str
    created_at: int
    file_counts: FileCounts = FileCounts()
    is_cancelled: bool = False


class StoreQuota(Struct, frozen=True):
    """What one tenant may have: stores, files of one store, and bytes of all chunks with their vectors."""

    stores: int
    files: int
    bytes: int


class Chunk(Struct, frozen=True, kw_only=True):
    """A piece of a file. `terms` are the words that it is found by, repeated as often as they occur."""

    ordinal: int
    """The place among the chunks of its file, from 0."""
    text: str
    terms: Sequence[str]
    vector: Vector
    label: str = ""
    """The section that it begins in, such as ``page 3``."""


class ClaimedFile(Struct, frozen=True, kw_only=True):
    """A file whose chunks are to be saved, and how many of them an earlier attempt has saved."""

    file: VectorStoreFile
    model: str
    dimensions: int
    chunks_saved: int


class CandidateQuery(Struct, frozen=True, kw_only=True):
    """One query: words, a vector, or both. The filter is applied before anything is ranked."""

    terms: Sequence[str] = ()
    vector: Vector | None = None
    filter: Filter | None = None
    limit: int = 100
    """The most candidates by words, and the most by similarity."""


class Candidate(Struct, frozen=True, kw_only=True):
    """A chunk that is among the best by words or by similarity; both scores are given, whichever it was.

    `lexical` is its BM25 score among the chunks of its store (0: no common word), `similarity` the cosine of
    the angle between its vector and that of the query (0: the query has none).
    """

    file_id: str
    ordinal: int
    lexical: float
    similarity: float


class FoundChunk(Struct, frozen=True, kw_only=True):
    """A chunk with what a result shows of it."""

    file_id: str
    filename: str
    attributes: Mapping[str, Attribute]
    ordinal: int
    text: str
    label: str


class VectorStores(Protocol):
    """Vector stores of all tenants. Unknown, foreign and deleted ones raise the same `NotFound`."""

    async def add_store(
        self, tenant: str, store: VectorStore, files: Sequence[VectorStoreFile], quota: StoreQuota
    ) -> None:
        """Save a new store with its first files and their jobs."""
        ...

    async def store(self, tenant: str, store_id: str) -> VectorStore:
        """Return one store. One that has expired says so; its files are gone."""
        ...

    async def list_stores(self, tenant: str, page: Page) -> tuple[Sequence[VectorStore], bool]:
        """A part of the list, and whether more follows."""
        ...

    async def change_store(self, tenant: str, store_id: str, change: VectorStoreChange) -> VectorStore:
        """Change a store; it was used now. Raises `InvalidRequest` (`vector_store_expired`)."""
        ...

    async def use_store(self, tenant: str, store_id: str) -> None:
        """Record that the store was used now. Written at most once per minute and store."""
        ...

    async def delete_store(self, tenant: str, store_id: str) -> None:
        """Delete a store. Upkeep erases its chunks later; nobody finds them from now on."""
        ...

    async def add_files(
        self,
        tenant: str,
        files: Sequence[VectorStoreFile],
        quota: StoreQuota,
        batch: FileBatch | None = None,
    ) -> None:
        """Add files to one store, with their jobs, and the batch that they belong to.

        A file that the store has already is added anew: its chunks are not found from now on.
        Raises `InvalidRequest` (`vector_store_expired`) for an expired store.
        """
        ...

    async def store_file(self, tenant: str, store_id: str, file_id: str) -> VectorStoreFile:
        """Return one file of a store."""
        ...

    async def list_files(
        self,
        tenant: str,
        store_id: str,
        page: Page,
        *,
        status: FileStatus | None = None,
        batch: str | None = None,
    ) -> tuple[Sequence[VectorStoreFile], bool]:
        """A part of the list of files, and whether more follows."""
        ...

    async def set_attributes(
        self, tenant: str, store_id: str, file_id: str, attributes: Mapping[str, Attribute]
    ) -> VectorStoreFile:
        """Replace the attributes of a file."""
        ...

    async def delete_file(self, tenant: str, store_id: str, file_id: str) -> None:
        """Remove a file from a store, with its chunks and its job, in one transaction."""
        ...

    async def batch(self, tenant: str, store_id: str, batch_id: str) -> FileBatch:
        """Return one batch."""
        ...

    async def cancel_batch(self, tenant: str, store_id: str, batch_id: str) -> FileBatch:
        """Cancel the files of a batch that are in progress, with their jobs."""
        ...

    async def claim_file(self, job: Job) -> ClaimedFile | None:
        """The file of a claimed job; None if it has ended or is gone. Raises `Fenced`."""
        ...

    async def add_chunks(self, job: Job, chunks: Sequence[Chunk], quota: StoreQuota) -> None:
        """Save the next chunks of a claimed file. The first vector of a store decides its dimensions.

        Chunks that are saved already are ignored. Raises `Fenced`, also if the file was deleted or its batch
        cancelled, and `InvalidRequest` beyond the quota and for vectors of other dimensions.
        """
        ...

    async def report_delay(self, job: Job, error: FileError) -> None:
        """Record why a claimed file has to wait; it stays in progress, and shows the error until it goes on.
        Raises `Fenced`."""
        ...

    async def end_file(self, job: Job, error: FileError | None) -> None:
        """Complete a file, or fail it and give up its chunks; its job is done. Raises `Fenced`."""
        ...

    async def chunks(
        self, tenant: str, store_id: str, wanted: Sequence[tuple[str, int]]
    ) -> Sequence[FoundChunk]:
        """Chunks by file and ordinal; those that do not exist are left out."""
        ...

    async def content(
        self, tenant: str, store_id: str, file_id: str, after: int, limit: int
    ) -> Sequence[FoundChunk]:
        """Chunks of a completed file with ordinals from `after` on."""
        ...

    async def candidates(self, tenant: str, store_id: str, query: CandidateQuery) -> Sequence[Candidate]:
        """The best chunks by words and the best by similarity, without repetition, in no particular order.

        Raises `InvalidRequest` if the vector has other dimensions than those of the store, or if the store
        has expired, and `Unavailable` if packages or an extension of the database are missing.
        """
        ...

    async def begin_reindex(self, tenant: str, store_id: str, model: str) -> int:
        """Erase the vectors and chunks of a store, and add all its files anew for another model, with their
        jobs; how many files. Nothing of it is found until its job is done."""
        ...

    async def sweep_stores(self) -> int:
        """Mark expired stores, and erase a batch of what deleted and expired ones have left, and files that
        were removed, added anew, cancelled or failed; how much."""
        ...


def store_not_found(store_id: str) -> NotFound:
    """The same error for unknown, foreign and deleted stores."""
    message = f"Vector store with id '{store_id}' not found."
    return NotFound(message, param="vector_store_id", code="not_found")


def store_expired(store_id: str) -> InvalidRequest:
    """The error for the use of an expired store."""
    message = f"Vector store '{store_id}' has expired. Create another one and add the files again."
    return InvalidRequest(message, param="vector_store_id", code="vector_store_expired")


def store_file_not_found(file_id: str, store_id: str) -> NotFound:
    """The same error for files that are unknown, foreign, or not in this store."""
    message = f"No file found with id '{file_id}' in vector store '{store_id}'."
    return NotFound(message, param="file_id", code="not_found")


def batch_not_found(batch_id: str) -> NotFound:
    """The same error for unknown and foreign batches."""
    return NotFound(f"No file batch found with id '{batch_id}'.", param="batch_id", code="not_found")
