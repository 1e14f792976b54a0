"""An answer on a terminal: Markdown, words wrapped, redrawn while it arrives.

Only the last block (a paragraph, a list item, a fenced piece of code) is redrawn; a block that is complete is
printed once and scrolls away like any other output.
"""

import re
from collections.abc import Callable
from typing import ClassVar

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.live import Live
from rich.markdown import Heading, Markdown, MarkdownElement
from rich.padding import Padding
from rich.segment import Segment
from rich.text import Text

REFRESHES_PER_SECOND = 8
_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})", re.MULTILINE)
_BLANK_LINE = re.compile(r"\n[ \t]*\n")


class _Heading(Heading):
    """At the left, and not centred in a box."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        self.text.justify = "left"
        yield self.text


class _Markdown(Markdown):
    elements: ClassVar[dict[str, type[MarkdownElement]]] = {**Markdown.elements, "heading_open": _Heading}


class _Trimmed:
    """A renderable without the blank lines above and below that Markdown gives to lists, code and tables."""

    def __init__(self, renderable: RenderableType) -> None:
        self._renderable = renderable

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        lines = console.render_lines(self._renderable, options, pad=False)
        filled = [index for index, line in enumerate(lines) if any(part.text.strip() for part in line)]
        for line in lines[filled[0] : filled[-1] + 1] if filled else []:
            yield from _without_padding(line)
            yield Segment.line()


def _without_padding(line: list[Segment]) -> list[Segment]:
    """The line without spaces at its end, which would be copied from the terminal with it."""
    while line and not line[-1].text.strip():
        line = line[:-1]
    return [*line[:-1], Segment(line[-1].text.rstrip(), line[-1].style)] if line else []


def markdown(text: str) -> RenderableType:
    """Text of a model as Markdown. Links are shown with their address: a link must show where it leads."""
    return _Trimmed(_Markdown(with_line_breaks(text), code_theme="ansi_dark", hyperlinks=False))


def with_line_breaks(text: str) -> str:
    """Markdown in which lines stay lines: models break lines of verses, but do not wrap prose."""
    if _FENCE.search(text):
        return text
    return re.sub(r"(?<=\S)\n(?=[ \t]*\S)", "  \n", text)


def reasoning(text: str) -> RenderableType:
    """Reasoning of a model, dim and indented."""
    return Padding(Text(text.strip("\n"), style="dim italic"), (0, 0, 0, 2))


class BlockPrinter:
    """Prints one text, block by block. Pair it with `close`, also after an interrupt."""

    def __init__(self, console: Console, render: Callable[[str], RenderableType]) -> None:
        self._console = console
        self._render = render
        self._open = ""
        """The text after the last complete block."""
        self._gap_is_due = False
        """Whether a blank line separates the next block from the one before."""
        self._live: Live | None = None

    def write(self, text: str) -> None:
        """Show more of the text."""
        self._open += text
        while (end := end_of_block(self._open)) is not None:
            block, self._open = self._open[:end], self._open[end:]
            self._print(block)
        if self._open.strip():
            self._redraw()

    def close(self) -> None:
        """Print the rest."""
        rest, self._open = self._open, ""
        self._print(rest)

    def _print(self, block: str) -> None:
        self._stop()
        if not block.strip():
            return
        self._print_gap()
        self._console.print(self._render(block))
        self._gap_is_due = True

    def _redraw(self) -> None:
        if self._live is None:
            self._print_gap()
            self._live = Live(
                console=self._console, refresh_per_second=REFRESHES_PER_SECOND, transient=True, screen=False
            )
            self._live.start()
        self._live.update(self._render(self._open))

    def _stop(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _print_gap(self) -> None:
        if self._gap_is_due:
            self._console.print()
        self._gap_is_due = False


def end_of_block(text: str) -> int | None:
    """Where the first block of the text ends, with the blank line after it; None if it may continue."""
    for blank in _BLANK_LINE.finditer(text):
        if not _in_fence(text[: blank.start()]):
            return blank.end()
    return None


def _in_fence(text: str) -> bool:
    """Whether a fenced piece of code is open at the end of the text."""
    fence = ""
    for match in _FENCE.finditer(text):
        if not fence:
            fence = match[1]
        elif match[1].startswith(fence):
            fence = ""
    return bool(fence)
