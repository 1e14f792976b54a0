"""The checks of models: upstreams, the embedded model, the codex backend, and the agent."""

import asyncio
import hashlib
import os
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import msgspec

from antiphon.backends.codex_app_server.backend import CodexBackend
from antiphon.backends.local.weights import Weights, find_weights
from antiphon.backends.registry import endpoint_kind
from antiphon.cli.doctor.setup import Check, failed, name_of, passed, warning
from antiphon.cli.models import ENGINE, offered_models
from antiphon.discovery.found import best_model, summary
from antiphon.discovery.watch import Discovery
from antiphon.embedded import Antiphon
from antiphon.errors import AntiphonError, BackendRefused, BackendTimeout, BackendUnreachable, SettingsError
from antiphon.extras import install_command
from antiphon.http.client import AUTH_ERROR
from antiphon.http.redact import redact
from antiphon.service.routing.names import LOCAL_ALIAS, is_pattern
from antiphon.settings import Settings, StoreSettings, UpstreamSettings, names_of
from antiphon.wiring import models_folder
from antiphon.wiring.agent import make_agent
from antiphon.wiring.codex import make_codex_backend

UPSTREAM_TIMEOUT_SECONDS = 10.0
GENERATION_TIMEOUT_SECONDS = 120.0


async def check_upstream(upstream: UpstreamSettings) -> Check:
    """Whether the upstream answers, accepts the key, and lists the configured models."""
    address = redact(upstream.base_url or endpoint_kind(upstream.kind).base_url)
    began = time.perf_counter()
    try:
        offered = await offered_models(upstream, UPSTREAM_TIMEOUT_SECONDS)
    except AntiphonError as error:
        return _failed_upstream(upstream, error)
    elapsed = (time.perf_counter() - began) * 1000
    key = "with a key" if _has_key(upstream) else "without a key"
    found = f"{address} answered in {elapsed:.0f} ms {key}; {len(offered)} models"
    absent = [name for name in _wanted(upstream) if name not in offered]
    if absent:
        advice = f"Check the names; it offers: {', '.join(offered[:10]) or 'nothing'}."
        return warning(name_of(upstream), f"{found}, but not {', '.join(absent)}", advice)
    return passed(name_of(upstream), found)


async def check_discovery(settings: Settings) -> Check:
    """The model servers and keys that a server would find now."""
    found = await Discovery(own_port=settings.server.port).look(settings)
    lines = [f"{server.kind} at {server.base_url}: {summary(server.models)}" for server in found.servers]
    lines += [f"{provider.api_key_env}: {names_of(provider.models)[0]}" for provider in found.providers]
    best = best_model(settings, found)
    lines += [f"auto: {best}"] if best else []
    return passed("discovery", "\n".join(lines) or "nothing found")


def _failed_upstream(upstream: UpstreamSettings, error: AntiphonError) -> Check:
    name, found = name_of(upstream), error.message
    if error.code == AUTH_ERROR:
        advice = f"Put a valid key into {_key_variable(upstream) or 'api_key_env of this upstream'}."
        return failed(name, found, advice)
    if isinstance(error, BackendUnreachable):
        return failed(name, found, "Start it, or correct its base_url (--upstream).")
    if isinstance(error, BackendTimeout):
        return failed(name, found, "Check whether it is overloaded or behind a firewall.")
    if isinstance(error, BackendRefused) and error.status == 404:
        return warning(
            name, found, "If its base_url is correct, name its models in the settings: it does not list them."
        )
    return failed(name, found, "Check its base_url; it usually ends in /v1.")


def _wanted(upstream: UpstreamSettings) -> list[str]:
    """The configured models, as the upstream names them."""
    rows = [model if isinstance(model, str) else model.upstream or model.name for model in upstream.models]
    return [name for name in rows if not is_pattern(name)]


def _key_variable(upstream: UpstreamSettings) -> str:
    return upstream.api_key_env or endpoint_kind(upstream.kind).api_key_env


def _has_key(upstream: UpstreamSettings) -> bool:
    return bool(upstream.api_key or os.environ.get(_key_variable(upstream), ""))


def check_engine() -> Check:
    try:
        return passed("engine", f"{ENGINE} {version(ENGINE)}")
    except PackageNotFoundError:
        advice = f"Run {install_command('local')}, or use another model server with --upstream."
        return failed("engine", f"{ENGINE} is not installed", advice)


def check_weights(settings: Settings) -> Check:
    """Whether the file exists and has the pinned digest."""
    try:
        row = find_weights(settings.local.model)
    except AntiphonError as error:
        return failed("weights", settings.local.model, error.message)
    if isinstance(row, Path):
        return passed("weights", f"{row} (your own file, {row.stat().st_size / 1e6:,.0f} MB)")
    path = models_folder() / row.file
    if not path.is_file():
        advice = f"Run antiphon model fetch {row.name}; serve, ask and chat also fetch it when they need it."
        return warning("weights", f"{row.name} is not downloaded yet", advice)
    return _check_digest(row, path)


def _check_digest(row: Weights, path: Path) -> Check:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != row.sha256:
        advice = f"Delete it and run antiphon model fetch {row.name}."
        return failed("weights", f"{path} has the wrong sha256", advice)
    return passed("weights", f"{path} ({row.size / 1e6:,.0f} MB, sha256 correct)")


async def check_generation(settings: Settings) -> Check:
    """Load the model and generate a few tokens."""
    local = msgspec.structs.replace(settings.local, enabled=True)
    local_only = msgspec.structs.replace(settings, upstreams=(), local=local, store=StoreSettings(url="none"))
    began = time.perf_counter()
    try:
        async with asyncio.timeout(GENERATION_TIMEOUT_SECONDS), Antiphon(local_only) as antiphon:
            await antiphon.create(model=LOCAL_ALIAS, input="Say hello.", max_output_tokens=8)
    except TimeoutError:
        advice = "Use a smaller model, or more threads (local.threads)."
        return failed("generation", f"no answer within {GENERATION_TIMEOUT_SECONDS:g} s", advice)
    except AntiphonError as error:
        return failed("generation", error.message, "Try another model with local.model, or report this.")
    return passed("generation", f"loaded and answered in {time.perf_counter() - began:.1f} s")


async def check_codex(settings: Settings) -> Check:
    """Start codex, and query its models and its login."""
    backend = make_codex_backend(settings)
    try:
        models = await backend.models()
        login = await _login(backend)
    except AntiphonError as error:
        return failed("codex", error.message, "See docs/codex-backend.md, or set codex.enabled to false.")
    finally:
        await backend.aclose()
    found = f"`{settings.codex.command} app-server` answers; it knows {len(models)} models"
    if login is None:
        advice = "Run `codex login` with the same CODEX_HOME, or give codex a model provider with a key."
        return failed("codex", f"{found}, but it is not logged in", advice)
    return passed("codex", f"{found}; {login}")


async def _login(backend: CodexBackend) -> str | None:
    """A description of the login; None if codex needs one and has none."""
    try:
        state = await backend.account()
    except BackendRefused:
        return "its login was not tested"
    if state.account is not None:
        return f"it is logged in ({state.account.type}), which was not tested with a turn"
    return None if state.requires_openai_auth else "the key of its model provider was not tested"


def check_agent(settings: Settings) -> Check:
    """Whether the agent can be built from the settings."""
    try:
        agent = make_agent(settings.agent)
    except SettingsError as error:
        return failed("agent", error.message, "Correct the section [agent] of the settings.")
    folders = len(settings.agent.documents)
    found = f"{len(agent.modes.all())} modes, {len(agent.tools.names)} tools, {folders} folders of documents"
    return passed("agent", found)
