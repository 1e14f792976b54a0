"""The progress of files on their way into a vector store: bars on a terminal, otherwise lines."""

import asyncio
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import click

from antiphon.caller import Caller
from antiphon.cli.terminal import errors, printable, shorten
from antiphon.errors import NotFound
from antiphon.service.files.local_file import Advance
from antiphon.service.vector_stores.stores import VectorStoreService
from antiphon.store.base import Page
from antiphon.store.vector_stores import VectorStoreFile

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

POLL_SECONDS = 0.2
LIST_PAGE_FILES = 1000
MAX_BARS = 4
"""Of files in progress; the others wait."""
LABEL_CHARACTERS = 40


class Display(Protocol):
    """Where the progress is shown."""

    def send(self, path: str, size: int) -> Advance:
        """A file of so many bytes is sent from now on."""
        ...

    def work(self, paths: Mapping[str, int]) -> None:
        """These files are in progress, with so many bytes saved."""
        ...

    def end(self, path: str, error: str) -> None:
        """A file is completed, or has failed."""
        ...

    def skip(self) -> None:
        """A file is in the store already."""
        ...

    def wait(self, reason: str) -> None:
        """The files wait for something."""
        ...


@dataclass
class Lines:
    """A line for each file."""

    _reasons: set[str] = field(default_factory=set[str])

    def send(self, path: str, size: int) -> Advance:
        del path, size
        return lambda _size: None

    def work(self, paths: Mapping[str, int]) -> None:
        pass

    def end(self, path: str, error: str) -> None:
        click.echo(printable(f"{'failed   ' if error else 'completed'}  {path}"), err=True)

    def skip(self) -> None:
        pass

    def wait(self, reason: str) -> None:
        if reason not in self._reasons:
            self._reasons.add(reason)
            errors().print(printable(reason), style="yellow", markup=False, soft_wrap=True)


class Bars:
    """A bar for all files, and one for each that is sent or in progress."""

    def __init__(self, progress: "Progress", total: int) -> None:
        self._progress = progress
        self._all = progress.add_task("all files", total=total, amount=f"0 of {total}")
        self._total = total
        self._ended = 0
        self._sending: TaskID | None = None
        self._working: dict[str, TaskID] = {}

    def send(self, path: str, size: int) -> Advance:
        self._drop_sending()
        task = self._sending = self._progress.add_task(_label(path), total=size, amount="sent")
        return lambda count: self._progress.advance(task, count)

    def work(self, paths: Mapping[str, int]) -> None:
        self._drop_sending()
        shown = dict(list(paths.items())[:MAX_BARS])
        for path in self._working.keys() - shown.keys():
            self._progress.remove_task(self._working.pop(path))
        for path, size in shown.items():
            if path not in self._working:
                self._working[path] = self._progress.add_task(_label(path), total=None, amount="")
            self._progress.update(self._working[path], amount=f"{size / 1000:.0f} kB indexed")

    def end(self, path: str, error: str) -> None:
        del error
        self.skip()
        if path in self._working:
            self._progress.remove_task(self._working.pop(path))

    def skip(self) -> None:
        self._ended += 1
        self._progress.update(self._all, completed=self._ended, amount=f"{self._ended} of {self._total}")

    def wait(self, reason: str) -> None:
        self._progress.update(self._all, amount=shorten(printable(reason)))

    def _drop_sending(self) -> None:
        if self._sending is not None:
            self._progress.remove_task(self._sending)
            self._sending = None


@contextmanager
def open_display(total: int) -> Generator[Display, None, None]:
    """Where the progress of so many files is shown: on standard error."""
    console = errors()
    if not console.is_terminal:
        yield Lines()
        return
    from rich.progress import BarColumn, Progress, TextColumn  # noqa: PLC0415 -- as in `files add`

    label = TextColumn("{task.description}", markup=False)
    amount = TextColumn("{task.fields[amount]}", markup=False)
    with Progress(label, BarColumn(), amount, console=console, transient=True) as progress:
        yield Bars(progress, total)


async def wait_until_added(
    stores: VectorStoreService, caller: Caller, store_id: str, pending: Mapping[str, str], display: Display
) -> dict[str, str]:
    """Wait for files, given by id and path. Returns the reasons of those that failed, by path."""
    failed: dict[str, str] = {}
    left = dict(pending)
    while left:
        working = await _in_progress(stores, caller, store_id)
        for file_id in [each for each in left if each not in working]:
            error = await _error_of(stores, caller, store_id, file_id)
            if error is not None:
                path = left.pop(file_id)
                display.end(path, error)
                if error:
                    failed[path] = error
        display.work({left[each]: file.usage_bytes for each, file in working.items() if each in left})
        for file in working.values():
            if file.error is not None and file.id in left:
                display.wait(file.error.message)
        if left:
            await asyncio.sleep(POLL_SECONDS)
    return failed


async def _in_progress(
    stores: VectorStoreService, caller: Caller, store_id: str
) -> dict[str, VectorStoreFile]:
    """The files of a store that are in progress, oldest first."""
    found: dict[str, VectorStoreFile] = {}
    after, has_more = None, True
    while has_more:
        page = Page(limit=LIST_PAGE_FILES, after=after, order="asc")
        files, has_more = await stores.files.list(caller, store_id, page, status="in_progress")
        found |= {file.id: file for file in files}
        after = files[-1].id if files else None
    return found


async def _error_of(stores: VectorStoreService, caller: Caller, store_id: str, file_id: str) -> str | None:
    """Why a file is not completed; empty: it is; None: it is in progress."""
    try:
        file = await stores.files.retrieve(caller, store_id, file_id)
    except NotFound:
        return "It was removed from the store meanwhile."
    if file.status == "in_progress":
        return None
    if file.status == "completed":
        return ""
    return file.error.message if file.error is not None else f"It was {file.status}."


def _label(path: str) -> str:
    """The end of a path, which says more than its beginning."""
    text = printable(path)
    return text if len(text) <= LABEL_CHARACTERS else f"…{text[1 - LABEL_CHARACTERS :]}"
