"""`python -m tests.fuzz.documents --inputs 10000`: fuzz every document parser, and print the table."""

import argparse
import asyncio
import logging
import sys
from pathlib import Path

from tests.fuzz.documents.run import fuzz, markdown
from tests.fuzz.documents.samples import FUZZED

SHOWN_FAULTS = 20


def main() -> int:
    """Run the fuzzer; 1 if it finds a fault."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.documents", description=__doc__)
    parser.add_argument("--inputs", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--file", action="append", choices=FUZZED, help="only this sample; may be repeated")
    parser.add_argument("--keep", type=Path, help="a folder for files that exceed a limit or cause a fault")
    options = parser.parse_args()
    logging.getLogger("antiphon").propagate = False
    if options.keep is not None:
        options.keep.mkdir(parents=True, exist_ok=True)
    result = asyncio.run(fuzz(options.seed, options.inputs, options.file or (), options.keep))
    print(markdown(result))
    for fault in result.faults[:SHOWN_FAULTS]:
        print(f"\n{fault}", file=sys.stderr)
    return 1 if result.faults else 0


if __name__ == "__main__":
    sys.exit(main())
