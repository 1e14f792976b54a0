"""`VectorStores` on a SQL database: every call is one script, run as one transaction, except the search."""

from collections.abc import Mapping, Sequence

from antiphon.protocol.attribute_filters import Attribute
from antiphon.protocol.ids import Clock
from antiphon.protocol.vector_stores import FileError, FileStatus
from antiphon.store import (
    found_chunks,
    ingestion_scripts,
    upkeep,
    vector_file_scripts,
    vector_store_scripts,
)
from antiphon.store.base import Job, Page
from antiphon.store.database import Database
from antiphon.store.vector_search import CandidateSearch, VectorSearch
from antiphon.store.vector_stores import (
    Candidate,
    CandidateQuery,
    Chunk,
    ClaimedFile,
    FileBatch,
    FoundChunk,
    StoreQuota,
    VectorStore,
    VectorStoreChange,
    VectorStoreFile,
)


class SqlVectorStores:
    """See `VectorStores`. Calls that write many chunks or files are large: others need not wait for them."""

    def __init__(
        self, database: Database, vectors: VectorSearch, clock: Clock, search: CandidateSearch | None = None
    ) -> None:
        self._db = database
        self._vectors = vectors
        self._clock = clock
        self._search = search or CandidateSearch(database, vectors, clock)

    def _now(self) -> int:
        return int(self._clock())

    async def add_store(
        self, tenant: str, store: VectorStore, files: Sequence[VectorStoreFile], quota: StoreQuota
    ) -> None:
        """Save a new store with its first files and their jobs."""
        await self._vectors.prepare()
        await self._db.write(vector_file_scripts.add_store(tenant, store, files, quota, self._now()))

    async def store(self, tenant: str, store_id: str) -> VectorStore:
        """Return one store."""
        return (await self._db.read(vector_store_scripts.find(tenant, store_id, self._now()))).store

    async def list_stores(self, tenant: str, page: Page) -> tuple[Sequence[VectorStore], bool]:
        """A part of the list, and whether more follows."""
        return await self._db.read(vector_store_scripts.page(tenant, page, self._now()))

    async def change_store(self, tenant: str, store_id: str, change: VectorStoreChange) -> VectorStore:
        """Change a store."""
        return await self._db.write(vector_store_scripts.change(tenant, store_id, change, self._now()))

    async def use_store(self, tenant: str, store_id: str) -> None:
        """Record that the store was used now, unless that was recorded within the last minute."""
        now = self._now()
        store = await self.store(tenant, store_id)
        if not store.is_expired and now - store.last_active_at >= vector_store_scripts.USE_SECONDS:
            await self._db.write(vector_store_scripts.use(tenant, store_id, now), durable=False)

    async def delete_store(self, tenant: str, store_id: str) -> None:
        """Delete a store."""
        await self._db.write(vector_store_scripts.delete(tenant, store_id, self._now()))

    async def add_files(
        self,
        tenant: str,
        files: Sequence[VectorStoreFile],
        quota: StoreQuota,
        batch: FileBatch | None = None,
    ) -> None:
        """Add files to one store, with their jobs, and the batch that they belong to."""
        await self._vectors.prepare()
        store_id = files[0].store_id
        script = vector_file_scripts.add(tenant, store_id, files, quota, batch=batch, now=self._now())
        await self._db.write(script, large=True)

    async def store_file(self, tenant: str, store_id: str, file_id: str) -> VectorStoreFile:
        """Return one file of a store."""
        script = vector_file_scripts.find(tenant, store_id, file_id, self._now())
        return (await self._db.read(script)).file

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
        script = vector_file_scripts.page(
            tenant, store_id, page, status=status, batch_id=batch, now=self._now()
        )
        return await self._db.read(script)

    async def set_attributes(
        self, tenant: str, store_id: str, file_id: str, attributes: Mapping[str, Attribute]
    ) -> VectorStoreFile:
        """Replace the attributes of a file."""
        script = vector_file_scripts.set_attributes(tenant, store_id, file_id, attributes, self._now())
        return await self._db.write(script)

    async def delete_file(self, tenant: str, store_id: str, file_id: str) -> None:
        """Remove a file from a store."""
        await self._db.write(vector_file_scripts.delete(tenant, store_id, file_id, self._now()))

    async def batch(self, tenant: str, store_id: str, batch_id: str) -> FileBatch:
        """Return one batch."""
        return await self._db.read(vector_file_scripts.batch(tenant, store_id, batch_id, self._now()))

    async def cancel_batch(self, tenant: str, store_id: str, batch_id: str) -> FileBatch:
        """Cancel the files of a batch that are in progress."""
        script = vector_file_scripts.cancel(tenant, store_id, batch_id, self._now())
        return await self._db.write(script, large=True)

    async def claim_file(self, job: Job) -> ClaimedFile | None:
        """The file of a claimed job."""
        return await self._db.write(ingestion_scripts.claim(job, self._now()), durable=False)

    async def add_chunks(self, job: Job, chunks: Sequence[Chunk], quota: StoreQuota) -> None:
        """Save the next chunks of a claimed file."""
        await self._vectors.prepare()
        script = ingestion_scripts.add_chunks(job, chunks, quota, self._vectors, self._now())
        await self._db.write(script, large=True)

    async def report_delay(self, job: Job, error: FileError) -> None:
        """Record why a claimed file has to wait."""
        await self._db.write(ingestion_scripts.delay(job, error, self._now()), durable=False)

    async def end_file(self, job: Job, error: FileError | None) -> None:
        """Complete a file, or fail it and give up its chunks."""
        await self._db.write(ingestion_scripts.end(job, error, self._now()))

    async def chunks(
        self, tenant: str, store_id: str, wanted: Sequence[tuple[str, int]]
    ) -> Sequence[FoundChunk]:
        """Chunks by file and ordinal."""
        return await self._db.read(found_chunks.listed(tenant, store_id, wanted, self._now()))

    async def content(
        self, tenant: str, store_id: str, file_id: str, after: int, limit: int
    ) -> Sequence[FoundChunk]:
        """Chunks of a completed file."""
        script = found_chunks.content(tenant, store_id, file_id, after, limit, now=self._now())
        return await self._db.read(script)

    async def candidates(self, tenant: str, store_id: str, query: CandidateQuery) -> Sequence[Candidate]:
        """The best chunks by words and the best by similarity."""
        await self._vectors.prepare()
        return await self._search.candidates(tenant, store_id, query)

    async def begin_reindex(self, tenant: str, store_id: str, model: str) -> int:
        """Add all files of a store anew for another model."""
        await self._vectors.prepare()
        script = ingestion_scripts.reindex(tenant, store_id, model, self._now())
        return await self._db.write(script, large=True)

    async def sweep_stores(self) -> int:
        """Erase a batch of what files and stores have left."""
        script = upkeep.sweep_vector_stores(self._now())
        return await self._db.write(script, durable=False, large=True)
