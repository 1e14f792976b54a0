"""DOCX files as Markdown: headings, lists and tables in their order."""

import io
import re
from collections.abc import Iterable, Iterator
from typing import Any

from antiphon.documents.document import MAX_TEXT_CHARS, Document, SectionList
from antiphon.documents.tables import markdown_table

_HEADING = re.compile(r"heading (\d)", re.I)
_LIST = re.compile(r"list (bullet|number|paragraph)", re.I)


def read_docx(data: bytes, name: str) -> Document:
    """The body; headers, footers and comments are left out."""
    import docx  # noqa: PLC0415 -- optional: the [documents] extra

    body = docx.Document(io.BytesIO(data))
    found = SectionList("document")
    found.add("\n".join(_up_to_limit(_blocks(body))).strip())
    return found.document("docx")


def _up_to_limit(blocks: Iterable[str]) -> Iterator[str]:
    size = 0
    for block in blocks:
        yield block
        size += len(block) + 1
        if size > MAX_TEXT_CHARS:
            return


def _blocks(body: Any) -> Iterator[str]:
    """Paragraphs and tables, each with the blank line that Markdown needs before it."""
    was_list = False
    styles: dict[str | None, str] = {}
    for block in body.iter_inner_content():
        if not hasattr(block, "rows"):
            identifier = block._p.style
            if identifier not in styles:
                styles[identifier] = (block.style.name if block.style is not None else "") or ""
            line, is_list = _paragraph(block.text.strip(), styles[identifier])
            if line:
                if not (is_list and was_list):
                    yield ""
                yield line
                was_list = is_list
        else:
            yield ""
            yield markdown_table(_rows(block), MAX_TEXT_CHARS)
            was_list = False


def _paragraph(text: str, style: str) -> tuple[str, bool]:
    """The line, and whether it is part of a list."""
    if not text:
        return "", False
    if style.lower() == "title":
        return f"# {_line(text)}", False
    if heading := _HEADING.match(style):
        return f"{'#' * min(6, int(heading[1]))} {_line(text)}", False
    if _LIST.match(style):
        return f"- {_line(text)}", True
    return text, False


def _line(text: str) -> str:
    return " ".join(text.split())


def _rows(table: Any) -> Iterator[list[str]]:
    """The texts of the cells; a cell that spans several columns has its text once."""
    for row in table.rows:
        cells: list[str] = []
        last = None
        for cell in row.cells:
            cells.append("" if cell._tc is last else cell.text)
            last = cell._tc
        yield cells
