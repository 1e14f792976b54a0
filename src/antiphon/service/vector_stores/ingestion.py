"""Ingestion: a job per file reads it, cuts it into chunks, embeds them, and saves them portion by portion.

The row of the file is authoritative, and only the newest claim can write to it. Saved portions stay when a
process dies: the next attempt continues after them. A file that cannot be read fails, with the reason. While
the embedding model is out of reach, the file waits, and shows why in `last_error`.
"""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field

from antiphon.documents.document import Unreadable
from antiphon.documents.reader import check_size
from antiphon.embeddings.base import Vector
from antiphon.errors import (
    AntiphonError,
    BackendBusy,
    BackendPaused,
    BackendRefused,
    BackendTimeout,
    BackendUnreachable,
    InvalidRequest,
    NotFound,
    RequestError,
    StoreFull,
    TooManyRequests,
    Unavailable,
)
from antiphon.jobs.kinds import Kind
from antiphon.jobs.worker import Worker
from antiphon.protocol.vector_stores import FileError
from antiphon.retrieval.cutting import CutChunk, CutJob, FileCutter
from antiphon.service.embeddings import Embeddings
from antiphon.service.files.contents import Contents
from antiphon.service.vector_stores.models import NOT_SERVED, check_dimensions, model_of
from antiphon.store.base import Fenced, Job, Page
from antiphon.store.vector_stores import (
    INGESTION,
    Chunk,
    ClaimedFile,
    StoreQuota,
    VectorStoreFile,
    VectorStores,
)

logger = logging.getLogger(__name__)

MAX_ATTEMPTS = 5
"""Of a file whose processing raises unexpected errors, or during which the server dies."""
MAX_DELAYS = 2000
"""Attempts of a file while something is out of reach: about two days."""
PAUSES_SECONDS = (1.0, 2.0, 4.0, 8.0, 16.0, 30.0)
"""Between the calls of an embedding model that is out of reach. Then another file has its turn."""
LIST_PAGE_FILES = 100
_OUTAGES = (
    *(Unavailable, StoreFull, TooManyRequests),
    *(BackendUnreachable, BackendTimeout, BackendBusy, BackendPaused),
)
_OUTAGE_STATUSES = frozenset({401, 403, 404, 408, 429, 502, 503, 504})
"""Of an embedding upstream: it is misconfigured or overloaded, and the text is not the reason."""
_REFUSED_STATUSES = frozenset({400, 413, 422})
"""Of an embedding upstream that does not take the text."""


@dataclass(slots=True)
class Ingestion:
    """Adds files to vector stores, `concurrency` at a time in this process."""

    store: VectorStores
    contents: Contents
    cutter: FileCutter
    embeddings: Embeddings
    jobs: Worker
    quota: StoreQuota
    concurrency: int = 2
    per_tenant: int | None = None
    pauses_seconds: Sequence[float] = PAUSES_SECONDS
    _slots: asyncio.Semaphore = field(init=False)
    """A process that works on its own jobs alone starts all of them at once."""

    def __post_init__(self) -> None:
        self._slots = asyncio.Semaphore(self.concurrency)
        self.jobs.register(
            Kind(
                name=INGESTION,
                work=self.work,
                concurrency=self.concurrency,
                per_tenant=self.per_tenant,
                priority=1,
            )
        )

    async def start(self, tenant: str, files: Sequence[VectorStoreFile]) -> None:
        """Have the saved jobs of these files done."""
        await self.jobs.begin(INGESTION, tenant, [f"{file.store_id}/{file.id}" for file in files])

    async def start_unfinished(self, tenant: str, store_id: str) -> None:
        """The same for all files of a store that are in progress."""
        page, has_more = Page(limit=LIST_PAGE_FILES), True
        while has_more:
            files, has_more = await self.store.list_files(tenant, store_id, page, status="in_progress")
            await self.start(tenant, files)
            page = Page(limit=LIST_PAGE_FILES, after=files[-1].id if files else None)

    def stop(self) -> None:
        """Stop work on files that were removed or cancelled, wherever it is done."""
        self.jobs.stop_removed()

    async def work(self, job: Job) -> None:
        """The work of a job. Raises if it is to be tried again."""
        async with self._slots:
            try:
                claimed = await self.store.claim_file(job)
                if claimed is not None:
                    await self._attempt(job, claimed)
            except (Fenced, NotFound):
                return  # another process has it, or the file was removed from the store

    async def _attempt(self, job: Job, claimed: ClaimedFile) -> None:
        error = None
        try:
            if job.broken_off >= MAX_ATTEMPTS:
                raise Unreadable(
                    "invalid_file", f"The server died {job.broken_off} times while it read the file."
                )
            await self._add(job, claimed)
        except (Fenced, NotFound, asyncio.CancelledError):
            raise
        except Unreadable as fault:
            code = "invalid_file" if fault.code == "invalid_file" else "unsupported_file"
            error = FileError(code, fault.message)
        except Exception as raised:
            error = _final_error(job, raised)
            if error is None:
                raise
        if error is not None:
            logger.info("%s was not added: %s", job.id, error.message)
        await self.store.end_file(job, error)

    async def _add(self, job: Job, claimed: ClaimedFile) -> None:
        file = claimed.file
        wanted = CutJob(
            await self._content(job.tenant, file.id),
            file.filename,
            file.chunking.max_chunk_size_tokens,
            file.chunking.chunk_overlap_tokens,
            claimed.chunks_saved,
        )
        portions = await self.cutter.cut(job.tenant, wanted)
        del wanted  # the file is not held while the model works
        ordinal = claimed.chunks_saved
        for portion in portions:
            vectors = await self._embed(job, claimed, [each.chunk.embedded_text for each in portion])
            chunks = [
                _chunk(ordinal + place, *pair)
                for place, pair in enumerate(zip(portion, vectors, strict=True))
            ]
            await self.store.add_chunks(job, chunks, self.quota)
            ordinal += len(chunks)
        if not ordinal:
            raise Unreadable("invalid_file", "The file contains no text.")

    async def _content(self, tenant: str, file_id: str) -> bytes:
        try:
            file = await self.contents.store.file(tenant, file_id)
        except NotFound:
            raise Unreadable("invalid_file", "The file was deleted before it was read.") from None
        check_size(file.bytes)
        return b"".join([piece async for piece in self.contents.read(file.key, 0, file.bytes)])

    async def _embed(self, job: Job, claimed: ClaimedFile, texts: Sequence[str]) -> Sequence[Vector]:
        """The vectors of texts. Waits for a model that is out of reach."""
        store_id = claimed.file.store_id
        pauses = iter(self.pauses_seconds)
        while True:
            try:
                embedder = model_of(self.embeddings, claimed.model, store_id)
                vectors = (await embedder.embed(texts, tenant=job.tenant)).vectors
            except AntiphonError as error:
                if not _is_outage(error):
                    raise
                await self.store.report_delay(job, FileError("server_error", _delay(claimed.model, error)))
                pause = next(pauses, None)
                if pause is None:
                    raise
                await asyncio.sleep(pause)
            else:
                check_dimensions(len(vectors[0]) // 4, claimed.dimensions, claimed.model, store_id)
                return vectors


def _chunk(ordinal: int, cut: CutChunk, vector: Vector) -> Chunk:
    chunk = cut.chunk
    return Chunk(ordinal=ordinal, text=chunk.text, terms=cut.terms.split(), vector=vector, label=chunk.label)


def _final_error(job: Job, raised: Exception) -> FileError | None:
    """Why a file has failed for good; None: it is to be tried again."""
    if isinstance(raised, BackendRefused) and raised.status in _REFUSED_STATUSES:
        return FileError("server_error", f"The embedding model does not take the text: {raised.message}")
    if _is_outage(raised):
        if job.failures + 1 < MAX_DELAYS:
            return None
    elif isinstance(raised, RequestError):  # a quota, or a model that does not fit
        return FileError("server_error", raised.message)
    elif job.failures + 1 < MAX_ATTEMPTS:
        return None
    message = raised.message if isinstance(raised, AntiphonError) else "Internal error; see the server log."
    return FileError("server_error", message)


def _is_outage(error: Exception) -> bool:
    """Whether the file has to wait for something that is out of reach."""
    if isinstance(error, InvalidRequest):
        return error.code == NOT_SERVED
    if isinstance(error, BackendRefused):
        return error.status in _OUTAGE_STATUSES
    return isinstance(error, _OUTAGES)


def _delay(model: str, error: AntiphonError) -> str:
    return f"The file waits for the embedding model '{model}': {error.message}"
