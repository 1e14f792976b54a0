"""The lines of keys in a TOML file, which `tomllib` does not tell.

It scans text that `tomllib` has accepted: headers of tables, keys before `=`, and values only as far as to
find where they end. Keys inside an inline table or an array are found at the line of the key that holds them.
"""

import re
from collections.abc import Iterator, Sequence

KeyPath = tuple[str | int, ...]
"""Keys of tables, and positions in arrays of tables."""

_KEY = r"""(?:[A-Za-z0-9_-]+|"(?:[^"\\]|\\.)*"|'[^']*')"""
_DOTTED = rf"{_KEY}(?:\s*\.\s*{_KEY})*"
_HEADER = re.compile(rf"\s*(\[\[?)\s*({_DOTTED})\s*\]\]?\s*(?:#.*)?$")
_ASSIGNMENT = re.compile(rf"\s*({_DOTTED})\s*=(.*)$", re.DOTALL)
_TOKEN = re.compile(r'"""|\'\'\'|"(?:[^"\\\n]|\\.)*"|\'[^\'\n]*\'|#.*|[\[\]{}]')


def find_line(text: str, path: KeyPath) -> int | None:
    """The line of the longest part of a path that is there, counted from 1; None if nothing is."""
    lines = {found: number for number, found in reversed([*_keys(text)]) if found == path[: len(found)]}
    return lines[max(lines, key=len)] if lines else None


def _keys(text: str) -> Iterator[tuple[int, KeyPath]]:
    """Every header and key, with its line and its full path."""
    table: KeyPath = ()
    positions: dict[KeyPath, int] = {}
    value = _Value()
    for number, line in enumerate(text.split("\n"), 1):
        if value.is_open:
            value.read(line)
        elif header := _HEADER.match(line):
            table = _table(_parts(header[2]), positions, is_array=header[1] == "[[")
            yield number, table
        elif assignment := _ASSIGNMENT.match(line):
            yield number, (*table, *_parts(assignment[1]))
            value.read(assignment[2])


def _table(names: Sequence[str], positions: dict[KeyPath, int], *, is_array: bool) -> KeyPath:
    """The full path of a header: `[a.b]` may be inside the last element of `[[a]]`."""
    path: KeyPath = ()
    for place, name in enumerate(names):
        path = (*path, name)
        if is_array and place == len(names) - 1:
            positions[path] = positions.get(path, -1) + 1
        if path in positions:
            path = (*path, positions[path])
    return path


def _parts(dotted: str) -> list[str]:
    return [part[1:-1] if part[0] in "\"'" else part for part in re.findall(_KEY, dotted)]


class _Value:
    """A value that may continue on further lines: in brackets, or in a string of several lines."""

    def __init__(self) -> None:
        self._depth = 0
        self._quotes = ""

    @property
    def is_open(self) -> bool:
        return bool(self._quotes) or self._depth > 0

    def read(self, line: str) -> None:
        """Read a line of the value."""
        place = 0
        while place < len(line):
            if self._quotes:
                end = line.find(self._quotes, place)
                if end < 0:
                    return
                self._quotes, place = "", end + 3
                continue
            token = _TOKEN.search(line, place)
            if token is None:
                return
            place = token.end()
            if token[0] in ('"""', "'''"):
                self._quotes = token[0]
            elif token[0] in "[{":
                self._depth += 1
            elif token[0] in "]}":
                self._depth -= 1
