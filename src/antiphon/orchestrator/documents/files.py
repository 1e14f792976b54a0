"""Reads and writes the files of a folder: never outside it, never partially, never over a concurrent change.

A writer creates `.AGN-004.new` exclusively, and moves it to the document. If a crash leaves it behind, a new
document gets the next number, and a change reports which file to delete.
"""

import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from stat import S_IMODE
from typing import BinaryIO

from antiphon.errors import InvalidRequest, NotFound

MAX_DOCUMENT_BYTES = 2**20
"""Longer files are neither read nor written."""


def read_inside(folder: Path, name: str) -> bytes:
    path = locate(folder, name)
    if not path.is_file():
        raise NotFound(f"'{name}' is not a file.", param="id")
    with path.open("rb") as file:
        return check_size(file.read(MAX_DOCUMENT_BYTES + 1), name)


def locate(folder: Path, name: str) -> Path:
    """The real path of a file of the folder. Raises `InvalidRequest` for a link that leaves the folder."""
    path = Path(os.path.realpath(folder / name))
    if not path.is_relative_to(os.path.realpath(folder)):
        raise InvalidRequest(f"'{name}' is a link that leaves the folder.", param="id")
    return path


def check_size(data: bytes, name: str) -> bytes:
    """Raise `InvalidRequest` for a document that is too long."""
    if len(data) > MAX_DOCUMENT_BYTES:
        raise InvalidRequest(
            f"'{name}' is longer than {MAX_DOCUMENT_BYTES // 1024} KiB.", param="markdownBody"
        )
    return data


def create_file(lock: Path, target: Path, data: bytes, is_free: Callable[[], bool]) -> bool:
    """Create a file atomically; False: it exists, or another process is writing it."""
    try:
        with _locked(lock, data):
            if not is_free():
                raise FileExistsError
            os.link(lock, target)  # unlike a rename, this never overwrites
            lock.unlink()
    except FileExistsError:
        return False
    _sync_folder(target.parent)
    return True


def replace_file(lock: Path, target: Path, data: bytes, check: Callable[[], None]) -> None:
    """Replace the contents of a file atomically, with its mode, unless `check` raises."""
    try:
        with _locked(lock, data) as file:
            check()
            os.fchmod(file.fileno(), S_IMODE(target.stat().st_mode))
            lock.replace(target)
    except FileExistsError:
        raise InvalidRequest(
            f"'{target.name}' is being changed by another process. Try again; "
            f"if there is no such process, a crash left '{lock.name}' behind: delete it.",
            param="id",
            code="document_busy",
        ) from None
    _sync_folder(target.parent)


@contextmanager
def _locked(lock: Path, data: bytes) -> Generator[BinaryIO, None, None]:
    """A new file with this data, synced to disk. It is removed on an exception; else the caller moves it."""
    with lock.open("xb") as file:
        try:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
            yield file
        except BaseException:
            lock.unlink(missing_ok=True)
            raise


def _sync_folder(folder: Path) -> None:
    """Sync a folder, so that a new name in it is durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
