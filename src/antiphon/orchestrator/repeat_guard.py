"""The repeat guard: a model that makes the same call again and again is told to stop. Sans-IO."""

from collections import Counter
from typing import Literal

import msgspec

WARN_FROM = 2
SUPPRESS_FROM = 3

Verdict = Literal["new", "repeated", "suppressed"]


class RepeatGuard:
    """Counts the calls of one request. Two calls are the same if their name and arguments are."""

    def __init__(self) -> None:
        self._seen: Counter[str] = Counter()

    def note(self, name: str, arguments: str) -> None:
        """This call has been answered."""
        self._seen[signature(name, arguments)] += 1

    def judge(self, name: str, arguments: str) -> Verdict:
        """What shall become of a call that has not been noted yet."""
        occurrence = self._seen[signature(name, arguments)] + 1
        if occurrence >= SUPPRESS_FROM:
            return "suppressed"
        return "repeated" if occurrence >= WARN_FROM else "new"


def signature(name: str, arguments: str) -> str:
    """Name and canonical arguments: keys sorted, no whitespace between. What is no JSON stands as it is."""
    try:
        value = msgspec.json.decode(arguments)
        return f"{name}\n{msgspec.json.encode(value, order='sorted').decode()}"
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return f"{name}\n{arguments.strip()}"


def suppressed_output(name: str) -> str:
    """What the model is told instead of a result."""
    told = {
        "suppressed": True,
        "reason": "repeat_tool_call_detected",
        "tool": name,
        "guidance": (
            "This call was made with the same arguments before, and its result is above. Use that result, "
            "call with other arguments, or answer."
        ),
    }
    return msgspec.json.encode(told).decode()
