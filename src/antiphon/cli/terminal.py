"""Where the commands write. Colours only on a terminal, and not when NO_COLOR is set: rich sees to that."""

import sys
import unicodedata
from collections.abc import Generator
from contextlib import contextmanager

from rich.console import Console
from rich.text import Text

_SHOWN = "\t\n\u200c\u200d"
"""Controls that may be shown: white space, and what joins letters and emoji or keeps them apart."""


class _Shown(dict[int, int | None]):
    """What becomes of each character: itself, or nothing. Looked up once."""

    def __missing__(self, code: int) -> int | None:
        hidden = unicodedata.category(chr(code)) in ("Cc", "Cf") and chr(code) not in _SHOWN
        self[code] = None if hidden else code
        return self[code]


_shown = _Shown()


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
    """The text without control and format characters: what a model says must not steer the terminal, nor
    stand in another order than it is written."""
    return text.translate(_shown)
