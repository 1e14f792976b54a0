"""Texts of a model as they arrive: Markdown on a terminal, and as they are in a file or a pipe."""

from typing import TYPE_CHECKING, Literal

from rich.console import Console

from antiphon.cli.terminal import printable

if TYPE_CHECKING:
    from antiphon.cli.rendering import BlockPrinter

Kind = Literal["answer", "reasoning"]


def text_writer(out: Console) -> "PlainWriter":
    """How this terminal, file or pipe shows text."""
    renders = out.is_terminal and not out.no_color and not out.is_dumb_terminal
    return MarkdownWriter(out) if renders else PlainWriter(out)


class PlainWriter:
    """Writes text as it is. On a terminal, it cannot control that, and reasoning is dim."""

    def __init__(self, out: Console) -> None:
        self._out = out
        self._last: Kind | None = None
        self._at_line_start = True

    def write(self, text: str, kind: Kind = "answer") -> None:
        """Write more. Text of another kind begins on a new line."""
        if kind != self._last:
            self.end()
            self._last = kind
        if self._out.is_terminal:
            text = printable(text)
        if text:
            self._out.out(text, style="dim" if kind == "reasoning" else None, end="", highlight=False)
            self._at_line_start = text.endswith("\n")

    def end(self) -> None:
        """End the text, if there is one: what is printed next is on a new line."""
        if not self._at_line_start:
            self._out.out("", highlight=False)
            self._at_line_start = True


class MarkdownWriter(PlainWriter):
    """Writes text as Markdown, and reasoning dim."""

    def __init__(self, out: Console) -> None:
        super().__init__(out)
        # Only an answer on a terminal needs it; the import would cost every command 60 ms.
        from antiphon.cli import rendering  # noqa: PLC0415

        self._renderings = {"answer": rendering.markdown, "reasoning": rendering.reasoning}
        self._make = rendering.BlockPrinter
        self._blocks: BlockPrinter | None = None
        self._gap_is_due = False

    def write(self, text: str, kind: Kind = "answer") -> None:
        if kind != self._last:
            self.end()
            self._last = kind
        if self._blocks is None:
            if self._gap_is_due:
                self._out.print()
            self._gap_is_due = False
            self._blocks = self._make(self._out, self._renderings[kind])
        self._blocks.write(printable(text))

    def end(self) -> None:
        if self._blocks is None:
            return
        self._blocks.close()
        self._blocks = None
        self._gap_is_due = True
