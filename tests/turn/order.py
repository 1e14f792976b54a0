"""The order rules of the protocol, checked event by event on any stream of ours, whatever made it."""

from collections.abc import Sequence
from typing import Any

from antiphon.conformance.order import check_stream

JsonObject = dict[str, Any]

DIVERGENT = ("incomplete",)
"""What we do differently: an item that was cut off stays where it was, and the answer may go on behind it."""


def check_order(events: Sequence[JsonObject]) -> None:
    """Fail with everything that breaks a rule."""
    violations = [violation for violation in check_stream(events) if violation.aspect not in DIVERGENT]
    assert not violations, "\n".join(map(str, violations))
