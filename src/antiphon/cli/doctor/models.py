"""The checks of models: what is found, the embedded model, and the codex backend."""

import asyncio
import hashlib
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import msgspec

from antiphon.backends.codex_app_server.backend import CodexBackend
from antiphon.backends.local.weights import Weights, find_weights
from antiphon.cli.models import ENGINE
from antiphon.cli.startup.check import Check, failed, passed, warning
from antiphon.discovery.found import best_model, summary
from antiphon.discovery.watch import Discovery
from antiphon.embedded import Antiphon
from antiphon.embeddings.minilm import MODEL_FILE, MODEL_NAME, TOKENIZER_FILE, how_to_install
from antiphon.errors import AntiphonError, BackendRefused, SettingsError
from antiphon.extras import install_command
from antiphon.service.routing.names import LOCAL_ALIAS
from antiphon.settings import Settings, StoreSettings, names_of
from antiphon.wiring import models_folder
from antiphon.wiring.codex import make_codex_backend
from antiphon.wiring.embeddings import EmbedderSet

GENERATION_TIMEOUT_SECONDS = 120.0


async def check_discovery(settings: Settings) -> Check:
    """The model servers and keys that a server would find now."""
    found = await Discovery(own_port=settings.server.port).look(settings)
    lines = [f"{server.kind} at {server.base_url}: {summary(server.models)}" for server in found.servers]
    lines += [f"{provider.api_key_env}: {names_of(provider.models)[0]}" for provider in found.providers]
    best = best_model(settings, found)
    lines += [f"auto: {best}"] if best else []
    return passed("discovery", "\n".join(lines) or "nothing found")


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


def check_embeddings(settings: Settings) -> Check:
    """The embedding models, and whether the files of the bundled one are here."""
    try:
        embeddings = EmbedderSet(settings).embeddings
    except SettingsError as error:
        return failed("embeddings", error.message, "Correct the section [embeddings] of the settings.")
    names = [model.id for model in embeddings.models()]
    if not names:
        return passed("embeddings", f"none. {how_to_install()}")
    found = f"{', '.join(names)}; auto: {embeddings.default}"
    missing = not all((models_folder() / file.file).is_file() for file in (MODEL_FILE, TOKENIZER_FILE))
    if MODEL_NAME in names and missing:
        advice = f"Run antiphon model fetch {MODEL_NAME}; the first request fetches it as well."
        return warning("embeddings", f"{found}; {MODEL_NAME} is not downloaded yet", advice)
    return passed("embeddings", found)


async def check_generation(settings: Settings) -> Check:
    """Load the model and generate a few tokens."""
    local = msgspec.structs.replace(settings.local, enabled=True)
    local_only = Settings(local=local, isolated=settings.isolated, store=StoreSettings(url="none"))
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
        return failed(
            "codex", error.message, "See docs/guides/codex-as-a-model.md, or set codex.enabled to false."
        )
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
