"""The composition root: settings in, concrete objects out. Nothing else names a concrete class."""

import os
import random
import secrets
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import platformdirs

from antiphon.backends.base import Backend
from antiphon.backends.chat_completions.client import ChatCompletionsBackend
from antiphon.backends.local.backend import LocalBackend
from antiphon.backends.registry import Deadlines, Endpoint, default_endpoint, endpoint_kind
from antiphon.errors import SettingsError
from antiphon.protocol.ids import Entropy, IdSource
from antiphon.server.app import App, AppOptions
from antiphon.server.auth import Keys
from antiphon.server.guard import HostGuard
from antiphon.service.create import Creator
from antiphon.service.router import Route, Router
from antiphon.settings import LOOPBACK, ModelRow, Settings, UpstreamSettings
from antiphon.store.base import Store
from antiphon.store.memory import MemoryStore
from antiphon.store.none import NoStore
from antiphon.turn.sealing import Sealer

SEAL_KEY_FILE = "seal.key"


def data_folder() -> Path:
    """Where what must last is kept."""
    return Path(platformdirs.user_data_dir("antiphon"))


def models_folder() -> Path:
    """Where weights are kept; they can be fetched again."""
    return Path(platformdirs.user_cache_dir("antiphon")) / "models"


def make_ids() -> IdSource:
    """Ids from the wall clock and the system's random source."""
    return IdSource(time.time, buffered(secrets.token_bytes))


def buffered(entropy: Entropy, block: int = 4096) -> Entropy:
    """The same random bytes, asked for a block at a time: an id then costs no system call."""
    store, used = b"", 0

    def take(size: int) -> bytes:
        nonlocal store, used
        if used + size > len(store):
            store, used = entropy(max(block, size)), 0
        used += size
        return store[used - size : used]

    return take


@asynccontextmanager
async def open_creator(
    settings: Settings, routes: Sequence[Route] | None = None
) -> AsyncGenerator[Creator, None]:
    """The service, for as long as the context lasts. `routes` replaces the configured ones."""
    async with AsyncExitStack() as stack:
        if routes is None:
            routes = _open_routes(settings, stack)
        store = make_store(settings)
        stack.push_async_callback(store.aclose)
        yield Creator(
            router=Router(routes, chance=random.random),
            store=store,
            ids=make_ids(),
            clock=time.time,
            sealer=Sealer(seal_secret(settings, data_folder()), secrets.token_bytes),
            ignored_tools=frozenset(settings.tools.ignore),
            inherit_tools=settings.store.inherit_tools,
        )


def _open_routes(settings: Settings, stack: AsyncExitStack) -> list[Route]:
    routes: list[Route] = []
    for row in settings.upstreams:
        backend = ChatCompletionsBackend(make_endpoint(row, settings.server.heartbeat))
        stack.push_async_callback(backend.aclose)
        routes += [_route(model, backend) for model in row.models]
    if settings.serves_local_model:
        local = make_local_backend(settings)
        stack.push_async_callback(local.aclose)
        routes += [Route(local.model, local), Route("local", local, upstream=local.model)]
    return routes


def _route(model: str | ModelRow, backend: Backend) -> Route:
    row = ModelRow(model) if isinstance(model, str) else model
    return Route(row.name, backend, row.upstream, row.weight, row.priority)


def make_endpoint(row: UpstreamSettings, heartbeat: float) -> Endpoint:
    """The endpoint that a row of the settings describes."""
    key_variable = row.api_key_env or endpoint_kind(row.kind).api_key_env
    return replace(
        default_endpoint(row.kind, row.base_url),
        name=row.name or row.kind,
        api_key=row.api_key or os.environ.get(key_variable, ""),
        headers=row.headers,
        deadlines=Deadlines(
            connect=row.connect_timeout,
            first_byte=row.first_byte_timeout,
            between=row.between_timeout,
            answer=row.answer_timeout,
            total=row.total_timeout,
        ),
        retries=row.retries,
        heartbeat=heartbeat,
    )


def make_local_backend(settings: Settings) -> LocalBackend:
    """The embedded model; it loads at its first turn."""
    local = settings.local
    return LocalBackend(
        local.model,
        models_folder(),
        context=local.context,
        parallel=local.parallel,
        threads=local.threads or max(1, (os.cpu_count() or 1) - 1),
        heartbeat=settings.server.heartbeat,
    )


def make_store(settings: Settings) -> Store:
    """The store that the URL names."""
    if settings.store.url == "none":
        return NoStore()
    return MemoryStore(settings.store.memory_responses)


def seal_secret(settings: Settings, folder: Path) -> bytes:
    """The configured secret, or one that was made once and is kept in a file that only we can read."""
    if settings.seal.key:
        return settings.seal.key.encode()
    path = folder / SEAL_KEY_FILE
    try:
        return path.read_bytes() if path.exists() else _make_secret(path)
    except OSError as error:
        raise SettingsError(
            f"Cannot keep the sealing key at {path}: {error.strerror}. "
            "Make the folder writable, or set seal.key."
        ) from None


def _make_secret(path: Path) -> bytes:
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f"{path.name}.{os.getpid()}")
    fresh.touch(mode=0o600)
    fresh.write_bytes(secrets.token_bytes(32))
    try:
        os.link(fresh, path)  # whoever comes first wins, and nobody reads half a key
    except FileExistsError:
        pass
    finally:
        fresh.unlink()
    return path.read_bytes()


def build_app(
    settings: Settings,
    *,
    routes: Sequence[Route] | None = None,
    on_started: Callable[[App], None] | None = None,
) -> App:
    """The ASGI application."""
    server = settings.server
    on_loopback = server.host in LOOPBACK
    options = AppOptions(
        keys=Keys(server.api_keys),
        hosts=HostGuard([*LOOPBACK, *server.allowed_hosts] if on_loopback else None),
        max_body=server.max_body,
        body_timeout=server.body_timeout,
    )
    ids = make_ids()
    return App(partial(open_creator, settings, routes), lambda: ids.new("req"), options, on_started)
