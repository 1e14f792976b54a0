"""Where the commands write. Colours only on a terminal, and not when NO_COLOR is set: rich sees to that."""

import sys
from collections.abc import Generator
from contextlib import contextmanager

from rich.console import Console
from rich.text import Text

_CONTROLS = {code: None for code in (*range(32), *range(127, 160)) if code not in (9, 10)}


def output() -> Console:
    """Standard output."""
    return Console(highlight=False)


def errors() -> Console:
    """Standard error."""
    return Console(stderr=True, highlight=False)


def on_terminal() -> bool:
    """Whether somebody reads standard output as it is written."""
    return sys.stdout.isatty()


def is_interactive() -> bool:
    """Whether somebody sits at both ends."""
    return sys.stdin.isatty() and sys.stdout.isatty()


@contextmanager
def at_work(what: str) -> Generator[None, None, None]:
    """On a terminal, show that something is going on."""
    console = errors()
    if console.is_terminal:
        with console.status(Text(what, style="dim")):
            yield
    else:
        yield


def harmless(text: str) -> str:
    """The text without control characters: what a model says must not steer the terminal."""
    return text.translate(_CONTROLS)
