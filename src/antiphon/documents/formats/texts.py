"""Texts: plain ones, Markdown and source code as they are; JSON, CSV and RTF."""

import csv
import io
import json
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from typing import Any

from antiphon.documents.document import MAX_TEXT_CHARS, Document, Kind, SectionList, Unreadable
from antiphon.documents.encoding import decode
from antiphon.documents.tables import markdown_table

LONG_LINE_CHARS = 2_000
"""JSON with such lines is written anew, line by line."""
PROBE_CHARS = 16_384
_MAX_FIELD_CHARS = 1_000_000
_SEPARATORS = ",;\t|"


def read_text(data: bytes, name: str, kind: Kind = "text") -> Document:
    """The text itself."""
    return _single(decode(data), kind)


def read_json(data: bytes, name: str) -> Document:
    """The text itself; if it has very long lines, it is indented."""
    text = decode(data)
    if any(len(line) > LONG_LINE_CHARS for line in text.splitlines()):
        with suppress(ValueError):  # it may only look like JSON: its text is there all the same
            text = json.dumps(json.loads(text), ensure_ascii=False, indent=1)
    return _single(text, "json")


def read_csv(data: bytes, name: str) -> Document:
    """A table, with the separator that its first lines have in common."""
    csv.field_size_limit(_MAX_FIELD_CHARS)
    found = SectionList("table")
    found.add(markdown_table(_csv_rows(decode(data)), MAX_TEXT_CHARS))
    return found.document("csv")


def _csv_rows(text: str) -> Iterator[list[str]]:
    try:
        separator = max(_SEPARATORS, key=lambda mark: _columns(text[:PROBE_CHARS], mark))
        yield from csv.reader(io.StringIO(text, newline=""), delimiter=separator)
    except csv.Error as error:
        raise Unreadable("invalid_file", f"The CSV file cannot be read: {error}.") from None


def _columns(text: str, separator: str) -> int:
    """How many columns all of the first rows have."""
    rows = islice(csv.reader(io.StringIO(text, newline=""), delimiter=separator), 20)
    return min((len(row) for row in rows if row), default=0)


def read_rtf(data: bytes, name: str) -> Document:
    """The text of an RTF file; tables have their cells separated by bars."""
    from striprtf import striprtf  # noqa: PLC0415 -- optional: the [documents] extra

    reader: Any = striprtf
    return _single(reader.rtf_to_text(data.decode("latin-1"), errors="replace"), "rtf")


def _single(text: str, kind: Kind) -> Document:
    found = SectionList("file")
    found.add(text)
    return found.document(kind)
