"""The tables of measured values."""

import pytest
from bench.bounds import Row, print_table

HELD = Row("a call", 1.204, "ms", bound=1.3, digits=2, note="p95 2.0 ms")
SHOWN = Row("memory", 1500, "MB", digits=0)


def test_a_row_shows_the_value_its_bound_and_the_result() -> None:
    assert HELD.markdown() == "| a call | 1.20 ms (p95 2.0 ms) | 1.3 ms | holds |"
    assert SHOWN.markdown() == "| memory | 1,500 MB |  |  |"


@pytest.mark.parametrize("value", [1.31, float("nan")])
def test_only_with_check_an_exceeded_bound_is_an_exit_code(
    value: float, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [HELD, SHOWN, Row("other", value, bound=1.3)]
    assert print_table(rows, check=False) == 0
    assert print_table(rows[:2], check=True) == 0
    assert print_table(rows, check=True) == 2
    assert capsys.readouterr().out.count("| exceeded |") == 2
