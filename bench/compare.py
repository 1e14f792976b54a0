"""`python -m bench.compare --before DIR`: the CPU time per unit of two source trees, measured in alternation.

Both servers run at the same time on the same core, with the packages of this `.venv`. Slices of load go to
one and then to the other, every other pair in reverse order; the result is the median of the pairs' ratios.
Other load on the machine has little effect, because the CPU time of the server's process is compared.

With `--with NAME=VALUE` the newer one has other settings: `--before . --with ANTIPHON_TRACE__RECORD=all`.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median, quantiles

from bench.chain import QUESTION, build_chain
from bench.contenders import OURS, Contender, all_contenders
from bench.gateway import Gateway, serving
from bench.machine import describe
from bench.measure import measure
from bench.processes import INTERRUPTION, ROOT
from bench.procfs import process_seconds
from bench.rig import HERE, OUT, Rig, assembled, exchange
from bench.scenarios import Scenario, parse

DEFAULT = ("json:32", "paced:256", "s100:32", "kept:32", "k100:32", "retrieve:1", "chain", "start")
BARS = {"json:32": 0.80, "paced:256": 0.97, "s100:32": 0.97, "chain": 0.65}
NOT_WORSE = 1.03
"""The bar of all other scenarios; it includes the noise of a comparison of a tree with itself."""
PAIRS = 8
SLICE_SECONDS, WARM_UP_SECONDS = 1.5, 0.4
PACED_SECONDS, PACED_WARM_UP_SECONDS = 3.0, 2.5
CHAIN_QUESTIONS = 5
RESULTS = HERE / "COMPARED.md"
TITLE = """# Before and after

Written by `python -m bench.compare`; [README.md](README.md) describes how. CPU time of the server per unit,
measured in alternation on one core. Below 1, the newer tree needs less.

"""

Sample = Callable[[], float]
"""Runs one slice of load; returns the seconds of CPU time per unit."""


@dataclass(frozen=True)
class Tree:
    """A checkout of the project."""

    name: str
    folder: Path
    settings: dict[str, str] = field(default_factory=dict[str, str])
    """Environment variables of its server."""

    @property
    def environment(self) -> dict[str, str]:
        """Makes Python import this checkout instead of the installed one."""
        return {"PYTHONPATH": str(self.folder / "src"), **self.settings}


@dataclass(frozen=True)
class Comparison:
    """The pairs of one scenario, in seconds."""

    scenario: str
    unit: str
    pairs: Sequence[tuple[float, float]]

    @property
    def ratios(self) -> list[float]:
        """The ratio of after to before, for each pair."""
        return [after / before for before, after in self.pairs]

    def row(self) -> str:
        """One line of the table."""
        before, after = (median(side) * 1e6 for side in zip(*self.pairs, strict=True))
        ratio, bar = median(self.ratios), BARS.get(self.scenario, NOT_WORSE)
        low, _, high = quantiles(self.ratios, n=4) if len(self.pairs) > 1 else (ratio, ratio, ratio)
        verdict = "PASS" if ratio <= bar else "FAIL"
        cells = (self.scenario, self.unit, f"{before:,.1f}", f"{after:,.1f}", f"**{ratio:.3f}**")
        return f"| {' | '.join(cells)} | {low:.3f} to {high:.3f} | {bar:.2f} | {verdict} |"


class _Arguments(argparse.Namespace):
    before: Path
    after: Path = ROOT
    setting: list[str] | None = None
    scenario: list[str] | None = None
    pairs: int = PAIRS
    publish: bool = False


def main() -> int:
    """Compare two trees."""
    options = _read_options()
    INTERRUPTION.install()
    OUT.mkdir(exist_ok=True)
    settings = dict(each.split("=", 1) for each in options.setting or ())
    trees = (Tree("before", options.before.resolve()), Tree("after", options.after.resolve(), settings))
    contender = all_contenders()[OURS]
    lines = ["| scenario | CPU time per | before, µs | after, µs | ratio | half of the pairs | bar | |",
             "| --- | --- | ---: | ---: | ---: | --- | ---: | --- |"]  # fmt: skip
    print("\n".join(lines), flush=True)
    with assembled() as rig:
        for name in options.scenario or DEFAULT:
            found = _compared(name, contender, rig, trees, options.pairs)
            lines.append(found.row())
            print(lines[-1], flush=True)
    if options.publish:
        version = contender.version() or ""
        RESULTS.write_text(
            f"{TITLE}{describe({OURS: version})} {options.pairs} pairs.\n\n" + "\n".join(lines) + "\n"
        )
    return 0


def _read_options() -> _Arguments:
    parser = argparse.ArgumentParser(
        prog="python -m bench.compare", description=(__doc__ or "").partition("\n")[0]
    )
    add = parser.add_argument
    add("--before", type=Path, required=True, metavar="DIR", help="a checkout of the older tree")
    add(
        "--after",
        type=Path,
        default=ROOT,
        metavar="DIR",
        help="a checkout of the newer tree (default: this one)",
    )
    add(
        "--with",
        dest="setting",
        action="append",
        metavar="NAME=VALUE",
        help="an environment variable of the newer tree's server (may be repeated)",
    )
    add("-s", "--scenario", action="append", help=f"may be repeated (default: {' '.join(DEFAULT)})")
    add("-r", "--pairs", type=int, default=PAIRS, help=f"pairs of slices (default: {PAIRS})")
    add("--publish", action="store_true", help=f"write {RESULTS.relative_to(ROOT)}")
    return parser.parse_args(namespace=_Arguments())


def _compared(name: str, contender: Contender, rig: Rig, trees: tuple[Tree, Tree], pairs: int) -> Comparison:
    if name == "start":
        samples = [_start_sample(contender, rig, tree) for tree in trees]
        return Comparison(name, "start", _alternated(samples, pairs))
    with ExitStack() as stack:
        samples = [stack.enter_context(_sampling(name, contender, rig, tree)) for tree in trees]
        unit = "answer, more than without history" if name == "chain" else _unit(parse(name))
        return Comparison(name, unit, _alternated(samples, pairs))


def _alternated(samples: Sequence[Sample], pairs: int) -> list[tuple[float, float]]:
    before, after = samples
    found: list[tuple[float, float]] = []
    for number in range(pairs):
        if number % 2:
            second = after()
            found.append((before(), second))
        else:
            found.append((before(), after()))
    return found


@contextmanager
def _sampling(name: str, contender: Contender, rig: Rig, tree: Tree) -> Generator[Sample]:
    """Start a server of a tree; yields the function that takes one sample."""
    with tempfile.TemporaryDirectory(prefix="compare-", dir=OUT) as folder:
        extra, last = dict(tree.environment), ""
        if name == "chain":
            file = Path(folder) / "chain.db"
            last = build_chain(file, rig, tree.folder, tree.environment).last
            extra["BENCH_STORE"] = f"sqlite:{file}"
        with serving(contender, rig, f"compare-{tree.name}", extra) as gateway:
            if name == "chain":
                yield lambda: _chain_sample(gateway, rig, last)
            else:
                scenario = _slice(parse(name))
                yield lambda: _load_sample(gateway, scenario, rig)


def _unit(scenario: Scenario) -> str:
    return "answer" if scenario.kind.deltas is None else "delta"


def _slice(scenario: Scenario) -> Scenario:
    paced = scenario.kind.delay_us > 0
    seconds, warm_up = (PACED_SECONDS, PACED_WARM_UP_SECONDS) if paced else (SLICE_SECONDS, WARM_UP_SECONDS)
    return replace(scenario, kind=replace(scenario.kind, seconds=seconds, warm_up=warm_up))


def _load_sample(gateway: Gateway, scenario: Scenario, rig: Rig) -> float:
    metrics, fault = measure(gateway, scenario, rig)
    if fault:
        raise RuntimeError(f"{scenario.name}: {fault}")
    return metrics["cpu_us"] / 1e6


def _chain_sample(gateway: Gateway, rig: Rig, last: str) -> float:
    rig.control("burst=1&delay_us=0&stamp=0&yield=1")
    resumed, fresh = QUESTION | {"previous_response_id": last}, QUESTION
    with_history, without = (_cpu_of(gateway, question, CHAIN_QUESTIONS) for question in (resumed, fresh))
    return with_history - without


def _cpu_of(gateway: Gateway, question: Mapping[str, object], count: int) -> float:
    assert gateway.session is not None
    body = json.dumps(question).encode()
    begin = process_seconds(gateway.session)
    for _ in range(count):
        exchange(gateway.port, "POST", gateway.contender.api.path, body=body, timeout=30)
    return (process_seconds(gateway.session) - begin) / count


def _start_sample(contender: Contender, rig: Rig, tree: Tree) -> Sample:
    def sample() -> float:
        with serving(contender, rig, f"compare-{tree.name}", tree.environment) as gateway:
            assert gateway.cold_start_cpu_s is not None
            return gateway.cold_start_cpu_s

    return sample


if __name__ == "__main__":
    sys.exit(main())
