"""What DBOS logs goes where our own lines go, from warnings up, and not over and over."""

import logging

LOGGER = logging.getLogger("dbos")
AGAIN_AFTER = 30.0


class Seldom(logging.Filter):
    """Lets one line per place in the code through, its first, then none from there for a while.

    While its database is away, each of DBOS's threads complains every second.
    """

    def __init__(self) -> None:
        super().__init__()
        self._last: dict[tuple[str, int], float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the record is logged."""
        place = (record.pathname, record.lineno)
        last = self._last.get(place)
        if last is not None and record.created - last < AGAIN_AFTER:
            return False
        self._last[place] = record.created
        # DBOS puts whole tracebacks into its messages; what happened is in the first line.
        record.msg, record.args = record.getMessage().partition("\n")[0].partition("\\n")[0], None
        record.exc_info = None
        return True


def speak() -> None:
    """Log warnings. A logger without handlers would get one from DBOS that writes to standard error."""
    if not LOGGER.handlers:
        LOGGER.addHandler(logging.NullHandler())
        LOGGER.addFilter(Seldom())
    LOGGER.setLevel(logging.WARNING)


def hush() -> None:
    """Log errors only: when we close, DBOS warns of every workflow that is cancelled."""
    LOGGER.setLevel(logging.ERROR)
