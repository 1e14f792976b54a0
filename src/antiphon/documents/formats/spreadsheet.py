"""Spreadsheets (XLSX, XLS, ODS): a section for each sheet, as a table of what its cells show."""

import datetime
import io
from collections.abc import Iterator
from typing import Any

from antiphon.documents.document import MAX_TEXT_CHARS, Document, Kind, SectionList, Unreadable
from antiphon.documents.tables import markdown_table

MAX_SHEETS = 1_000
_PANIC = "PanicException"
"""Raised when the parser, which is written in Rust, panics. It is no `Exception` and has no module."""


def read_spreadsheet(data: bytes, name: str, kind: Kind = "xlsx") -> Document:
    """All sheets, hidden ones too."""
    try:
        return _read(data, kind)
    except BaseException as error:
        if type(error).__name__ != _PANIC:
            raise
        raise Unreadable("invalid_file", f"The {kind.upper()} file is damaged: it cannot be read.") from None


def _read(data: bytes, kind: Kind) -> Document:
    import python_calamine  # noqa: PLC0415 -- optional: the [documents] extra

    try:
        book = python_calamine.CalamineWorkbook.from_filelike(io.BytesIO(data))
    except python_calamine.PasswordError:
        raise Unreadable("invalid_file", "The file is protected by a password.") from None
    found = SectionList("spreadsheet")
    for sheet_name in book.sheet_names[:MAX_SHEETS]:
        if found.is_full:
            found.omit(f"the sheets from '{sheet_name}' on are left out")
            break
        table = markdown_table(_rows(book.get_sheet_by_name(sheet_name)), MAX_TEXT_CHARS)
        if table:
            found.add(table, f"sheet {sheet_name}", "sheet")
    return found.document(kind)


def _rows(sheet: Any) -> Iterator[list[str]]:
    for row in sheet.iter_rows():
        yield [_shown(value) for value in row]


def _shown(value: object) -> str:
    match value:
        case bool():
            return "TRUE" if value else "FALSE"
        case float() if value.is_integer() and abs(value) < 1e15:
            return str(int(value))
        case datetime.datetime() if value.time() == datetime.time():
            return value.date().isoformat()
        case datetime.datetime():
            return value.isoformat(" ")
        case _:
            return str(value)
