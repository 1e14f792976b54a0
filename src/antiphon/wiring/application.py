"""The services, and the application around them."""

import asyncio
import hmac
import logging
import os
import random
import secrets
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from antiphon.documents.reader import MAX_FILE_BYTES, DocumentReader
from antiphon.errors import SettingsError
from antiphon.http.download import Downloader
from antiphon.http.egress import AllowPublic
from antiphon.isolated.pool import IsolatedPool, PoolLimits
from antiphon.known_secrets import KNOWN_SECRETS, url_password
from antiphon.orchestrator.agent import AgentServices
from antiphon.orchestrator.agent_runs import AgentRuns
from antiphon.protocol.profile import OPENAI
from antiphon.server.app import App, AppOptions, Served
from antiphon.server.auth import Keys
from antiphon.server.descriptors import raise_limit, watch_descriptors
from antiphon.server.guard import HostGuard
from antiphon.server.websocket.connection import WebSocketLimits
from antiphon.service.background import Background
from antiphon.service.checks import Checks
from antiphon.service.containers.api import ContainersApi
from antiphon.service.conversations import Conversations
from antiphon.service.files.files import Files
from antiphon.service.files.upkeep import start_object_upkeep
from antiphon.service.files.uploads import Uploads
from antiphon.service.hosted_tools.base import ServedTool
from antiphon.service.responses.create import ResponseOptions, response_services
from antiphon.service.responses.file_room import SentContent
from antiphon.service.responses.file_texts import FileTexts
from antiphon.service.responses.finish import Retention
from antiphon.service.responses.history_room import HistoryLimits
from antiphon.service.responses.record import TracePolicy
from antiphon.service.routing.circuits import HealthPolicy
from antiphon.service.routing.names import Names
from antiphon.service.routing.router import Route, Router
from antiphon.service.services import Services
from antiphon.service.stored import StoredResponses
from antiphon.service.upkeep import start_upkeep
from antiphon.settings import LOOPBACK, Settings, effective_settings, no_keys
from antiphon.turn.answer_limit import AnswerBounds
from antiphon.turn.sealing import SealKey
from antiphon.wiring.agent import make_store_retriever, open_agent, serve_agent
from antiphon.wiring.conformance import run_checks
from antiphon.wiring.embeddings import EmbedderSet, open_embedders
from antiphon.wiring.files import make_files
from antiphon.wiring.folders import data_folder, seal_secret
from antiphon.wiring.hosted_tools import hosted_limits, make_served_tools, open_containers
from antiphon.wiring.live import LiveRoutes, health_policy, routed_names
from antiphon.wiring.mcp import open_mcp
from antiphon.wiring.profiles import make_profiles
from antiphon.wiring.sources import key_pepper, make_ids
from antiphon.wiring.stores import open_stores
from antiphon.wiring.vector_stores import make_passages, make_vector_stores
from antiphon.wiring.workers import make_worker

logger = logging.getLogger(__name__)

DAY_SECONDS = 24 * 3600
UPKEEP_RETRY_SECONDS = 5.0
MIN_CHILD_BYTES = 64 * 1024 * 1024
"""An ordinary grammar needs this."""
"""Time before failed upkeep is started again."""


@asynccontextmanager
async def open_services(
    settings: Settings, routes: Sequence[Route] | None = None
) -> AsyncGenerator[Services, None]:
    """The services, for as long as the context lasts. `routes` replaces the configured ones."""
    async with open_embedders(settings) as embedders, _open(settings, routes, embedders) as services:
        yield services


@asynccontextmanager
async def open_agents(
    settings: Settings, routes: Sequence[Route] | None = None, live: LiveRoutes | None = None
) -> AsyncGenerator[Served, None]:
    """The services and the agent on top of them, for as long as the context lasts."""
    bound = settings.agent.vector_store
    indexed = msgspec.structs.replace(settings.agent, documents=()) if bound else settings.agent
    async with (
        open_embedders(settings) as embedders,
        open_agent(indexed, embedders) as agent,
        _open(settings, routes, embedders, live) as services,
        AsyncExitStack() as stack,
    ):
        creator, background = services.creator, services.background
        served = serve_agent(agent, services)
        if bound:
            retriever = make_store_retriever(settings.agent, services)
            served = serve_agent(replace(agent, retriever=retriever), services)
            _run(stack, retriever.sync.run)
        runs = AgentRuns(
            store=services.store.agent_runs,
            jobs=background.jobs,
            signals=services.store.signals,
            ids=creator.ids,
            clock=creator.clock,
            perform=served.perform_run,
            cancel_turn=served.cancel_turn,
            seal=lambda tenant, body: services.seal_key.sealer(tenant).seal_request(body),
            unseal=lambda tenant, body: services.seal_key.sealer(tenant).open_request(body),
            lifetime=creator.retention.lifetime_seconds,
        )
        yield Served(services, AgentServices(agent=served, runs=runs))


@asynccontextmanager
async def _open(
    settings: Settings,
    routes: Sequence[Route] | None,
    embedders: EmbedderSet,
    live: LiveRoutes | None = None,
) -> AsyncGenerator[Services, None]:
    KNOWN_SECRETS.add(settings.seal.key, *settings.server.api_keys, url_password(settings.store.url))
    async with AsyncExitStack() as stack:
        live = live or LiveRoutes(settings)
        stores = await stack.enter_async_context(open_stores(settings))
        names = routed_names(settings)
        if routes is None:
            stack.push_async_callback(live.aclose)
            routes, names = live.open()
        router = _make_router(names, routes, health_policy(settings))
        live.attach(router, embedders)
        seal_key = SealKey(seal_secret(settings, data_folder()), secrets.token_bytes, block=256)
        pool = IsolatedPool(pool_limits(settings))
        stack.push_async_callback(pool.aclose)
        checks = Checks(pool)
        ids = make_ids()
        files = make_files(settings, stores, ids)
        passages = make_passages(settings, stores, embedders.embeddings, stack)
        mcp = await stack.enter_async_context(open_mcp(settings))
        containers = await open_containers(settings, stores, files, ids, stack)
        documents = _document_reader(settings, stack)
        creator, compactor, tokens = response_services(
            router=router,
            stores=stores,
            ids=ids,
            clock=time.time,
            seal_key=seal_key,
            checks=checks,
            files=_file_texts(settings, files, documents),
            options=_response_options(
                settings,
                make_served_tools(
                    settings,
                    stores,
                    passages,
                    mcp=mcp,
                    checks=checks,
                    containers=containers,
                    documents=documents,
                    stack=stack,
                ),
            ),
        )
        worker = make_worker(settings, stores)
        background = Background(creator, worker, settings.background.max_log_bytes)
        stack.push_async_callback(worker.aclose)
        yield Services(
            creator=creator,
            compactor=compactor,
            tokens=tokens,
            router=router,
            seal_key=seal_key,
            store=stores,
            background=background,
            stored=StoredResponses(stores.responses, background),
            conversations=Conversations(stores.conversations, creator.ids, creator.clock, seal_key, checks),
            embeddings=embedders.embeddings,
            files=files,
            containers=ContainersApi(containers),
            uploads=Uploads(files, settings.files.max_upload_bytes),
            vector_stores=make_vector_stores(
                settings,
                stores=stores,
                files=files,
                passages=passages,
                jobs=worker,
                stack=stack,
            ),
            ignored_tools=frozenset(settings.tools.ignore),
        )


def _response_options(settings: Settings, served_tools: tuple[ServedTool, ...]) -> ResponseOptions:
    return ResponseOptions(
        served_tools=served_tools,
        hosted=hosted_limits(settings),
        history=HistoryLimits(settings.store.max_history_items, settings.store.max_history_bytes),
        result_tokens=settings.tools.result_tokens,
        ignored_tools=frozenset(settings.tools.ignore),
        inherit_tools=settings.store.inherit_tools,
        max_repairs=settings.answers.repairs,
        summary_model=settings.compaction.model or None,
        retention=Retention(
            lifetime_seconds=settings.store.lifetime_days * DAY_SECONDS or None,
            save_wait_seconds=settings.store.patience,
        ),
        traces=TracePolicy(settings.trace.record, settings.trace.max_kb * 1024),
        similar_models=make_profiles(settings).known[OPENAI.name].similar_models,
        bounds=AnswerBounds(
            max_bytes=settings.answers.max_bytes,
            max_tokens=settings.answers.max_tokens,
            max_items=settings.answers.max_items,
            max_calls=settings.answers.max_calls,
        ),
    )


def _document_reader(settings: Settings, stack: AsyncExitStack) -> DocumentReader:
    documents = settings.documents
    limits = PoolLimits(
        processes=documents.processes,
        cpu_seconds=documents.cpu_seconds,
        wall_seconds=documents.wall_seconds,
        memory_bytes=documents.memory_mb * 2**20,
    )
    pool = IsolatedPool(limits)
    stack.push_async_callback(pool.aclose)
    return DocumentReader(pool)


def _file_texts(settings: Settings, files: Files, reader: DocumentReader) -> FileTexts:
    documents = settings.documents
    downloader = Downloader(
        AllowPublic(settings.egress.allow, settings.egress.deny), MAX_FILE_BYTES, documents.download_seconds
    )
    server = settings.server
    sent = SentContent(server.within_memory(server.max_held_bytes), server.max_memory)
    return FileTexts(reader, downloader, files, documents.max_tokens, sent)


def pool_limits(settings: Settings) -> PoolLimits:
    """The limits of child processes. They are part of the ceiling of the server's memory: one has a fifth."""
    isolated, ceiling = settings.isolated, settings.server.max_memory
    memory = isolated.memory_mb * 2**20
    return PoolLimits(
        processes=isolated.processes,
        cpu_seconds=isolated.cpu_seconds,
        wall_seconds=isolated.wall_seconds,
        memory_bytes=min(memory, max(ceiling // 5, MIN_CHILD_BYTES)) if ceiling else memory,
    )


def _make_router(names: Names, routes: Sequence[Route], health: HealthPolicy) -> Router:
    return Router(routes, chance=random.random, names=names, health=health, clock=time.monotonic)


@asynccontextmanager
async def _serve(
    settings: Settings, routes: Sequence[Route] | None, live: LiveRoutes | None, keys: Keys
) -> AsyncGenerator[Served, None]:
    """The application of a server: with its keys, the upkeep of the store, and models that are found."""
    raise_limit()
    live = live or LiveRoutes(settings)
    async with (
        _running(live.discover()) as first_look,
        open_agents(settings, routes, live) as served,
        AsyncExitStack() as stack,
    ):
        services = served.services
        await first_look
        _run(stack, live.watch)
        await keys.refresh(services.store.keys)
        if keys.empty and settings.server.host not in LOOPBACK:
            raise SettingsError(no_keys(settings.server.host))
        _run(stack, watch_descriptors)
        if settings.lasting:
            _run(stack, partial(keys.watch, services.store.keys, services.store.signals))
        if not services.store.stateless:
            await start_upkeep(services.background.jobs, services.store.upkeep)
            await start_object_upkeep(services.background.jobs, services.files.contents)
            services.background.jobs.adopt()
        yield served


@asynccontextmanager
async def _running(work: Coroutine[Any, Any, None]) -> AsyncGenerator[asyncio.Task[None], None]:
    """The work as a task, which is cancelled at the end of the context."""
    task = asyncio.create_task(work)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def _run(stack: AsyncExitStack, work: Callable[[], Awaitable[None]]) -> None:
    """Repeat the work until the stack is closed; errors are logged."""

    async def insist() -> None:
        while True:
            try:
                return await work()
            except Exception:
                logger.exception("upkeep broke and is begun again")
            await asyncio.sleep(UPKEEP_RETRY_SECONDS)

    task = asyncio.create_task(insist())

    async def end() -> None:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    stack.push_async_callback(end)


def build_app(
    settings: Settings,
    *,
    routes: Sequence[Route] | None = None,
    live: LiveRoutes | None = None,
    on_started: Callable[[App], None] | None = None,
    config: Path | None = None,
) -> App:
    """The ASGI application. `live`: routes of these settings that can be changed while it runs; `config`: the
    file that they were read from."""
    server = settings.server
    on_loopback = server.host in LOOPBACK
    pepper = key_pepper(settings)
    keys = Keys(server.api_keys, pepper=pepper, clock=time.time, required=not on_loopback)
    options = AppOptions(
        keys=keys,
        hosts=HostGuard([*LOOPBACK, *server.allowed_hosts] if on_loopback else None),
        max_body=server.max_body,
        max_bodies=server.within_memory(server.max_bodies),
        max_held=server.within_memory(server.max_held_bytes),
        max_memory=server.max_memory,
        websockets=WebSocketLimits(
            server_bytes=server.websocket_budget,
            history_bytes=server.within_memory(server.max_websocket_history_bytes),
        ),
        body_timeout=server.body_timeout,
        websocket=server.websocket,
        heartbeat=server.heartbeat,
        keeps=settings.store.url != "none",
        profiles=make_profiles(settings),
        page=server.page,
        read_settings=partial(effective_settings, settings, config, os.environ),
        run_checks=run_checks,
        session_secret=hmac.digest(pepper, b"antiphon.sessions", "sha256"),
    )
    ids = make_ids()
    return App(partial(_serve, settings, routes, live, keys), partial(ids.new, "req"), options, on_started)
