"""The order rules of the protocol, checked event by event on any stream of ours."""

from collections.abc import Sequence
from typing import Any

from antiphon.conformance.order import check_stream

JsonObject = dict[str, Any]

DIVERGENT = ("incomplete",)
"""Intended differences: a truncated item keeps its position, and the answer may continue after it."""


def check_order(events: Sequence[JsonObject]) -> None:
    """Fail with all violations."""
    violations = [violation for violation in check_stream(events) if violation.aspect not in DIVERGENT]
    assert not violations, "\n".join(map(str, violations))
