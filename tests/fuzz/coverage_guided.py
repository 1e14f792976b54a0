"""`python -m tests.fuzz.coverage_guided ORACLE [SECONDS]`: search with atheris for bytes that break an oracle.

atheris is not among the packages of the project: make an environment with it and with the project, and run this
there. It prints the input and ends with an error when it finds one.
"""

import importlib
import sys
import tempfile
from pathlib import Path
from typing import Any

atheris: Any = importlib.import_module("atheris")
with atheris.instrument_imports(include=["antiphon"]):
    from tests.fuzz.oracles import ORACLES
    from tests.fuzz.seeds import seeds_of

DEFAULT_SECONDS = 180
MAX_INPUT_BYTES = 600
SLOW_INPUT_SECONDS = 20


def main() -> None:
    """Start from the seeds, and search for some time."""
    name, seconds = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else DEFAULT_SECONDS
    with tempfile.TemporaryDirectory() as folder:
        for number, seed in enumerate(seeds_of(name)):
            (Path(folder) / str(number)).write_bytes(seed)
        limits = (
            f"-max_total_time={seconds}",
            f"-max_len={MAX_INPUT_BYTES}",
            f"-timeout={SLOW_INPUT_SECONDS}",
        )
        atheris.Setup([sys.argv[0], *limits, folder], ORACLES[name])
        atheris.Fuzz()


if __name__ == "__main__":
    main()
