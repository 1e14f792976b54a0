"""Vector stores from the settings."""

import time
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import NamedTuple

from antiphon.documents.reader import DocumentReader
from antiphon.errors import SettingsError
from antiphon.isolated.pool import IsolatedPool, PoolLimits
from antiphon.jobs.worker import Worker
from antiphon.retrieval.cutting import FileCutter
from antiphon.retrieval.reranking import UpstreamReranker
from antiphon.service.embeddings import Embeddings
from antiphon.service.files.files import Files
from antiphon.service.vector_stores.files import StoreFiles
from antiphon.service.vector_stores.ingestion import Ingestion
from antiphon.service.vector_stores.search import Passages
from antiphon.service.vector_stores.stores import VectorStoreService
from antiphon.settings import Settings
from antiphon.store.ports import Stores
from antiphon.store.vector_stores import StoreQuota
from antiphon.wiring.backends import make_endpoint
from antiphon.wiring.embeddings import make_json_client, open_embedders
from antiphon.wiring.files import make_files
from antiphon.wiring.sources import make_ids
from antiphon.wiring.stores import open_stores
from antiphon.wiring.workers import make_worker

CUTTING_SHARE = 3
"""A file that is read, cut and indexed may take so many times the limits of one that is only read."""


class OpenVectorStores(NamedTuple):
    """Vector stores, their files, and the worker that adds files to them when it adopts jobs."""

    stores: VectorStoreService
    files: Files
    jobs: Worker


@asynccontextmanager
async def open_vector_stores(settings: Settings) -> AsyncGenerator[OpenVectorStores, None]:
    """The operations on vector stores alone, for as long as the context lasts."""
    async with open_embedders(settings) as embedders, AsyncExitStack() as stack:
        opened = await stack.enter_async_context(open_stores(settings))
        files = make_files(settings, opened, make_ids())
        jobs = make_worker(settings, opened)
        passages = make_passages(settings, opened, embedders.embeddings, stack)
        stores = make_vector_stores(
            settings, stores=opened, files=files, passages=passages, jobs=jobs, stack=stack
        )
        stack.push_async_callback(jobs.aclose)
        yield OpenVectorStores(stores, files, jobs)


def make_passages(
    settings: Settings, stores: Stores, embeddings: Embeddings, stack: AsyncExitStack
) -> Passages:
    """The search over vector stores, with the reranker of the settings."""
    model = settings.vector_stores.reranker
    if not model:
        return Passages(stores.vector_stores, embeddings)
    row = next((row for row in settings.upstreams if model in row.rerank_models), None)
    if row is None:
        raise SettingsError(
            f"vector_stores.reranker: no upstream has the model '{model}'. Name it in its rerank_models."
        )
    client = make_json_client(make_endpoint(row, settings.server.heartbeat))
    reranker = UpstreamReranker(client, model)
    stack.push_async_callback(reranker.aclose)
    return Passages(stores.vector_stores, embeddings, reranker)


def make_vector_stores(
    settings: Settings,
    *,
    stores: Stores,
    files: Files,
    passages: Passages,
    jobs: Worker,
    stack: AsyncExitStack,
) -> VectorStoreService:
    """The operations on vector stores; the worker gets the kind of job that adds files to them."""
    options, documents = settings.vector_stores, settings.documents
    pool = IsolatedPool(
        PoolLimits(
            processes=options.concurrency,
            cpu_seconds=documents.cpu_seconds * CUTTING_SHARE,
            wall_seconds=documents.wall_seconds * CUTTING_SHARE,
            memory_bytes=documents.memory_mb * 2**20,
        )
    )
    stack.push_async_callback(pool.aclose)
    quota = StoreQuota(options.max_stores, options.max_files, options.max_bytes)
    ingestion = Ingestion(
        stores.vector_stores,
        files.contents,
        FileCutter(DocumentReader(pool)),
        passages.embeddings,
        jobs,
        quota,
        options.concurrency,
        options.per_tenant,
    )
    return VectorStoreService(
        stores.vector_stores,
        StoreFiles(stores.vector_stores, files.store, ingestion, files.ids, time.time, quota),
        passages,
        passages.embeddings,
        files.ids,
        time.time,
        quota,
    )
