"""The server that Codex uses: one that is already running, or one in this process while Codex runs."""

import logging
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

import msgspec
from msgspec.structs import replace

from antiphon.cli.clients import server_key, translated_errors
from antiphon.cli.log import LineFormatter
from antiphon.cli.models import check_upstreams, ensure_weights, offered_models, require_engine
from antiphon.cli.serve.banner import Banner
from antiphon.errors import AntiphonError, SettingsError
from antiphon.http.target import Deadlines
from antiphon.orchestrator.http_client import HttpResponsesClient
from antiphon.server.embedded_server import serve_embedded
from antiphon.server.process import bind
from antiphon.service.codex_catalogue import CodexCatalogue
from antiphon.settings import Settings
from antiphon.wiring import build_app

BACKLOG = 128
MODEL_LIST_TIMEOUT_SECONDS = 3.0
MAX_LOG_BYTES = 2**20
"""A longer log is truncated at the next start."""
_ANSWER = Deadlines(connect=2.0, first_byte=30.0, answer=30.0, between=30.0, total=60.0)


class NoModels(SettingsError):
    """The server lists no models."""


class FetchedCatalogue(NamedTuple):
    """A catalogue as it was received, and the model to start with."""

    body: bytes
    model: str
    window: int | None


async def fetch_catalogue(base_url: str, version: str, model: str | None) -> FetchedCatalogue:
    """Fetch the server's catalogue for this version of Codex; it contains `model`, if one is given."""
    path = f"models?client_version={quote(version, safe='')}"
    if model:
        path += f"&model={quote(model, safe='')}"
    with translated_errors():
        async with HttpResponsesClient(
            base_url, api_key=server_key(), retries=0, deadlines=_ANSWER
        ) as client:
            body = await client.get(path)
    try:
        models = msgspec.json.decode(body, type=CodexCatalogue).models
    except msgspec.DecodeError:
        raise SettingsError(f"{base_url} is not an Antiphon server: it has no catalogue for Codex.") from None
    if not models:
        raise NoModels(f"{base_url} lists no models. Name one with --model.")
    return FetchedCatalogue(body, models[0].slug, models[0].context_window)


async def fetch_own_catalogue(
    settings: Settings, base_url: str, version: str, model: str | None
) -> FetchedCatalogue:
    """Fetch the catalogue of the server in this process; if it is empty, report the upstream that failed."""
    try:
        return await fetch_catalogue(base_url, version, model)
    except NoModels:
        for upstream in settings.upstreams:
            try:
                await offered_models(upstream, MODEL_LIST_TIMEOUT_SECONDS)
            except AntiphonError as error:
                raise SettingsError(f"{error.message} Start it, or name a model with --model.") from None
        raise SettingsError("No upstream lists any models. Name one with --model.") from None


@asynccontextmanager
async def start_server(settings: Settings, log: Path) -> AsyncGenerator[str, None]:
    """Start a server in this process, on a free port, without a durable store; yields its address."""
    settings = own_settings(settings)
    check_upstreams(settings)
    if settings.serves_local_model:
        require_engine()
        ensure_weights(settings.local.model)
    with logged_to(log, settings.server.log_level), bind(settings.server.host, 0) as listener:
        listener.listen(BACKLOG)
        port = listener.getsockname()[1]
        async with serve_embedded(
            lambda started: build_app(settings, on_started=started),
            listener,
            max_message=settings.server.max_body,
        ):
            yield Banner(settings, port=port).url


def own_settings(settings: Settings) -> Settings:
    """The same models on loopback, without keys, with a store in memory."""
    server = replace(settings.server, host="127.0.0.1", port=0, workers=1, api_keys=(), profile="openai")
    return replace(settings, server=server, store=replace(settings.store, url="memory:"))


@contextmanager
def logged_to(path: Path, level: str) -> Generator[None, None, None]:
    """Log to a file, because Codex uses the terminal."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    mode = "w" if path.exists() and path.stat().st_size > MAX_LOG_BYTES else "a"
    handler, root = logging.FileHandler(path, mode, encoding="utf-8"), logging.getLogger()
    handler.setFormatter(LineFormatter(colours=False))
    root.addHandler(handler)
    root.setLevel(level.upper())
    try:
        yield
    finally:
        root.removeHandler(handler)
        handler.close()
