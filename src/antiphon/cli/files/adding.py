"""Files of this machine on their way into the store, with a progress bar on a terminal."""

import asyncio
import mimetypes
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import contextmanager
from pathlib import Path

from antiphon.cli.terminal import errors, printable
from antiphon.protocol.files import OCTETS, NewFile, check_filename, lifetime_of
from antiphon.store.blobs.port import PIECE_BYTES

Advance = Callable[[int], None]
"""Called with the number of bytes that were read."""


class LocalFile:
    """A file of this machine, as it is stored."""

    def __init__(self, path: Path, purpose: str, lifetime: int | None, advance: Advance) -> None:
        self._path = path
        self._advance = advance
        self.declared_bytes = path.stat().st_size
        self._description = NewFile(
            filename=check_filename(path.name, "file"),
            purpose=purpose,
            media_type=mimetypes.guess_type(path.name)[0] or OCTETS,
            lifetime=lifetime_of(purpose, lifetime),
        )

    async def content(self) -> AsyncGenerator[bytes, None]:
        """The content, read in a thread."""
        with self._path.open("rb", buffering=0) as file:
            while piece := await asyncio.to_thread(file.read, PIECE_BYTES):
                self._advance(len(piece))
                yield piece

    def description(self) -> NewFile:
        """What is stored about it."""
        return self._description


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
