"""The files that paths of the command line stand for: files, and those in folders that can be read."""

import os
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

from antiphon.retrieval.files import SKIPPED_FOLDERS, may_be_document
from antiphon.service.vector_stores.local_files import LocalSource


class FoundFiles(NamedTuple):
    """The files to add, and how many of the folders are of types that are not read, or empty."""

    files: Sequence[LocalSource]
    skipped: int


class IgnoreRule(NamedTuple):
    """A line of a `.gitignore` in the folder `base`."""

    base: Path
    pattern: str
    is_negated: bool

    @classmethod
    def of(cls, base: Path, line: str) -> "IgnoreRule | None":
        """The rule of a line; None if it has none."""
        pattern = line.strip()
        if not pattern or pattern.startswith("#"):
            return None
        is_negated = pattern.startswith("!")
        return cls(base, pattern.removeprefix("!"), is_negated)

    def matches(self, place: Path, is_folder: bool) -> bool:
        """Whether the line is about this file or folder."""
        if self.pattern.endswith("/") and not is_folder:
            return False
        pattern = self.pattern.rstrip("/")
        if "/" not in pattern:
            return fnmatchcase(place.name, pattern)
        path = place.relative_to(self.base).as_posix()
        return fnmatchcase(path, pattern.lstrip("/")) or (
            pattern.startswith("**/") and fnmatchcase(path, pattern.removeprefix("**/"))
        )


def find_files(paths: Iterable[Path], current: Path) -> FoundFiles:
    """The files of these paths, each once. Files that are named are taken whatever they are."""
    files: dict[Path, LocalSource] = {}
    skipped: set[Path] = set()
    for given in paths:
        top = Path(os.path.abspath(given))  # without following links: paths are shown as they were given
        root = current if top.is_relative_to(current) else top.parent
        if not top.is_dir():
            files.setdefault(top, LocalSource(top.relative_to(root).as_posix(), top))
            continue
        for place in _walk(top, _rules_above(top)):
            if may_be_document(place):
                files.setdefault(place, LocalSource(place.relative_to(root).as_posix(), place))
            else:
                skipped.add(place)
    return FoundFiles(list(files.values()), len(skipped - files.keys()))


def _walk(folder: Path, rules: Sequence[IgnoreRule]) -> Iterator[Path]:
    """The files below a folder. Links to folders are not followed."""
    rules = [*rules, *_rules_of(folder)]
    with os.scandir(folder) as found:
        entries = sorted(found, key=lambda entry: entry.name)
    for entry in entries:
        place, is_folder = Path(entry.path), entry.is_dir(follow_symlinks=False)
        if entry.name.startswith(".") or _is_ignored(place, is_folder, rules):
            continue
        if is_folder:
            if entry.name not in SKIPPED_FOLDERS:
                yield from _walk(place, rules)
        elif entry.is_file():
            yield place


def _rules_above(folder: Path) -> list[IgnoreRule]:
    """The rules of the folders above, up to the one with `.git`; none if this is no repository."""
    above: list[Path] = []
    for parent in (folder, *folder.parents):
        if parent != folder:
            above.append(parent)
        if (parent / ".git").exists():
            return [rule for place in reversed(above) for rule in _rules_of(place)]
    return []


def _rules_of(folder: Path) -> list[IgnoreRule]:
    try:
        lines = (folder / ".gitignore").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
    return [rule for line in lines if (rule := IgnoreRule.of(folder, line)) is not None]


def _is_ignored(place: Path, is_folder: bool, rules: Sequence[IgnoreRule]) -> bool:
    """The last rule that matches decides."""
    last = next((rule for rule in reversed(rules) if rule.matches(place, is_folder)), None)
    return last is not None and not last.is_negated
