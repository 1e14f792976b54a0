"""The summed usage of several turns."""

from antiphon.protocol.response import InputTokensDetails, OutputTokensDetails, Usage
from antiphon.turn.usage import together


def cost(written: int = 0) -> Usage:
    return Usage(10, InputTokensDetails(3, written), 5, OutputTokensDetails(2), 15)


def test_the_sum() -> None:
    summed = Usage(20, InputTokensDetails(6, 9), 10, OutputTokensDetails(4), 30)
    assert together(cost(4), cost(5)) == summed


def test_a_turn_without_usage_adds_nothing() -> None:
    assert together(None, cost(4)) == cost(4) == together(cost(4), None)
    assert together(None, None) is None
