"""The embedded model: its engine, its weights, and a few words from it."""

import asyncio
import hashlib
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import msgspec

from antiphon.backends.local.weights import Weights, find_weights
from antiphon.cli.checks.base import Check, doubtful, failed, passed
from antiphon.cli.options import LOCAL_ALIAS
from antiphon.cli.weights import ENGINE
from antiphon.embedded import Antiphon
from antiphon.errors import AntiphonError
from antiphon.settings import Settings, StoreSettings
from antiphon.wiring import models_folder

PATIENCE = 120.0


def check_engine() -> Check:
    """Whether the extra is installed."""
    try:
        return passed("engine", f"{ENGINE} {version(ENGINE)}")
    except PackageNotFoundError:
        advice = "Run pip install 'antiphon[local]', or use another model server with --upstream."
        return failed("engine", f"{ENGINE} is not installed", advice)


def check_weights(settings: Settings) -> Check:
    """Whether the file is there, and is the one that we know."""
    try:
        row = find_weights(settings.local.model)
    except AntiphonError as error:
        return failed("weights", settings.local.model, error.message)
    if isinstance(row, Path):
        return passed("weights", f"{row} (your own file, {row.stat().st_size / 1e6:,.0f} MB)")
    path = models_folder() / row.file
    if not path.is_file():
        advice = f"Run antiphon model fetch {row.name}; serve, ask and chat do it, too, when they need it."
        return doubtful("weights", f"{row.name} is not on this machine yet", advice)
    return _check_digest(row, path)


def _check_digest(row: Weights, path: Path) -> Check:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != row.sha256:
        advice = f"Delete it and run antiphon model fetch {row.name}."
        return failed("weights", f"{path} has the wrong sha256", advice)
    return passed("weights", f"{path} ({row.size / 1e6:,.0f} MB, sha256 right)")


async def check_generation(settings: Settings) -> Check:
    """Load the model and have it say something."""
    local = msgspec.structs.replace(settings.local, enabled=True)
    alone = msgspec.structs.replace(settings, upstreams=(), local=local, store=StoreSettings(url="none"))
    began = time.perf_counter()
    try:
        async with asyncio.timeout(PATIENCE), Antiphon(alone) as antiphon:
            await antiphon.create(model=LOCAL_ALIAS, input="Say hello.", max_output_tokens=8)
    except TimeoutError:
        advice = "Take a smaller model, or more threads (local.threads)."
        return failed("generation", f"no answer within {PATIENCE:g} s", advice)
    except AntiphonError as error:
        return failed("generation", error.message, "Try another model with local.model, or report this.")
    return passed("generation", f"loaded and answered in {time.perf_counter() - began:.1f} s")
