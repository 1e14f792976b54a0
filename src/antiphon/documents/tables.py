"""Tables as Markdown. A long table is written in several, each with the header row, so that a part that is
shown alone can be understood."""

from collections.abc import Iterable, Iterator, Sequence

MAX_TABLE_ROWS = 40
MAX_TABLE_CHARS = 2_000
MAX_COLUMNS = 256
"""Further columns are left out."""


def markdown_table(rows: Iterable[Sequence[str]], max_chars: int) -> str:
    """The rows as tables, separated by blank lines; the first row that is not blank is the header. It ends
    after about so many characters."""
    written: list[str] = []
    size = 0
    for line in _lines(rows):
        written.append(line)
        size += len(line) + 1
        if size > max_chars:
            break
    return "\n".join(written)


def _lines(rows: Iterable[Sequence[str]]) -> Iterator[str]:
    header: list[str] = []
    columns = count = size = 0
    for given in rows:
        cells = [_cell(cell) for cell in given[:MAX_COLUMNS]]
        if not any(cells):
            continue
        if not header:
            columns = len(cells)
            header = [_row(cells, columns), _row(["---"] * columns, columns)]
            yield from header
            continue
        line = _row(cells, columns)
        if count and (count >= MAX_TABLE_ROWS or size + len(line) > MAX_TABLE_CHARS):
            yield ""
            yield from header
            count = size = 0
        yield line
        count, size = count + 1, size + len(line)


def _row(cells: Sequence[str], columns: int) -> str:
    """A row of at least so many columns."""
    padded = [*cells, *[""] * (columns - len(cells))]
    return f"| {' | '.join(padded)} |"


def _cell(text: str) -> str:
    """The text in one line, without separators."""
    return " ".join(text.split()).replace("|", "\\|")
