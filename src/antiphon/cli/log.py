"""Logging of the commands: one line per record on standard error."""

import copy
import logging
import sys
from collections import Counter
from typing import TextIO

from antiphon.cli.terminal import errors
from antiphon.known_secrets import KNOWN_SECRETS, without_url_secrets

_COLOURS = {
    "DEBUG": "\x1b[2m",
    "INFO": "\x1b[32m",
    "WARNING": "\x1b[33m",
    "ERROR": "\x1b[31m",
    "CRITICAL": "\x1b[31m",
}
_RESET = "\x1b[0m"
MAX_LINES_PER_SECOND = 100
"""Of one logger, below the level ERROR: a client whose requests are refused again and again neither fills the
disk nor holds the event loop, which spends 80 us on a line."""
_UNLIMITED = "antiphon.audit"
_ESCAPED = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160))}


class LineFormatter(logging.Formatter):
    """Time, level, logger, message. Control characters are escaped, so that a message is always one line."""

    def __init__(self, *, colours: bool) -> None:
        super().__init__("%(asctime)s.%(msecs)03d %(levelname)s %(name)s: %(message)s", "%Y-%m-%d %H:%M:%S")
        self._colours = colours

    def format(self, record: logging.LogRecord) -> str:
        """The line, and the lines of a traceback, without secrets."""
        return without_url_secrets(KNOWN_SECRETS.scrub(super().format(record)))

    def formatMessage(self, record: logging.LogRecord) -> str:
        record = copy.copy(record)  # other handlers format the same record
        record.message = record.message.rstrip().translate(_ESCAPED)
        if self._colours:
            colour = _COLOURS.get(record.levelname, "")
            record.levelname = f"{colour}{record.levelname}{_RESET}"
        return super().formatMessage(record)


class LineLimit(logging.Filter):
    """Passes the first `MAX_LINES_PER_SECOND` records of each logger in each second; the last of them says
    that others are left out. Errors and the audit log have no limit."""

    def __init__(self) -> None:
        super().__init__()
        self._second = 0
        self._lines: Counter[str] = Counter()

    def filter(self, record: logging.LogRecord) -> bool:
        if _is_unlimited(record):
            return True
        second = int(record.created)
        if second != self._second:
            self._second = second
            self._lines.clear()
        self._lines[record.name] += 1
        return self._lines[record.name] <= MAX_LINES_PER_SECOND

    def is_last(self, record: logging.LogRecord) -> bool:
        """Whether the next records of this logger are left out."""
        return not _is_unlimited(record) and self._lines[record.name] == MAX_LINES_PER_SECOND


def _is_unlimited(record: logging.LogRecord) -> bool:
    return record.levelno >= logging.ERROR or record.name == _UNLIMITED


class StandardError(logging.StreamHandler[TextIO]):
    """Writes to the current `sys.stderr`, which may be replaced after the handler was made."""

    def __init__(self) -> None:
        super().__init__()
        self._limit = LineLimit()
        self.addFilter(self._limit)

    def emit(self, record: logging.LogRecord) -> None:
        self.stream = sys.stderr
        super().emit(record)

    def format(self, record: logging.LogRecord) -> str:
        line = super().format(record)
        if self._limit.is_last(record):
            return f"{line} (more lines of {record.name} in this second are left out)"
        return line


_handler = StandardError()


def configure_logging(level: str) -> None:
    """Log records of this level and above. Repeated calls change the level."""
    console = errors()
    _handler.setFormatter(LineFormatter(colours=console.is_terminal and not console.no_color))
    root = logging.getLogger()
    root.addHandler(_handler)
    root.setLevel(level.upper())
