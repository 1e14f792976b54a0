"""Durations, parsed and formatted."""

import pytest

from antiphon.cli.failure import WrongUsage
from antiphon.cli.keys import parse_duration
from antiphon.cli.terminal import format_date, format_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("45s", 45), ("30min", 1800), ("12h", 43_200), ("90d", 7_776_000), ("2 w", 1_209_600)],
)
def test_a_span_is_read(text: str, seconds: int) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "90", "d", "0d", "-1d", "1.5h", "1y", "1d1h", "9999999d", "٣d"])
def test_an_invalid_duration_is_wrong_usage(text: str) -> None:
    with pytest.raises(WrongUsage, match="30min, 12h, 90d"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-3, "0 s"),
        (0, "0 s"),
        (59.9, "59 s"),
        (60, "1 min"),
        (200, "3 min"),
        (3600, "1 h"),
        (86_399, "23 h"),
        (86_400, "1 d"),
        (5_000_000, "57 d"),
    ],
)
def test_a_duration_is_formatted_in_its_largest_unit(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


def test_a_date_is_formatted_in_utc() -> None:
    assert format_date(1_000_000) == "1970-01-12 13:46 UTC"
