"""The models that a command uses: their names, the upstreams' lists, the embedded model's weights."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

from antiphon.backends.local.weights import find_weights, model_name
from antiphon.cli.terminal import errors
from antiphon.discovery.found import AUTO_ALIAS, NOTHING_FOUND, with_found
from antiphon.embeddings.minilm import MODEL_NAME as EMBEDDING_MODEL
from antiphon.errors import BackendTimeout, SettingsError
from antiphon.extras import install_command
from antiphon.service.routing.names import LOCAL_ALIAS, check_names, is_pattern
from antiphon.settings import Settings, UpstreamSettings
from antiphon.weights.pinned import fetch
from antiphon.wiring import models_folder
from antiphon.wiring.backends import make_backend
from antiphon.wiring.embeddings import fetch_bundled_model
from antiphon.wiring.live import routed_names

ENGINE = "xllamacpp"
_STEP_PERCENT = 10
"""Between two lines of progress where no bar is drawn."""


class ProgressBar:
    """A progress bar on a terminal. It appears with the first update, so a download that is not needed shows
    nothing."""

    def __init__(self) -> None:
        # Only a download on a terminal draws a bar; the import would cost every start of a server 50 ms.
        from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn  # noqa: PLC0415

        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            DownloadColumn(),
            TimeRemainingColumn(),
            console=errors(),
        )
        self._task = self._progress.add_task("fetching")

    def __call__(self, done: int, total: int, label: str, /) -> None:
        self._progress.start()
        self._progress.update(self._task, completed=done, total=total, description=label)

    def close(self) -> None:
        """Stop drawing; the last state stays on the screen."""
        self._progress.stop()


class ProgressLines:
    """Progress as log lines: one for every new label and every tenth."""

    def __init__(self) -> None:
        self._last: tuple[str, int] | None = None

    def __call__(self, done: int, total: int, label: str, /) -> None:
        now = (label, done * 100 // max(total, 1) // _STEP_PERCENT * _STEP_PERCENT)
        if now != self._last:
            self._last = now
            errors().print(f"{label}: {now[1]} % of {total / 1e6:.0f} MB", markup=False, soft_wrap=True)

    def close(self) -> None:
        """Do nothing: every line is complete."""


def ensure_weights(model: str) -> Path:
    """The file with the weights of this model, downloaded if it is missing."""
    found = None if model == EMBEDDING_MODEL else find_weights(model)
    if isinstance(found, Path):
        return found
    progress = ProgressBar() if errors().is_terminal else ProgressLines()
    try:
        if found is None:
            return Path(fetch_bundled_model(progress).model)
        return fetch(found, models_folder(), progress)
    finally:
        progress.close()


def require_engine(has: Callable[[str], object] = find_spec) -> None:
    """Raise `SettingsError` if the engine of the embedded model is not installed."""
    if not has(ENGINE):
        raise SettingsError(
            f"The embedded model needs its engine: run {install_command('local')}, "
            "or use another model server with --upstream URL."
        )


def prepare_model(settings: Settings, model: str | None) -> str | None:
    """Download the model to ask if it is embedded and missing. Returns its name; None: ask the upstream."""
    name = model or _configured_model(settings)
    if not settings.serves_local_model:
        return name
    local = model_name(settings.local.model)
    if name == settings.local.model:
        name = local  # a path: the model is called as the file, without folder and suffix
    if name in (LOCAL_ALIAS, local):
        require_engine()
        ensure_weights(settings.local.model)
    return name


def _configured_model(settings: Settings) -> str | None:
    """The model of `auto`, else the first name in the settings, else the embedded model; None if there are
    only patterns."""
    if AUTO_ALIAS in settings.aliases:
        return settings.aliases[AUTO_ALIAS]
    named = (name for name in settings.model_names if not is_pattern(name))
    return next(named, LOCAL_ALIAS if settings.serves_local_model else None)


def check_upstreams(settings: Settings) -> None:
    """Raise `SettingsError` for an upstream that cannot be used and for a name that nothing serves."""
    settings = with_found(settings, NOTHING_FOUND)
    for upstream in settings.upstreams:
        make_backend(upstream, settings.server.heartbeat)
    served = set(settings.model_names)
    if settings.serves_local_model:
        served.add(LOCAL_ALIAS)
        with suppress(SettingsError):  # a missing file is reported when the weights are prepared
            served.add(model_name(settings.local.model))
    check_names(routed_names(settings), served)


async def offered_models(upstream: UpstreamSettings, timeout_seconds: float) -> list[str]:
    """The names of the models that the upstream lists; raises `AntiphonError` if it does not in time."""
    backend = make_backend(upstream, heartbeat=timeout_seconds)
    try:
        async with asyncio.timeout(timeout_seconds):
            return [model.id for model in await backend.models()]
    except TimeoutError:
        raise BackendTimeout(
            f"The upstream '{backend.name}' did not answer within {timeout_seconds:g} s."
        ) from None
    finally:
        await backend.aclose()
