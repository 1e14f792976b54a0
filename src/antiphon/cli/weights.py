"""The embedded model's weights: fetched when they are missing, and that is shown."""

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from antiphon.backends.local.weights import fetch, find_weights
from antiphon.cli.terminal import errors
from antiphon.errors import SettingsError
from antiphon.wiring import models_folder

ENGINE = "xllamacpp"
_STEP = 10
"""Per cent between two lines where there is no bar."""


class Bar:
    """A progress bar, from the first word on: what is there already needs none."""

    def __init__(self) -> None:
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            DownloadColumn(),
            TimeRemainingColumn(),
            console=errors(),
        )
        self._task = self._progress.add_task("fetching")

    def __call__(self, done: int, total: int, label: str, /) -> None:
        """Draw."""
        self._progress.start()
        self._progress.update(self._task, completed=done, total=total, description=label)

    def close(self) -> None:
        """Leave the last state on the screen."""
        self._progress.stop()


class ProgressLines:
    """The same for a log: a line for every new label and every tenth."""

    def __init__(self) -> None:
        self._last: tuple[str, int] | None = None

    def __call__(self, done: int, total: int, label: str, /) -> None:
        """Print, if there is something new."""
        now = (label, done * 100 // max(total, 1) // _STEP * _STEP)
        if now != self._last:
            self._last = now
            errors().print(f"{label}: {now[1]} % of {total / 1e6:.0f} MB", markup=False, soft_wrap=True)

    def close(self) -> None:
        """Nothing to leave behind."""


def local_name(model: str) -> str:
    """What the embedded model is called: its name in the catalogue, or its file's without the ending."""
    found = find_weights(model)
    return found.stem if isinstance(found, Path) else found.name


def ensure_weights(model: str) -> Path:
    """The file of this model, fetched if need be."""
    found = find_weights(model)
    if isinstance(found, Path):
        return found
    progress = Bar() if errors().is_terminal else ProgressLines()
    try:
        return fetch(found, models_folder(), progress)
    finally:
        progress.close()


def require_engine(has: Callable[[str], object] = find_spec) -> None:
    """Refuse to go on without what runs the weights."""
    if not has(ENGINE):
        raise SettingsError(
            "The embedded model needs its engine: pip install 'antiphon[local]'. "
            "Or use another model server with --upstream URL."
        )
