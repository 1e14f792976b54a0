"""The embedded model that the user has chosen, in a file of the data folder, and the offer of a better one.

The choice takes the place of the default model; `local.model` and `--model` name another one.
"""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

import click
import msgspec
from msgspec.structs import replace

from antiphon.backends.local.weights import CATALOGUE, DEFAULT_MODEL, Weights
from antiphon.cli.models import ensure_weights
from antiphon.cli.terminal import errors, is_interactive
from antiphon.settings import Settings
from antiphon.wiring import data_folder, models_folder

FILE = "embedded_model.json"
BETTER_MODEL = "qwen2.5-coder-1.5b"
MEMORY_PER_BYTE = 2.0
"""Bytes of memory that must be free per byte of weights: they are loaded completely, with a context."""
SPARE_DISK_BYTES = 2 * 10**9
"""Stays free on the disk."""


class Choice(msgspec.Struct, frozen=True):
    """What the user answered. A file without a model: the offer was declined."""

    model: str | None = None


def load_choice() -> Choice | None:
    """The stored choice; None if the user was never asked."""
    try:
        return msgspec.json.decode(_path().read_bytes(), type=Choice)
    except (OSError, msgspec.DecodeError):
        return None


def save_choice(model: str | None) -> None:
    """Store the choice."""
    _path().parent.mkdir(parents=True, exist_ok=True)
    _path().write_bytes(msgspec.json.encode(Choice(model)))


def with_chosen_model(settings: Settings) -> Settings:
    """The settings with the chosen model in place of the default one."""
    choice = load_choice()
    if choice is None or choice.model not in CATALOGUE or settings.local.model != DEFAULT_MODEL:
        return settings
    return replace(settings, local=replace(settings.local, model=choice.model))


def better_model(settings: Settings) -> Weights | None:
    """The model to recommend in place of the embedded one, if this machine has room for it."""
    if not settings.serves_local_model or settings.local.model != DEFAULT_MODEL:
        return None
    row = CATALOGUE[BETTER_MODEL]
    return row if has_room(row, _free_memory_bytes(), _free_disk_bytes()) else None


def has_room(row: Weights, memory_bytes: int, disk_bytes: int) -> bool:
    """Whether a model fits into this much free memory and disk space."""
    return memory_bytes >= row.size * MEMORY_PER_BYTE and disk_bytes >= row.size + SPARE_DISK_BYTES


def offer_better_model(settings: Settings, *, yes: bool, environment: Mapping[str, str]) -> Settings:
    """Offer the better model once, to a person at a terminal. `yes` accepts it without a question."""
    row = better_model(settings)
    asks = is_interactive() and not environment.get("CI") and load_choice() is None
    if row is None or not (yes or asks):
        return settings
    accepted = yes or _ask(row)
    if accepted:
        ensure_weights(row.name)  # a choice that cannot be had is not stored
    save_choice(row.name if accepted else None)
    return with_chosen_model(settings)


def _ask(row: Weights) -> bool:
    """One key: y accepts; every other key, and the end of the input, declines."""
    console = errors()
    console.print(
        f"The embedded model {DEFAULT_MODEL} is small. A better one fits on this machine: {row.name} "
        f"({row.size / 1e6:,.0f} MB to download, {row.licence}).",
        markup=False,
    )
    console.print("Download and use it? y / n ", end="", markup=False)
    try:
        key = click.getchar()
    except EOFError:
        key = ""
    accepted = key[:1].lower() == "y"  # several keys at once, with Enter for example, arrive together
    console.print("yes" if accepted else f"no. Later: antiphon model use {row.name}", markup=False)
    return accepted


def _path() -> Path:
    return data_folder() / FILE


def _free_memory_bytes() -> int:
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return 0  # unknown: nothing is offered


def _free_disk_bytes() -> int:
    folder = models_folder()
    while not folder.exists():
        folder = folder.parent
    return shutil.disk_usage(folder).free
