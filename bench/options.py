"""The command line."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass

from bench.contenders import Contender, all_contenders
from bench.scenarios import DEFAULT, KINDS, Scenario, parse

ROUNDS = 3
TRIES = 3


@dataclass(frozen=True)
class Options:
    """The options of a run."""

    contenders: Sequence[Contender]
    scenarios: Sequence[Scenario]
    rounds: int
    tries: int
    quick: bool
    publish: bool
    check: bool


class _Arguments(argparse.Namespace):
    contenders: list[str]
    scenario: list[Scenario] | None = None
    rounds: int | None = None
    tries: int | None = None
    quick: bool = False
    publish: bool | None = None
    check: bool = False


def _kinds() -> str:
    return "\n".join(f"  {name:8} {kind.about}" for name, kind in KINDS.items())


def _scenario(text: str) -> Scenario:
    try:
        return parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 100:
        raise argparse.ArgumentTypeError("a number from 1 to 100 is needed")
    return int(text)


def _parser(names: Sequence[str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description="Measure Antiphon beside its peers: rates, latency, memory, cold start, state.",
        epilog=f"kinds:\n{_kinds()}\n\nCold start and idle memory are always measured.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("contenders", nargs="*", metavar="CONTENDER", help=f"who: {', '.join(names)} (default: all)")
    add("-s", "--scenario", action="append", type=_scenario, metavar="KIND:CONNECTIONS",
        help=f"what, may be repeated (default: {' '.join(DEFAULT)})")  # fmt: skip
    add("-r", "--rounds", type=_count, help=f"rounds to take the median of (default: {ROUNDS}, quick: 1)")
    add("-t", "--tries", type=_count,
        help=f"times to measure at most when the machine is busy (default: {TRIES}, quick: 1)")  # fmt: skip
    add("-q", "--quick", action="store_true", help="one short round, for development; nothing is published")
    add("--publish", action=argparse.BooleanOptionalAction,
        help="write RESULTS.md and the README's table (default: only after a complete run)")  # fmt: skip
    add("--check", action="store_true", help="fail unless every target is met")
    return parser


def read_options(arguments: Sequence[str] | None = None) -> Options:
    """Read the command line; exits on --help and on errors."""
    everybody = all_contenders()
    parser = _parser(list(everybody))
    given = parser.parse_args(arguments, _Arguments())
    if unknown := set(given.contenders) - set(everybody):
        parser.error(f"unknown contender: {', '.join(sorted(unknown))}")
    scenarios = given.scenario or [parse(text) for text in DEFAULT]
    complete = not given.quick and not given.contenders and given.scenario is None
    return Options(
        contenders=[everybody[name] for name in everybody if name in (given.contenders or everybody)],
        scenarios=[scenario.shortened() for scenario in scenarios] if given.quick else scenarios,
        rounds=given.rounds or (1 if given.quick else ROUNDS),
        tries=given.tries or (1 if given.quick else TRIES),
        quick=given.quick,
        publish=complete if given.publish is None else given.publish,
        check=given.check,
    )
