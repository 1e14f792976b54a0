"""Detects a model that repeats a call: the second time is a warning, later ones are not run. Sans-IO."""

from collections import Counter
from typing import Literal

import msgspec

WARN_FROM_OCCURRENCE = 2
SUPPRESS_FROM_OCCURRENCE = 3

Verdict = Literal["new", "repeated", "suppressed"]


class RepeatGuard:
    """Counts the calls of one request. Calls are equal if their names and canonical arguments are."""

    def __init__(self) -> None:
        self._seen: Counter[str] = Counter()

    def note(self, name: str, arguments: str) -> None:
        """Count a call that has been answered."""
        self._seen[signature(name, arguments)] += 1

    def judge(self, name: str, arguments: str) -> Verdict:
        """The verdict on a call that is not counted yet."""
        occurrence = self._seen[signature(name, arguments)] + 1
        if occurrence >= SUPPRESS_FROM_OCCURRENCE:
            return "suppressed"
        return "repeated" if occurrence >= WARN_FROM_OCCURRENCE else "new"


def signature(name: str, arguments: str) -> str:
    """Name and canonical arguments: sorted keys, no whitespace. Invalid JSON is compared as text."""
    try:
        value = msgspec.json.decode(arguments)
        return f"{name}\n{msgspec.json.encode(value, order='sorted').decode()}"
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return f"{name}\n{arguments.strip()}"


def suppressed_output(name: str) -> str:
    """The output that the model receives instead of a result."""
    answer = {
        "suppressed": True,
        "reason": "repeat_tool_call_detected",
        "tool": name,
        "guidance": (
            "This call was made with the same arguments before, and its result is above. Use that result, "
            "call with other arguments, or answer."
        ),
    }
    return msgspec.json.encode(answer).decode()
