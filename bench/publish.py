"""Write the results: raw rows to out/, the table to RESULTS.md and into the project's README."""

from pathlib import Path

from bench.measure import Row
from bench.processes import ROOT
from bench.rig import HERE

BEGIN, END = "<!-- bench:begin -->", "<!-- bench:end -->"
RESULTS = HERE / "RESULTS.md"
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
    readme.write_text(f"{head}{BEGIN}\n{markdown}{END}{tail}")
    return [RESULTS, readme]
