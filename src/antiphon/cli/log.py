"""Logging of the commands: one line per record on standard error."""

import copy
import logging
import sys
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


class StandardError(logging.StreamHandler[TextIO]):
    """Writes to the current `sys.stderr`, which may be replaced after the handler was made."""

    def emit(self, record: logging.LogRecord) -> None:
        self.stream = sys.stderr
        super().emit(record)


_handler = StandardError()


def configure_logging(level: str) -> None:
    """Log records of this level and above. Repeated calls change the level."""
    console = errors()
    _handler.setFormatter(LineFormatter(colours=console.is_terminal and not console.no_color))
    root = logging.getLogger()
    root.addHandler(_handler)
    root.setLevel(level.upper())
