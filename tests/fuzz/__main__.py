"""`python -m tests.fuzz --requests 100000`: fuzz every route in memory, and print the table."""

import argparse
import asyncio
import logging
import sys

from tests.fuzz.run import fuzz, markdown

SHOWN_FAULTS = 20


def main() -> int:
    """Run the fuzzer; 1 if it finds a fault."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--route", action="append", help="only this route; may be repeated")
    options = parser.parse_args()
    logging.getLogger("antiphon").propagate = False
    result = asyncio.run(fuzz(options.seed, options.requests, options.route))
    print(markdown(result))
    for fault in result.faults[:SHOWN_FAULTS]:
        print(f"\n{fault}", file=sys.stderr)
    return 1 if result.faults else 0


if __name__ == "__main__":
    sys.exit(main())
