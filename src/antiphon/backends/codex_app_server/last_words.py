"""`LastWords`: what a program said on its standard error, and the line of it that tells best why it ended."""

import re
from collections import deque

from antiphon.http.redact import redact

_LINES = 50
_LONGEST = 2000
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_ERROR = re.compile(r"(?i:error):|\bERROR\b|\bpanicked at\b")
_FRAME = re.compile(r"at |note: |\d+: |stack backtrace")
"""How lines begin that only tell where, not why."""


class LastWords:
    """The last lines, as they come."""

    def __init__(self) -> None:
        self._lines: deque[str] = deque(maxlen=_LINES)
        self._tail = ""

    def hear(self, data: bytes) -> None:
        """More was said."""
        *lines, tail = (self._tail + data.decode("utf-8", "replace")).split("\n")
        self._tail = tail[:_LONGEST]
        self._lines.extend(line.strip()[:_LONGEST] for line in lines if line.strip())

    def forget(self) -> None:
        """What was said until now has nothing to do with what comes."""
        self._lines.clear()
        self._tail = ""

    def best(self) -> str:
        """The last line that looks like an error; else the last one that is not a frame of a backtrace."""
        lines = [_COLOURS.sub("", line) for line in (*self._lines, self._tail.strip()) if line]
        causes = [line for line in lines if not _FRAME.match(line)] or lines
        errors = [line for line in causes if _ERROR.search(line)]
        chosen = (errors or causes)[-1:]
        return redact(chosen[0]) if chosen else "it did not say why"
