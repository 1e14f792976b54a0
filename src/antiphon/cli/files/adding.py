"""The progress bar of a file on its way into the store."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from antiphon.cli.terminal import errors, printable
from antiphon.service.files.local_file import Advance


@contextmanager
def progress_bar(path: Path) -> Generator[Advance, None, None]:
    """A progress bar for one file on standard error, if that is a terminal."""
    console = errors()
    if not console.is_terminal:
        yield lambda _size: None
        return
    from rich.progress import (  # noqa: PLC0415 -- slow to import, and only a terminal needs it
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    label = TextColumn("{task.description}", markup=False)
    with Progress(label, *columns, console=console, transient=True) as progress:
        task = progress.add_task(printable(path.name), total=path.stat().st_size)
        yield lambda size: progress.advance(task, size)
