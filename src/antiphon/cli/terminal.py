"""Where and how the commands write: consoles, tables, JSON, dates, durations.

Rich decides about colours: they are used on a terminal, unless NO_COLOR is set.
"""

import sys
import unicodedata
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime

import click
import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

PIPE_WIDTH = 200
"""Columns of a table that is not written to a terminal, so that its rows are not folded."""
EXCERPT_CHARACTERS = 100

UNIT_SECONDS = {"w": 7 * 86400, "d": 86400, "h": 3600, "min": 60, "s": 1}
_FORMATTED_UNITS = ("d", "h", "min", "s")
_ALLOWED_CONTROLS = "\t\n\u200c\u200d"
"""White space, and the characters that join or separate letters and emoji."""


class _Printable(dict[int, int | None]):
    """A translation table that removes control and format characters. Each character is classified once."""

    def __missing__(self, code: int) -> int | None:
        removed = unicodedata.category(chr(code)) in ("Cc", "Cf") and chr(code) not in _ALLOWED_CONTROLS
        self[code] = None if removed else code
        return self[code]


_printable = _Printable()


def output() -> Console:
    """A console for standard output."""
    return Console(highlight=False)


def errors() -> Console:
    """A console for standard error."""
    return Console(stderr=True, highlight=False)


def on_terminal() -> bool:
    """Whether standard output is a terminal."""
    return sys.stdout.isatty()


def is_interactive() -> bool:
    """Whether both standard input and standard output are terminals."""
    return sys.stdin.isatty() and sys.stdout.isatty()


@contextmanager
def spinner(text: str) -> Generator[None, None, None]:
    """Show on standard error, if that is a terminal, that work is going on."""
    console = errors()
    if console.is_terminal:
        with console.status(Text(text, style="dim")):
            yield
    else:
        yield


def printable(text: str) -> str:
    """The text without control and format characters, so that a model's output can neither control the
    terminal nor change the order in which its text is displayed."""
    return text.translate(_printable)


def shorten(text: str, width: int = EXCERPT_CHARACTERS) -> str:
    """The text on one line of at most `width` characters."""
    line = " ".join(text.split())
    return line if len(line) <= width else f"{line[: width - 1]}…"


def print_note(line: str) -> None:
    """Print a remark on standard output, in the place of a result."""
    output().print(line, style="dim", markup=False, soft_wrap=True)


def print_json(value: object) -> None:
    """Print a value as indented JSON."""
    click.echo(msgspec.json.format(msgspec.json.encode(value), indent=2))


def print_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows under headings."""
    console = output()
    if not console.is_terminal:
        console.width = PIPE_WIDTH
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in headings:
        table.add_column(heading, no_wrap=heading == headings[0])
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    console.print(table)


def format_duration(seconds: float) -> str:
    """A duration in the largest unit that fits, rounded down: `12 s`, `3 min`, `2 h`, `5 d`."""
    total = max(0, int(seconds))
    unit = next((unit for unit in _FORMATTED_UNITS if total >= UNIT_SECONDS[unit]), "s")
    return f"{total // UNIT_SECONDS[unit]} {unit}"


def format_date(timestamp: float) -> str:
    """A time in UTC, to the minute."""
    return datetime.fromtimestamp(timestamp, UTC).strftime("%Y-%m-%d %H:%M UTC")


def format_size(size: int) -> str:
    """A number of bytes in the largest unit that fits: `812 B`, `1.5 kB`, `20.0 MB`."""
    amount, unit = float(size), "B"
    for larger in ("kB", "MB", "GB"):
        if amount < 1000:
            break
        amount, unit = amount / 1000, larger
    return f"{size} B" if unit == "B" else f"{amount:.1f} {unit}"
