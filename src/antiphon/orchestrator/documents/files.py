"""How the files of a folder are read and written: never outside, never half, never over somebody's change.

Whoever writes a document holds `.AGN-004.new`, a file that only one process can make. It becomes the
document. After a crash it stays: a new document then gets the next number, and a change says what to delete.
"""

import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from stat import S_IMODE
from typing import BinaryIO

from antiphon.errors import InvalidRequest, NotFound

MAX_BYTES = 2**20
"""Longer files are not read and not written."""


def read_inside(folder: Path, name: str) -> bytes:
    """What a file of the folder holds."""
    path = locate(folder, name)
    if not path.is_file():
        raise NotFound(f"'{name}' is no file.", param="id")
    with path.open("rb") as file:
        return check_size(file.read(MAX_BYTES + 1), name)


def locate(folder: Path, name: str) -> Path:
    """Where a file of the folder really is; a link that leaves the folder is not followed."""
    path = Path(os.path.realpath(folder / name))
    if not path.is_relative_to(os.path.realpath(folder)):
        raise InvalidRequest(f"'{name}' is a link that leaves the folder.", param="id")
    return path


def check_size(data: bytes, name: str) -> bytes:
    """Refuse what is too long for a document."""
    if len(data) > MAX_BYTES:
        raise InvalidRequest(f"'{name}' is longer than {MAX_BYTES // 1024} KiB.", param="markdownBody")
    return data


def create_file(claim: Path, target: Path, data: bytes, is_free: Callable[[], bool]) -> bool:
    """Make a file, whole or not at all; False if it, or its claim, is somebody else's."""
    try:
        with _claimed(claim, data):
            if not is_free():
                raise FileExistsError
            os.link(claim, target)  # unlike a rename, this never overwrites
            claim.unlink()
    except FileExistsError:
        return False
    _sync_folder(target.parent)
    return True


def replace_file(claim: Path, target: Path, data: bytes, check: Callable[[], None]) -> None:
    """Give a file new contents at once, and keep its mode, unless `check` raises."""
    try:
        with _claimed(claim, data) as file:
            check()
            os.fchmod(file.fileno(), S_IMODE(target.stat().st_mode))
            claim.replace(target)
    except FileExistsError:
        raise InvalidRequest(
            f"'{target.name}' is being changed by somebody else. Try again; "
            f"if nobody works on it, a crash left '{claim.name}' behind: delete it.",
            param="id",
            code="document_busy",
        ) from None
    _sync_folder(target.parent)


@contextmanager
def _claimed(claim: Path, data: bytes) -> Generator[BinaryIO, None, None]:
    """A new file with this data, safe on disk. Who fails removes it; who succeeds has moved it."""
    with claim.open("xb") as file:
        try:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
            yield file
        except BaseException:
            claim.unlink(missing_ok=True)
            raise


def _sync_folder(folder: Path) -> None:
    """A new name is on disk when its folder is."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
