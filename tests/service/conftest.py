"""A service on a scripted backend, with a fixed clock and predictable ids."""

from collections.abc import AsyncGenerator, Callable
from itertools import count

import pytest

from antiphon.backends.scripted import ScriptedBackend
from antiphon.documents.reader import DEFAULT_LIMITS, DocumentReader
from antiphon.embeddings.hashed import HashedEmbedder
from antiphon.http.download import Downloader
from antiphon.http.egress import AllowPublic
from antiphon.isolated.pool import IsolatedPool
from antiphon.jobs.worker import Worker
from antiphon.protocol.ids import IdSource
from antiphon.retrieval.cutting import FileCutter
from antiphon.service.background import Background
from antiphon.service.checks import Checks
from antiphon.service.containers.api import ContainersApi
from antiphon.service.containers.containers import ContainerLimits, Containers
from antiphon.service.conversations import Conversations
from antiphon.service.embeddings import Embeddings
from antiphon.service.files.contents import Contents
from antiphon.service.files.files import Files
from antiphon.service.files.uploads import Uploads
from antiphon.service.responses.create import Creator, ResponseOptions, response_services
from antiphon.service.responses.file_texts import FileTexts
from antiphon.service.responses.input_tokens import TokenCount
from antiphon.service.routing.router import Route, Router
from antiphon.service.services import Services
from antiphon.service.stored import StoredResponses
from antiphon.service.vector_stores.files import StoreFiles
from antiphon.service.vector_stores.ingestion import Ingestion
from antiphon.service.vector_stores.search import Passages
from antiphon.service.vector_stores.stores import VectorStoreService
from antiphon.store.files import FileQuota
from antiphon.store.ports import Stores
from antiphon.store.signals import LocalSignals
from antiphon.store.sql_stores import sql_stores
from antiphon.store.sqlite import SqliteDatabase
from antiphon.store.vector_stores import StoreQuota
from antiphon.turn.sealing import SealKey
from tests.sandbox.memory_sandbox import MemorySandbox
from tests.sandbox.sandboxes import SMALL

MakeCreator = Callable[..., Creator]


@pytest.fixture
async def store() -> AsyncGenerator[Stores, None]:
    """A store in memory."""
    stores = sql_stores(await SqliteDatabase.open(None), LocalSignals(), lambda: 1000.0)
    yield stores
    await stores.aclose()


@pytest.fixture
async def make_creator(store: Stores) -> AsyncGenerator[MakeCreator, None]:
    """A creator with one backend for the model `m`, or with these routes; other fields and options as given."""

    pool = IsolatedPool()
    checks = Checks(pool)

    def make(*backends: ScriptedBackend, **fields: object) -> Creator:
        numbers = count(1)
        ids = IdSource(lambda: 1000.0, lambda size: next(numbers).to_bytes(size, "big"))
        routes = [Route("m", backend, priority=index) for index, backend in enumerate(backends)]
        chosen = {name: fields.pop(name) for name in ResponseOptions.__struct_fields__ if name in fields}
        defaults: dict[str, object] = {
            "router": Router(routes, chance=lambda: 0.5),
            "stores": store,
            "ids": ids,
            "clock": lambda: 1000.0,
            "seal_key": SealKey(b"secret", bytes),
            "checks": checks,
            "files": FileTexts(
                DocumentReader(pool), Downloader(AllowPublic(), 1000, 1.0), files_of(store, ids), 1000
            ),
            "options": ResponseOptions(**chosen),  # pyright: ignore[reportArgumentType] -- a test double's fields
        }
        return response_services(**{**defaults, **fields}).creator  # pyright: ignore[reportArgumentType]

    yield make
    await pool.aclose()


def files_of(store: Stores, ids: IdSource) -> Files:
    """The operations on files of these stores."""
    contents = Contents(store.files, store.blobs, FileQuota(1000, 10**9), ids.entropy)
    return Files(store.files, contents, ids, lambda: 1000.0)


def services_of(creator: Creator, background: Background | None = None) -> Services:
    """The services around a creator, with background runs in this process."""
    if background is None:
        background = Background(creator, Worker(creator.store.jobs, creator.store.signals, owner="test"))
    parts = creator.parts
    store = creator.store
    files = files_of(store, creator.ids)
    embeddings = Embeddings([HashedEmbedder()])
    return Services(
        creator=creator,
        compactor=parts.compactor,
        tokens=TokenCount(router=creator.router, contexts=parts.contexts, sent=parts.files.sent),
        router=creator.router,
        seal_key=parts.seal_key,
        store=creator.store,
        background=background,
        stored=StoredResponses(creator.store.responses, background),
        conversations=Conversations(
            creator.store.conversations, creator.ids, creator.clock, parts.seal_key, parts.contexts.checks
        ),
        files=files,
        uploads=Uploads(files),
        containers=ContainersApi(
            Containers(MemorySandbox(), files, creator.ids, creator.clock, ContainerLimits(sandbox=SMALL))
        ),
        vector_stores=_vector_stores(files, store, embeddings, background.jobs),
    )


def _vector_stores(files: Files, store: Stores, embeddings: Embeddings, jobs: Worker) -> VectorStoreService:
    quota = StoreQuota(stores=100, files=5000, bytes=10**8)
    rows, ids, clock = store.vector_stores, files.ids, files.clock
    cutter = FileCutter(DocumentReader(IsolatedPool(DEFAULT_LIMITS)))
    ingestion = Ingestion(rows, files.contents, cutter, embeddings, jobs, quota)
    return VectorStoreService(
        rows,
        StoreFiles(rows, store.files, ingestion, ids, clock, quota),
        Passages(rows, embeddings),
        embeddings,
        ids,
        clock,
        quota,
    )
