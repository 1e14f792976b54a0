"""The blob store in a folder: an object is a file; one that is not complete has another name.

All work is done in threads. A file is synchronised before it gets its name.
"""

import asyncio
import errno
import os
import threading
from collections.abc import AsyncGenerator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, NoReturn, TypeVar

from antiphon.errors import SettingsError, StoreFull, StoreUnavailable
from antiphon.store.blobs.port import PIECE_BYTES

MAX_THREADS = 4
"""Threads that read and write. They are not those of the event loop, which must stay free for other work."""
INCOMPLETE = ".incomplete"
_NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


T = TypeVar("T")


class Threads:
    """Runs functions that block."""

    def __init__(self, executor: ThreadPoolExecutor) -> None:
        self._executor = executor

    def run(self, work: Callable[..., T], *args: object) -> "asyncio.Future[T]":
        """The result of a function."""
        return asyncio.get_running_loop().run_in_executor(self._executor, work, *args)


class FolderBlobs:
    """See `BlobStore`. A key is a path below the folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._threads = Threads(ThreadPoolExecutor(MAX_THREADS, "antiphon-files"))

    def check(self) -> None:
        """Create the folder. Raises `SettingsError` if it cannot be written."""
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            probe = self._folder / f"probe.{os.getpid()}"
            probe.touch(mode=0o600)
            probe.unlink()
        except OSError as error:
            raise SettingsError(
                f"Cannot store files in {self._folder}: {error.strerror}. "
                "Make the folder writable, or name another place with files.url."
            ) from None

    async def create(self, key: str) -> "FolderWriter":
        """Begin an object."""
        path = self._folder / key
        try:
            file = await self._threads.run(_open_new, path)
        except OSError as error:
            _refuse(error)
        return FolderWriter(path, file, self._threads)

    async def read(self, key: str, start: int, end: int) -> AsyncGenerator[bytes, None]:
        """The bytes [start, end) of an object."""
        try:
            file = await self._threads.run(_open_at, self._folder / key, start)
            try:
                while start < end:
                    piece = await self._threads.run(file.read, min(PIECE_BYTES, end - start))
                    if not piece:
                        raise StoreUnavailable("The content of this file is shorter than it was.")
                    yield piece
                    start += len(piece)
            finally:
                file.close()
        except OSError as error:
            _refuse(error)

    async def delete(self, keys: Sequence[str]) -> None:
        """Delete objects, complete or not."""
        try:
            await self._threads.run(_delete, [self._folder / key for key in keys])
        except OSError as error:
            _refuse(error)


class FolderWriter:
    """See `BlobWriter`."""

    def __init__(self, path: Path, file: BinaryIO, threads: "Threads") -> None:
        self._path = path
        self._file = file
        self._threads = threads
        self._lock = threading.Lock()
        """Whoever waits for a thread may be cancelled: the file is not closed while it is written."""

    async def write(self, pieces: Sequence[bytes]) -> None:
        """Append pieces."""
        try:
            await self._threads.run(self._locked, _write, self._file, pieces)
        except OSError as error:
            _refuse(error)

    async def commit(self) -> None:
        """Synchronise the file and give it its name."""
        try:
            await self._threads.run(self._locked, _commit, self._file, self._path)
        except OSError as error:
            _refuse(error)

    async def abort(self) -> None:
        """Delete the file."""
        await self._threads.run(self._locked, _abort, self._file, self._path)

    def _locked(self, work: Callable[..., None], *args: object) -> None:
        with self._lock:
            work(*args)


def _open_new(path: Path) -> BinaryIO:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(_incomplete(path), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    return os.fdopen(descriptor, "wb", buffering=0)


def _open_at(path: Path, start: int) -> BinaryIO:
    file = path.open("rb", buffering=0)
    file.seek(start)
    return file


def _write(file: BinaryIO, pieces: Sequence[bytes]) -> None:
    """Write all of them completely: a disk that gets full takes a part first."""
    for piece in pieces:
        rest = memoryview(piece)
        while rest:
            rest = rest[file.write(rest) :]


def _commit(file: BinaryIO, path: Path) -> None:
    os.fsync(file.fileno())
    file.close()
    _incomplete(path).rename(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _abort(file: BinaryIO, path: Path) -> None:
    with suppress(OSError):
        file.close()
    with suppress(OSError):  # upkeep tries again
        _incomplete(path).unlink(missing_ok=True)


def _delete(paths: Sequence[Path]) -> None:
    for path in paths:
        path.unlink(missing_ok=True)
        _incomplete(path).unlink(missing_ok=True)


def _incomplete(path: Path) -> Path:
    return path.with_name(path.name + INCOMPLETE)


def _refuse(error: OSError) -> NoReturn:
    if error.errno in _NO_SPACE:
        raise StoreFull("There is no space left for files. Nothing was stored.") from error
    raise StoreUnavailable(
        f"The content of files cannot be accessed right now ({error.strerror}). Try again in a moment."
    ) from error
