"""A Markdown table of measured values, each beside the most that it may be."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass

HEAD = "| what | measured | bound | result |\n|---|---|---|---|"
EXCEEDED_CODE = 2
"""The exit code if a bound does not hold."""


@dataclass(frozen=True)
class Row:
    """A measured value. Without a bound it is only shown."""

    what: str
    value: float
    unit: str = ""
    bound: float | None = None
    digits: int = 1
    note: str = ""

    @property
    def exceeded(self) -> bool:
        """Whether the bound does not hold; a value that is not a number holds none."""
        return self.bound is not None and not self.value <= self.bound

    def markdown(self) -> str:
        """The row of the table."""
        measured = _with_unit(f"{self.value:,.{self.digits}f}", self.unit)
        measured += f" ({self.note})" if self.note else ""
        bound = "" if self.bound is None else _with_unit(f"{self.bound:,.10g}", self.unit)
        result = "" if self.bound is None else "exceeded" if self.exceeded else "holds"
        return f"| {self.what} | {measured} | {bound} | {result} |"


def _with_unit(number: str, unit: str) -> str:
    return f"{number} {unit}" if unit else number


def add_check(parser: argparse.ArgumentParser) -> None:
    """The option `--check`."""
    parser.add_argument(
        "--check", action="store_true", help=f"exit with {EXCEEDED_CODE} if a bound does not hold"
    )


def print_table(rows: Sequence[Row], *, check: bool) -> int:
    """Print the rows; the exit code of the program."""
    print("\n".join([HEAD, *(row.markdown() for row in rows)]), flush=True)
    return EXCEEDED_CODE if check and any(row.exceeded for row in rows) else 0
