"""The Antiphon that Codex asks: one that runs already, or one in this process for as long as Codex runs."""

import logging
import os
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

import msgspec
from msgspec.structs import replace

from antiphon.cli.banner import Banner
from antiphon.cli.log import LineFormatter
from antiphon.cli.remote import API_KEY, refusals
from antiphon.cli.upstreams import check_rows, offered_models
from antiphon.cli.weights import ensure_weights, require_engine
from antiphon.errors import AntiphonError, ResponsesCallFailed, SettingsError
from antiphon.http.target import Deadlines
from antiphon.orchestrator.http_client import HttpResponsesClient
from antiphon.server.embedded_server import serve_embedded
from antiphon.server.process import bind
from antiphon.service.codex_catalogue import CodexCatalogue
from antiphon.settings import Settings
from antiphon.wiring import build_app

BACKLOG = 128
PATIENCE = 3.0
"""Seconds for an upstream to say which models it has."""
MAX_LOG = 2**20
"""Bytes of a log that the next run goes on with; a longer one is begun anew."""
_PROBE = Deadlines(connect=1.0, first_byte=3.0, answer=3.0, between=3.0, total=3.0)
"""Whatever listens on the port: what hangs is not ours, and nobody waits long for it."""
_ANSWER = Deadlines(connect=2.0, first_byte=30.0, answer=30.0, between=30.0, total=60.0)


class NoModels(SettingsError):
    """The catalogue is empty."""


class Told(NamedTuple):
    """A catalogue as it came, and the model to begin with."""

    body: bytes
    model: str
    window: int | None


async def ask_catalogue(base_url: str, version: str, model: str | None) -> Told:
    """The catalogue of the server at this address, for this version of Codex and with this model in it."""
    path = f"models?client_version={quote(version, safe='')}"
    if model:
        path += f"&model={quote(model, safe='')}"
    key = os.environ.get(API_KEY) or None
    with refusals():
        async with HttpResponsesClient(base_url, api_key=key, retries=0, deadlines=_ANSWER) as client:
            body = await client.get(path)
    try:
        models = msgspec.json.decode(body, type=CodexCatalogue).models
    except msgspec.DecodeError:
        raise SettingsError(
            f"{base_url} is no Antiphon: it does not tell its models as Codex reads them."
        ) from None
    if not models:
        raise NoModels(f"{base_url} lists no models. Name one with --model.")
    return Told(body, models[0].slug, models[0].context_window)


async def running_server(settings: Settings) -> str | None:
    """The address of the server that the settings describe, if it runs: something that tells a catalogue."""
    base_url = Banner(settings, port=settings.server.port).url
    async with HttpResponsesClient(
        base_url, api_key=os.environ.get(API_KEY) or None, retries=0, deadlines=_PROBE
    ) as client:
        try:
            body = await client.get("models?client_version=0.0.0")
            msgspec.json.decode(body, type=CodexCatalogue)
        except ResponsesCallFailed as failure:
            return base_url if failure.status == 401 else None
        except msgspec.DecodeError:
            return None  # another server; llama.cpp likes the same port
    return base_url


async def ask_own_catalogue(settings: Settings, base_url: str, version: str, model: str | None) -> Told:
    """The catalogue of a server of our own. If it is empty, an upstream did not answer: that one is named."""
    try:
        return await ask_catalogue(base_url, version, model)
    except NoModels:
        for upstream in settings.upstreams:
            try:
                await offered_models(upstream, PATIENCE)
            except AntiphonError as error:
                raise SettingsError(f"{error.message} Start it, or name a model with --model.") from None
        raise SettingsError("No upstream lists any models. Name one with --model.") from None


@asynccontextmanager
async def fresh_server(settings: Settings, log: Path) -> AsyncGenerator[str, None]:
    """The address of a server of our own, on a free port; it keeps nothing, and writes its log to a file."""
    settings = own_settings(settings)
    check_rows(settings)
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
    """The same models, for nobody but Codex: on loopback, without keys, in memory."""
    server = replace(settings.server, host="127.0.0.1", port=0, workers=1, api_keys=(), profile="openai")
    return replace(settings, server=server, store=replace(settings.store, url="memory:"))


@contextmanager
def logged_to(path: Path, level: str) -> Generator[None, None, None]:
    """The log goes to a file: the terminal belongs to Codex."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    mode = "w" if path.exists() and path.stat().st_size > MAX_LOG else "a"
    handler, root = logging.FileHandler(path, mode, encoding="utf-8"), logging.getLogger()
    handler.setFormatter(LineFormatter(colours=False))
    root.addHandler(handler)
    root.setLevel(level.upper())
    try:
        yield
    finally:
        root.removeHandler(handler)
        handler.close()
