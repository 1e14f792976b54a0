"""HTML as Markdown: headings, lists, tables and preformatted text; scripts, styles and forms are left out."""

import re
from html.parser import HTMLParser

from antiphon.documents.document import MAX_TEXT_CHARS, Document, SectionList
from antiphon.documents.encoding import decode, is_marked
from antiphon.documents.tables import markdown_table

_SKIPPED = frozenset({"script", "style", "template", "noscript", "svg", "select", "object", "iframe"})
_BLOCKS = frozenset(
    {
        "address",
        "article",
        "aside",
        "blockquote",
        "body",
        "br",
        "dd",
        "div",
        "dl",
        "dt",
        "figcaption",
        "figure",
        "footer",
        "form",
        "header",
        "hr",
        "html",
        "li",
        "main",
        "nav",
        "ol",
        "p",
        "pre",
        "section",
        "table",
        "title",
        "tr",
        "ul",
    }
)
_HEADINGS = {f"h{level}": "#" * level for level in range(1, 7)}
_CHARSET = re.compile(rb"<meta[^>]+charset=[\"']?([\w-]+)", re.I)
_BLANKS = re.compile(r"\n{3,}")


def read_html(data: bytes, name: str) -> Document:
    found = SectionList("page")
    found.add(html_to_markdown(_decoded(data)))
    return found.document("html")


def html_to_markdown(text: str) -> str:
    """The visible text of a page."""
    reader = _Reader()
    reader.feed(text)
    reader.close()
    return reader.markdown()


def _decoded(data: bytes) -> str:
    """The text; a page may name its encoding."""
    named = _CHARSET.search(data[:4096])
    if named and not is_marked(data):
        try:
            return data.decode(named[1].decode())
        except (LookupError, UnicodeDecodeError):
            pass
    return decode(data)


class _Table:
    def __init__(self) -> None:
        self.rows: list[list[str]] = []
        self.in_cell = False


class _Reader(HTMLParser):
    """Writes lines while tags come and go. Tags that are never closed do no harm."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._lines: list[str] = []
        self._line: list[str] = []
        self._prefix = ""
        self._skipped = ""
        self._skip_depth = 0
        self._pre = 0
        self._tables: list[_Table] = []
        self._size = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if self._skip_depth:
            self._skip_depth += tag == self._skipped
        elif tag in _SKIPPED:
            self._skipped, self._skip_depth = tag, 1
        elif tag in _HEADINGS or tag == "title":
            self._end_line(blank=True)
            self._prefix = f"{_HEADINGS.get(tag, '#')} "
        elif tag in ("td", "th", "tr", "table"):
            self._open_table_part(tag)
        elif tag in _BLOCKS:
            self._end_line(blank=tag in ("p", "ul", "ol", "pre", "blockquote"))
            if tag == "li":
                self._prefix = "- "
            elif tag == "pre":
                self._pre += 1
                self._lines.append("```")

    def handle_endtag(self, tag: str) -> None:
        if self._skip_depth:
            self._skip_depth -= tag == self._skipped
        elif tag in _HEADINGS or tag == "title":
            self._end_line(blank=True)
        elif tag in ("td", "th", "tr"):
            self._close_cell()
        elif tag == "table":
            self._close_table()
        elif tag == "pre" and self._pre:
            self._end_line()
            self._pre -= 1
            self._lines.append("```")
        elif tag in _BLOCKS:
            self._end_line(blank=tag in ("p", "ul", "ol"))

    def handle_data(self, data: str) -> None:
        if self._skip_depth or self._size > MAX_TEXT_CHARS:
            return
        self._size += len(data)
        if self._tables and not self._tables[-1].in_cell:
            return  # white space between cells
        if self._pre and not self._tables:
            *whole, last = data.split("\n")
            for line in whole:
                self._line.append(line)
                self._lines.append("".join(self._line))
                self._line = []
            self._line.append(last)
        else:
            self._line.append(data)

    def markdown(self) -> str:
        while self._tables:
            self._close_table()
        self._end_line()
        return _BLANKS.sub("\n\n", "\n".join(self._lines)).strip()

    def _end_line(self, *, blank: bool = False) -> None:
        if self._tables:
            self._line.append(" ")  # within a cell everything is one line
            return
        text = "".join(self._line) if self._pre else " ".join("".join(self._line).split())
        if text:
            self._lines.append(self._prefix + text)
            self._prefix = ""
        if blank:
            self._lines.append("")
        self._line = []

    def _open_table_part(self, tag: str) -> None:
        if tag == "table":
            if self._tables and self._tables[-1].in_cell:
                self._line.append(" ")
                return  # a table in a cell is text of the cell
            self._end_line(blank=True)
            self._tables = [_Table()]
        elif self._tables:
            self._close_cell()
            if tag == "tr" or not self._tables[-1].rows:
                self._tables[-1].rows.append([])
            self._tables[-1].in_cell = tag != "tr"

    def _close_cell(self) -> None:
        if self._tables and self._tables[-1].in_cell:
            self._tables[-1].rows[-1].append(" ".join("".join(self._line).split()))
            self._tables[-1].in_cell = False
            self._line = []

    def _close_table(self) -> None:
        if not self._tables:
            return
        self._close_cell()
        rows = self._tables.pop().rows
        self._line = []
        self._lines += ["", markdown_table(rows, MAX_TEXT_CHARS), ""]
