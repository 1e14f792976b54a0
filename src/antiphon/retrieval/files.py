"""Finds the files of folders that may be read, and reads their text."""

import logging
import os
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from antiphon.documents.detection import glance
from antiphon.documents.document import Document, Unreadable
from antiphon.documents.reader import BlockingReader

MAX_TEXT_BYTES = 2_000_000
MAX_DOCUMENT_BYTES = 20_000_000
"""A PDF file and the like is much larger than its text."""
DOCUMENT_NAMES = frozenset({".docx", ".eml", ".ods", ".pdf", ".pptx", ".rtf", ".xls", ".xlsx"})
PROBE_BYTES = 64 * 1024
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
            self._log_once(str(folder), f"cannot be read ({error.strerror}).")
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
            return self._log_once(ascii(path), "is skipped: its name is not UTF-8.")
        except OSError:  # deleted meanwhile
            return None
        is_document = place.suffix.lower() in DOCUMENT_NAMES
        if status.st_size > (MAX_DOCUMENT_BYTES if is_document else MAX_TEXT_BYTES):
            return self._log_once(path, f"is skipped: {status.st_size} bytes exceed the limit.")
        return FoundFile(path, place, (status.st_mtime_ns, status.st_size))

    def read(self, file: FoundFile, reader: BlockingReader) -> Document | None:
        """The text of a file; None: it has none, which is logged unless it is a type that is not read."""
        try:
            data = file.place.read_bytes()
        except OSError as error:
            logger.warning("%s cannot be read (%s).", file.path, error.strerror)
            return None
        if not data.strip():
            return None
        try:
            return reader.read(data, file.path)
        except Unreadable as error:
            if error.code == "invalid_file":
                logger.warning("%s is skipped: %s", file.path, error.message)
            elif error.code == "reader_not_installed":
                self._log_once(f"*{file.place.suffix.lower()}", f"files are skipped. {error.message}")
        return None

    def _log_once(self, what: str, why: str) -> None:
        if what not in self._logged:
            self._logged.add(what)
            logger.warning("%s %s", what, why)


def _is_skipped(name: str) -> bool:
    return name.startswith(".") or name in SKIPPED_FOLDERS


def may_be_document(place: Path) -> bool:
    """Whether a file is of a type that is read, by its beginning. One that cannot be opened may be."""
    try:
        with place.open("rb") as file:
            kind = glance(file.read(PROBE_BYTES), place.name)
    except Unreadable:
        return False
    except OSError:
        return True
    return kind != "zip" or place.suffix.lower() in DOCUMENT_NAMES
