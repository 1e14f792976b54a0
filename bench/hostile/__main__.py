"""`python -m bench.hostile`: run every attack alone, then all together, and print the table."""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench.hostile.attacks import ATTACKS
from bench.hostile.rounds import ALL_TOGETHER, AttackRound, failed, markdown, run_rounds
from bench.processes import INTERRUPTION


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the attacks; with --check, 2 if a bound does not hold."""
    parser = argparse.ArgumentParser(prog="python -m bench.hostile", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="ATTACK", help="default: every attack, then all together")
    parser.add_argument("--without", action="append", default=[], metavar="ATTACK", help="may be repeated")
    parser.add_argument("--seconds", type=float, default=5.0, help="of one attack (5)")
    parser.add_argument("--together", type=float, default=20.0, help="seconds of all attacks together (20)")
    parser.add_argument("--list", action="store_true", help="list the attacks")
    parser.add_argument("--check", action="store_true", help="exit with 2 if a bound does not hold")
    options = parser.parse_args(arguments)
    if options.list:
        for attack in ATTACKS.values():
            print(f"{attack.name}: {(attack.run.__doc__ or '').strip().partition(chr(10))[0]}")
        return 0
    if unknown := {*options.names, *options.without} - {*ATTACKS, ALL_TOGETHER}:
        parser.error(f"unknown attacks: {', '.join(sorted(unknown))}; see --list")
    for name in options.without:
        ATTACKS.pop(name, None)
    INTERRUPTION.install()
    names: list[str] = options.names or [*ATTACKS, ALL_TOGETHER]
    rounds: list[AttackRound] = []
    with tempfile.TemporaryDirectory(prefix="antiphon-hostile-") as folder:
        for done in run_rounds(Path(folder), names, options.seconds, options.together):
            print(f"… {done.name}: {done.verdict}", file=sys.stderr, flush=True)
            rounds.append(done)
    print(markdown(rounds))
    return 2 if options.check and failed(rounds) else 0


if __name__ == "__main__":
    sys.exit(main())
