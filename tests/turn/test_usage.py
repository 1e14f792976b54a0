"""The summed usage of several turns."""

import pytest
from msgspec import UNSET, UnsetType

from antiphon.protocol.response import InputTokensDetails, OutputTokensDetails, Usage
from antiphon.turn.usage import together


def cost(written: int | UnsetType = UNSET) -> Usage:
    return Usage(10, InputTokensDetails(3, written), 5, OutputTokensDetails(2), 15)


@pytest.mark.parametrize(
    ("first", "second", "written"), [(4, 5, 9), (4, UNSET, 4), (UNSET, 0, 0), (UNSET, UNSET, UNSET)]
)
def test_the_sum(first: int | UnsetType, second: int | UnsetType, written: int | UnsetType) -> None:
    summed = Usage(20, InputTokensDetails(6, written), 10, OutputTokensDetails(4), 30)
    assert together(cost(first), cost(second)) == summed


def test_a_turn_without_usage_adds_nothing() -> None:
    assert together(None, cost(4)) == cost(4) == together(cost(4), None)
    assert together(None, None) is None
