"""`python -m bench`: read the options, run the plan, report the results."""

import platform
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence

from bench.contenders import OURS, Contender
from bench.machine import describe
from bench.options import Options, read_options
from bench.processes import INTERRUPTION, ROOT
from bench.publish import RawRows, publish
from bench.report import Report, columns
from bench.rig import OUT, assembled
from bench.runner import Plan, run, say
from bench.summary import Summary


def main() -> int:
    """Run the benchmark. Returns 1 after an error, and 2 if a target was missed and --check is given."""
    options = read_options()
    if platform.system() != "Linux":
        say("the benchmark needs Linux: epoll and /proc")
        return 1
    INTERRUPTION.install()
    versions = installed(options.contenders)
    present = [contender for contender in options.contenders if contender.name in versions]
    if not present:
        say("nobody to measure")
        return 1
    OUT.mkdir(exist_ok=True)
    raw = RawRows(OUT / f"{time.strftime('%Y%m%d-%H%M%S')}.jsonl")
    troubles = measured(Plan(present, options.scenarios, options.rounds, options.tries), raw)
    summary, names = Summary(raw.rows), columns(list(versions))
    report = Report(summary, options.scenarios, names, describe(versions), _how(options), troubles)
    return tell(report, options, raw)


def measured(plan: Plan, raw: RawRows) -> list[str]:
    """Run the plan and return the errors."""
    say(f"this takes about {plan.minutes():.0f} min, more on a busy machine")
    with assembled() as rig:
        if rig.cores.gateway == rig.cores.load:
            say("! only one core: everything shares it, and the numbers mean little")
        return run(plan, rig, raw.keep)


def installed(contenders: Sequence[Contender]) -> Mapping[str, str]:
    """The versions of the installed contenders; prints how to install the others."""
    versions: dict[str, str] = {}
    for contender in contenders:
        version = contender.version()
        if version is None:
            say(f"{contender.name} is not installed and left out; to have it: {contender.install}")
        else:
            versions[contender.name] = version
    return versions


def tell(report: Report, options: Options, raw: RawRows) -> int:
    """Print the table, publish it if wanted, and choose the exit status."""
    markdown = report.markdown()
    print(markdown)
    written = [raw.path]
    if options.publish and any(row.contender == OURS for row in raw.rows):
        written += publish(markdown)
    say("written: " + ", ".join(str(path.relative_to(ROOT)) for path in written))
    if report.troubles:
        return 1
    missed = any(not verdict.passed for verdict in report.verdicts())
    return 2 if options.check and missed else 0


def _how(options: Options) -> str:
    rounds = "one quick round" if options.quick and options.rounds == 1 else f"{options.rounds} rounds"
    return f"One core per gateway, another for the mock and the load generator; medians of {rounds}."


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (RuntimeError, subprocess.SubprocessError) as error:
        sys.exit(f"! {error}")
