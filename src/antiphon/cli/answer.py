"""Prints an answer as it comes. What is thought is dim, and on a terminal only."""

from collections.abc import AsyncGenerator, Collection
from contextlib import ExitStack, aclosing

from antiphon.cli.heard import Began, Ended, Heard, Said, Thought
from antiphon.cli.terminal import at_work, errors, harmless, output

CUTS = {"max_output_tokens": "the limit of output tokens", "content_filter": "the content filter"}


class AnswerPrinter:
    """Prints one answer. Until its first word, it shows that somebody is at work."""

    def __init__(self, model: str) -> None:
        self._out = output()
        self._terminal = self._out.is_terminal
        self._at_line_start = True
        self._last: type[Said] | type[Thought] | None = None
        self._waiting = ExitStack()
        self._waiting.enter_context(at_work(f"waiting for {model}"))

    def take(self, heard: Heard) -> None:
        """Print a piece."""
        match heard:
            case Said():
                self._write(heard.text, Said, style=None)
            case Thought():
                if self._terminal:
                    self._write(heard.text, Thought, style="dim")
            case Began():
                self._end_line()
            case Ended():
                self.close()

    def close(self) -> None:
        """Whatever was printed, the next line is a fresh one."""
        self._waiting.close()
        self._end_line()

    def _write(self, text: str, kind: "type[Said] | type[Thought]", *, style: str | None) -> None:
        self._waiting.close()
        if kind is not self._last:
            self._end_line()
            self._last = kind
        if self._terminal:
            text = harmless(text)
        if text:
            self._out.out(text, style=style, end="", highlight=False)
            self._at_line_start = text.endswith("\n")

    def _end_line(self) -> None:
        if not self._at_line_start:
            self._out.out("", highlight=False)
            self._at_line_start = True


async def print_stream(answer: AsyncGenerator[Heard, None], model: str) -> Ended:
    """Print everything that is heard; the end is returned."""
    printer = AnswerPrinter(model)
    ended: Ended | None = None
    try:
        async with aclosing(answer) as pieces:
            async for heard in pieces:
                printer.take(heard)
                if isinstance(heard, Ended):
                    ended = heard
    finally:
        printer.close()
    assert ended is not None, "an asker ends with Ended or raises"
    return ended


def print_notes(ended: Ended, known: Collection[str] = ()) -> None:
    """Say what is not in the answer itself: what was left out (unless that is known), and that it was cut."""
    console = errors()
    for note in ended.notes:
        if note not in known:
            console.print(f"Note: {note}", style="yellow", markup=False, soft_wrap=True)
    if ended.cut:
        reason = CUTS.get(ended.cut, ended.cut)
        console.print(f"The answer was cut by {reason}.", style="yellow", markup=False, soft_wrap=True)
