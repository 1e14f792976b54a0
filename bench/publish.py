"""Write the results: raw rows to out/, the table to RESULTS.md, six of its rows into the project's README."""

from pathlib import Path

from bench.measure import Row
from bench.processes import ROOT
from bench.rig import HERE

BEGIN, END = "<!-- bench:begin -->", "<!-- bench:end -->"
RESULTS = HERE / "RESULTS.md"
README_ROWS = {
    ("json:32", "answers/s"): "JSON answers, 32 connections",
    ("s100:32", "events/s"): "streams of 100 tokens, 32 connections",
    ("s100:1", "first delta p50, ms more than direct"): "streams of 100 tokens, one connection",
    ("kept:32", "answers/s"): "stored JSON answers, 32 connections",
    ("k100:32", "events/s"): "stored streams of 100 tokens, 32 connections",
    ("start", "idle memory, MB"): "a server after its start",
}
"""The rows of the README, with what their scenarios are called there."""
TITLE = """# Results

Written by `python -m bench`; [README.md](README.md) tells what the scenarios are and how to read this.
Medians over the rounds. More is better for rates, less for times, CPU and memory.

"""


class RawRows:
    """Appends every row to a file at once, so that no row is lost if the run is aborted."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows: list[Row] = []
        path.write_text("")

    def keep(self, row: Row) -> None:
        """Append a row."""
        self.rows.append(row)
        with self.path.open("a") as file:
            file.write(row.line())


def publish(markdown: str) -> list[Path]:
    """Write the table; return the written files."""
    RESULTS.write_text(TITLE + markdown)
    readme = ROOT / "README.md"
    text = readme.read_text() if readme.exists() else ""
    if text.count(BEGIN) != 1 or text.count(END) != 1 or text.index(BEGIN) > text.index(END):
        return [RESULTS]
    head, _, rest = text.partition(BEGIN)
    tail = rest.partition(END)[2]
    readme.write_text(f"{head}{BEGIN}\n{excerpt(markdown)}{END}{tail}")
    return [RESULTS, readme]


def excerpt(markdown: str) -> str:
    """The line about the machine, and the rows for the README without their ratios."""
    machine, _, rest = markdown.partition("\n")
    rows = [_cells(line) for line in rest.splitlines() if line.startswith("|")]
    width = next((index for index, cell in enumerate(rows[0]) if " / " in cell), len(rows[0]))
    chosen = [row[:width] for row in rows[:2]]
    chosen += [
        [README_ROWS[row[0], row[1]], *row[1:width]] for row in rows if (row[0], row[1]) in README_ROWS
    ]
    table = "".join(f"| {' | '.join(row)} |\n" for row in chosen)
    return f"{machine}\n\n{table}"


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("| ").split("|")]
