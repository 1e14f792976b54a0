"""Spans of time as people say them: `90d` on the command line, `5 d` in a table."""

import re
from datetime import UTC, datetime

from antiphon.cli.failure import WrongUsage

_UNITS = {"w": 7 * 86400, "d": 86400, "h": 3600, "min": 60, "s": 1}
_SPOKEN = re.compile(r"([1-9]\d{0,5}) ?(s|min|h|d|w)")
_SAID = ("d", "h", "min", "s")


def read_span(text: str) -> int:
    """The seconds of `30min`, `12h`, `90d` or `2w`."""
    spoken = _SPOKEN.fullmatch(text)
    if spoken is None:
        raise WrongUsage(f"'{text}' is no span of time. Say for example 30min, 12h, 90d or 2w.")
    return int(spoken[1]) * _UNITS[spoken[2]]


def say_span(seconds: float) -> str:
    """In the largest unit that fits, rounded down: `12 s`, `3 min`, `2 h`, `5 d`."""
    whole = max(0, int(seconds))
    unit = next((unit for unit in _SAID if whole >= _UNITS[unit]), "s")
    return f"{whole // _UNITS[unit]} {unit}"


def say_date(timestamp: float) -> str:
    """A moment in UTC, to the minute."""
    return datetime.fromtimestamp(timestamp, UTC).strftime("%Y-%m-%d %H:%M UTC")
