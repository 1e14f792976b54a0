"""Finds the files of folders that may be read, and reads their text."""

import logging
import os
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from antiphon.extras import install_command
from antiphon.retrieval.pdf import can_read_pdf, pdf_text

MAX_TEXT_BYTES = 2_000_000
MAX_PDF_BYTES = 20_000_000
"""A PDF file is much larger than its text."""
BINARY_PROBE_BYTES = 8192
"""A file with a NUL within these first bytes is not text."""
SKIPPED_FOLDERS = frozenset({"node_modules", "__pycache__"})
"""In addition to all whose names begin with a dot, such as `.git`."""

logger = logging.getLogger(__name__)


class FoundFile(Struct, frozen=True):
    """A readable file, with its state at the time of the search."""

    path: str
    """Relative to the root, with forward slashes."""
    place: Path
    stamp: tuple[int, int]
    """Modification time in nanoseconds, and size: two versions differ in one of them."""


class FileFinder:
    """Finds the files under some folders of a root. Blocking. Each file that is skipped is logged once."""

    def __init__(self, folders: Sequence[Path], root: Path) -> None:
        self._folders = folders
        self._root = root
        self._reads_pdf = can_read_pdf()
        self._logged: set[str] = set()

    def find(self) -> dict[str, FoundFile]:
        return {file.path: file for folder in self._folders for file in self._walk(folder)}

    def _walk(self, top: Path) -> Iterator[FoundFile]:
        """Real folders first, then linked ones, each once even if several paths lead to it."""
        real, linked, seen = deque([top]), deque[Path](), set[Path]()
        while real or linked:
            folder = real.popleft() if real else linked.popleft()
            if (resolved := folder.resolve()) in seen:
                continue
            seen.add(resolved)
            for entry in self._entries(folder):
                if _is_skipped(entry.name) or not self._is_allowed(entry):
                    continue
                if entry.is_dir():
                    (linked if entry.is_symlink() else real).append(Path(entry.path))
                elif entry.is_file() and (file := self._file(entry)):
                    yield file

    def _entries(self, folder: Path) -> list[os.DirEntry[str]]:
        try:
            with os.scandir(folder) as entries:
                return sorted(entries, key=lambda entry: entry.name)
        except OSError as error:
            self._log_once(str(folder), f"cannot be read ({error.strerror})")
            return []

    def _is_allowed(self, entry: os.DirEntry[str]) -> bool:
        """A link may only lead to a target within the folders that is not hidden."""
        if not entry.is_symlink():
            return True
        target = Path(entry.path).resolve()
        homes = [folder for folder in self._folders if target.is_relative_to(folder)]
        return any(not any(map(_is_skipped, target.relative_to(home).parts)) for home in homes)

    def _file(self, entry: os.DirEntry[str]) -> FoundFile | None:
        place = Path(entry.path)
        path = place.relative_to(self._root).as_posix()
        try:
            path.encode()
            status = entry.stat()
        except UnicodeEncodeError:
            return self._log_once(ascii(path), "is skipped: its name is not UTF-8")
        except OSError:  # deleted meanwhile
            return None
        is_pdf = place.suffix.lower() == ".pdf"
        if status.st_size > (MAX_PDF_BYTES if is_pdf else MAX_TEXT_BYTES):
            return self._log_once(path, f"is skipped: {status.st_size} bytes exceed the limit")
        if is_pdf and not self._reads_pdf:
            return self._log_once("*.pdf", f"files are skipped. To read them: {install_command('documents')}")
        return FoundFile(path, place, (status.st_mtime_ns, status.st_size))

    def _log_once(self, what: str, why: str) -> None:
        if what not in self._logged:
            self._logged.add(what)
            logger.warning("%s %s.", what, why)


def read_text(file: FoundFile) -> str | None:
    """The text of a file; None: it is binary or cannot be read. Bytes that are not UTF-8 are replaced."""
    try:
        data = file.place.read_bytes()
    except OSError as error:
        logger.warning("%s cannot be read (%s).", file.path, error.strerror)
        return None
    if file.place.suffix.lower() == ".pdf":
        text = pdf_text(data)
        if text is None:
            logger.warning("%s is skipped: it is not a readable PDF file.", file.path)
        return text
    return None if b"\0" in data[:BINARY_PROBE_BYTES] else data.decode("utf-8-sig", "replace")


def _is_skipped(name: str) -> bool:
    return name.startswith(".") or name in SKIPPED_FOLDERS
