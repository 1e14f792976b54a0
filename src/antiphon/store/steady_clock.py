"""The clock of a SQLite database, in place of the wall clock: it cannot be set."""

import sys
import time

_STARTED_AT = time.time()  # noqa: TID251 -- a database has a clock of its own; this one begins here


def _uptime() -> float:
    """Seconds on a clock that nobody sets; on Linux it also counts while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if sys.platform == "linux" else time.monotonic()


_STARTED_UPTIME = _uptime()


def steady_now() -> float:
    """Seconds since the epoch, by the wall clock at the start of the process: a later jump of the wall clock
    does not affect the locks and due times of running work."""
    return _STARTED_AT + _uptime() - _STARTED_UPTIME
