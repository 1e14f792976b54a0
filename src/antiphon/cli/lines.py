"""Where the lines of a chat come from: a person with line editing and a history, or a script."""

import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol

import click

try:
    import readline
except ImportError:  # not on every platform; then the terminal's own line editing has to do
    readline = None

HISTORY_LINES = 1000
PROMPT = "> "


class Lines(Protocol):
    """Gives one line after another; None at the end."""

    def next(self) -> str | None:
        """The next line; raises `KeyboardInterrupt` when the person takes it back."""
        ...


class TypedLines:
    """A person at a terminal."""

    def next(self) -> str | None:
        """Ask for a line."""
        try:
            return input(PROMPT)
        except EOFError:
            click.echo()
            return None


class PipedLines:
    """A script: no prompt, one question per line."""

    def __init__(self) -> None:
        self._stream = sys.stdin.buffer

    def next(self) -> str | None:
        """Read a line."""
        line = self._stream.readline()
        return line.decode(errors="replace") if line else None


@contextmanager
def open_lines(*, interactive: bool, history: Path) -> Generator[Lines, None, None]:
    """The lines of this session; what a person typed is there again the next time."""
    if not interactive:
        yield PipedLines()
        return
    if readline is None:
        yield TypedLines()
        return
    readline.set_history_length(HISTORY_LINES)
    with suppress(OSError):
        readline.read_history_file(history)
    try:
        yield TypedLines()
    finally:
        # A chat is worth having even where its history cannot be kept.
        with suppress(OSError):
            history.parent.mkdir(parents=True, exist_ok=True)
            history.touch(mode=0o600)
            readline.write_history_file(history)
