"""Vector stores with real stores, jobs and child processes, and an embedding model that can be out of reach."""

import asyncio
import secrets
import time
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from antiphon.caller import Caller
from antiphon.documents.reader import DocumentReader
from antiphon.embeddings.base import Embedded, Input
from antiphon.embeddings.hashed import HashedEmbedder
from antiphon.isolated.pool import IsolatedPool, PoolLimits
from antiphon.jobs.worker import Worker
from antiphon.protocol.files import NewFile
from antiphon.protocol.ids import IdSource
from antiphon.protocol.vector_stores import NewBatch, NewStore, NewStoreFile
from antiphon.retrieval.cutting import FileCutter
from antiphon.service.embeddings import Embeddings
from antiphon.service.files.contents import Contents
from antiphon.service.files.files import Files
from antiphon.service.vector_stores.files import StoreFiles
from antiphon.service.vector_stores.ingestion import Ingestion
from antiphon.service.vector_stores.passages import Passage, PassageQuery
from antiphon.service.vector_stores.search import Passages
from antiphon.service.vector_stores.stores import VectorStoreService
from antiphon.store.files import FileQuota
from antiphon.store.ports import Stores
from antiphon.store.vector_stores import FileBatch, StoreQuota, VectorStore, VectorStoreFile

LIMITS = PoolLimits(processes=2, cpu_seconds=20, wall_seconds=60.0, memory_bytes=768 * 2**20)
QUOTA = StoreQuota(stores=20, files=50, bytes=10**8)
WAIT_SECONDS = 30.0
CALLER = Caller.of("owner")


class TestedEmbedder(HashedEmbedder):
    """Vectors of words. It raises the next of `errors` first, or waits while it is held."""

    __test__ = False

    def __init__(self, model: str = "hashed", dimensions: int = 64) -> None:
        super().__init__(model=model, dimensions=dimensions)
        self.errors: list[Exception] = []
        self.calls: list[Sequence[Input]] = []
        self.may_work = asyncio.Event()
        self.may_work.set()
        self.hold_after: int | None = None
        """The number of the call after which none returns."""

    async def embed(
        self, inputs: Sequence[Input], *, dimensions: int | None = None, tenant: str = ""
    ) -> Embedded:
        self.calls.append(inputs)
        if self.hold_after is not None and len(self.calls) > self.hold_after:
            self.may_work.clear()
        await self.may_work.wait()
        if self.errors:
            raise self.errors.pop(0)
        return await super().embed(inputs, dimensions=dimensions, tenant=tenant)


@dataclass(frozen=True)
class _Content:
    name: str
    data: bytes
    declared_bytes: int = 0

    async def content(self) -> AsyncIterable[bytes]:  # pyright: ignore[reportReturnType] -- a generator
        yield self.data

    def description(self) -> NewFile:
        return NewFile(filename=self.name, purpose="assistants", media_type="text/plain", lifetime=None)


@dataclass
class World:
    """The service, and shortcuts for its calls."""

    stores: Stores
    files: Files
    service: VectorStoreService
    embedder: TestedEmbedder
    embeddings: Embeddings
    worker: Worker
    caller: Caller = field(default=CALLER)

    async def new_file(self, data: bytes | str, name: str = "a.txt") -> str:
        content = data.encode() if isinstance(data, str) else data
        return (await self.files.create(self.caller, _Content(name, content))).id

    async def new_store(self, *texts: bytes | str, **members: Any) -> VectorStore:
        """A store with these texts, when all are added."""
        ids = [await self.new_file(text, f"{number}.txt") for number, text in enumerate(texts)]
        store = await self.service.create(self.caller, NewStore(file_ids=ids, **members))
        return await self.settled(store.id)

    async def add(
        self, store_id: str, data: bytes | str, name: str = "a.txt", **members: Any
    ) -> VectorStoreFile:
        """A file, when it is no longer in progress."""
        file_id = await self.new_file(data, name)
        await self.service.files.add(self.caller, store_id, NewStoreFile(file_id=file_id, **members))
        await self.settled(store_id)
        return await self.file(store_id, file_id)

    async def add_batch(self, store_id: str, *file_ids: str) -> FileBatch:
        new = NewBatch(tuple(NewStoreFile(file_id=each) for each in file_ids), "file_ids[{}]")
        return await self.service.files.add_batch(self.caller, store_id, new)

    async def file(self, store_id: str, file_id: str) -> VectorStoreFile:
        return await self.service.files.retrieve(self.caller, store_id, file_id)

    async def settled(self, store_id: str) -> VectorStore:
        """The store, when none of its files is in progress."""

        async def is_settled() -> VectorStore | None:
            store = await self.service.retrieve(self.caller, store_id)
            return None if store.file_counts.in_progress else store

        return await until(is_settled)

    async def search(self, store_id: str, *queries: str, **members: Any) -> Sequence[Passage]:
        query = PassageQuery(queries=queries, **members)
        return await self.service.search.search(self.caller.tenant, [store_id], query)


async def until(probe: Callable[[], Any]) -> Any:
    """The first result of the probe that is true."""
    async with asyncio.timeout(WAIT_SECONDS):
        while True:
            if found := await probe():
                return found
            await asyncio.sleep(0.02)


@asynccontextmanager
async def open_world(
    stores: Stores, *, quota: StoreQuota = QUOTA, **options: Any
) -> AsyncGenerator[World, None]:
    embedder = TestedEmbedder()
    embeddings = Embeddings([embedder])
    ids = IdSource(time.time, secrets.token_bytes)
    contents = Contents(stores.files, stores.blobs, FileQuota(1000, 10**9), secrets.token_bytes)
    files = Files(stores.files, contents, ids, time.time)
    worker = Worker(stores.jobs, stores.signals, owner=secrets.token_hex(4))
    pool = IsolatedPool(LIMITS)
    ingestion = Ingestion(
        stores.vector_stores, contents, FileCutter(DocumentReader(pool)), embeddings, worker, quota, **options
    )
    store_files = StoreFiles(stores.vector_stores, stores.files, ingestion, ids, time.time, quota)
    search = Passages(stores.vector_stores, embeddings)
    service = VectorStoreService(stores.vector_stores, store_files, search, embeddings, ids, time.time, quota)
    worker.adopt()
    try:
        yield World(stores, files, service, embedder, embeddings, worker)
    finally:
        await worker.aclose()
        await pool.aclose()
