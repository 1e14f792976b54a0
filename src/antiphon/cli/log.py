"""Logging for the commands: one line per record on standard error."""

import copy
import logging
import sys
from typing import TextIO

from antiphon.cli.terminal import errors

_COLOURS = {
    "DEBUG": "\x1b[2m",
    "INFO": "\x1b[32m",
    "WARNING": "\x1b[33m",
    "ERROR": "\x1b[31m",
    "CRITICAL": "\x1b[31m",
}
_RESET = "\x1b[0m"
_ESCAPED = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160))}


class LineFormatter(logging.Formatter):
    """Time, level, logger, message. A message is one line, whatever a client put into it."""

    def __init__(self, *, colours: bool) -> None:
        super().__init__("%(asctime)s.%(msecs)03d %(levelname)s %(name)s: %(message)s", "%Y-%m-%d %H:%M:%S")
        self._colours = colours

    def formatMessage(self, record: logging.LogRecord) -> str:
        """The line without a traceback, which follows it."""
        record = copy.copy(record)  # others may format it, too
        record.message = record.message.rstrip().translate(_ESCAPED)
        if self._colours:
            colour = _COLOURS.get(record.levelname, "")
            record.levelname = f"{colour}{record.levelname}{_RESET}"
        return super().formatMessage(record)


class StandardError(logging.StreamHandler[TextIO]):
    """Writes to what is standard error at that moment."""

    def emit(self, record: logging.LogRecord) -> None:
        """One record."""
        self.stream = sys.stderr
        super().emit(record)


_handler = StandardError()


def configure_logging(level: str) -> None:
    """Log from this level up; may be called again."""
    console = errors()
    _handler.setFormatter(LineFormatter(colours=console.is_terminal and not console.no_color))
    root = logging.getLogger()
    root.addHandler(_handler)
    root.setLevel(level.upper())
