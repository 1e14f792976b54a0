"""One attack after another on the same server, each beside the probe, and the table of the results."""

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from bench.hostile.attacks import ATTACKS
from bench.hostile.samples import Lag, Probe, probing
from bench.hostile.target import MAX_MEMORY_MB, Target, attacked_server, run_attacker

ALL_TOGETHER = "all together"
QUIET_SECONDS = 1.5
RECOVERY_SECONDS = 20.0
"""A server that does not answer for so long after an attack is killed and started again."""
MAX_LAG_MS = 50.0
"""Beyond the lag of the control, or of the model, in the same time."""
COMMON_OUTCOMES = 3

HEAD = """\
| attack | requests | answers | `healthz` p99 before → during, ms | answer p99 before → during, ms | \
control p99 before → during, ms | model p99 before → during, ms | memory before → peak, MB | result |
|---|---|---|---|---|---|---|---|---|"""


@dataclass(frozen=True)
class AttackRound:
    """The result of one attack."""

    name: str
    requests: int
    outcomes: Mapping[str, int]
    notes: Mapping[str, float]
    before: Lag
    during: Lag
    memory_before_mb: float
    memory_peak_mb: float
    ended: str | None
    """How the server ended, if it did."""

    @property
    def faults(self) -> list[str]:
        """The bounds that did not hold."""
        found = [self.ended] if self.ended else []
        found += [
            f"{kind} {lag:,.0f} ms"
            for kind, lag, control in self.during.controlled
            if not lag - control <= MAX_LAG_MS
        ]
        if self.during.failures:
            found.append(f"{self.during.failures} of {self.during.requests} probes failed")
        if self.memory_peak_mb > MAX_MEMORY_MB:
            found.append(f"{self.memory_peak_mb:,.0f} MB")
        found += [f"{what}: {value:g}" for what, value in self.notes.items() if _is_fault(what, value)]
        return found

    @property
    def verdict(self) -> str:
        """The faults in one line, or `held`."""
        return "; ".join(self.faults) or "held"


def _is_fault(what: str, value: float) -> bool:
    """Notes count things that must not happen, except times, which have a bound of a second."""
    return value > 1 if what.endswith("seconds") else True


def run_rounds(
    folder: Path, names: Sequence[str], seconds: float, together_seconds: float
) -> Iterator[AttackRound]:
    """Start a server and run these attacks against it."""
    with attacked_server(folder) as target, probing(target) as probe:
        probe.quiet(QUIET_SECONDS)
        for name in names:
            if name == ALL_TOGETHER:
                yield run_round(target, probe, name, list(ATTACKS), together_seconds)
            else:
                yield run_round(target, probe, name, [name], seconds)


def run_round(target: Target, probe: Probe, name: str, attacks: list[str], seconds: float) -> AttackRound:
    """Run attacks, and wait until the server answers again."""
    before = probe.quiet(QUIET_SECONDS)
    memory_before = target.memory_mb()
    target.reset_peak()
    began = time.monotonic()
    tallies = run_attacker(target, attacks, seconds)
    ended = time.monotonic()
    gone = _wait_for_recovery(target)
    peak = target.peak_mb()
    during = probe.between(began, ended)
    if gone or target.memory_mb() > MAX_MEMORY_MB:
        target.restart()  # the next attack is measured by itself
    requests, outcomes, notes = _summed(tallies)
    return AttackRound(name, requests, outcomes, notes, before, during, memory_before, peak, gone)


def _wait_for_recovery(target: Target) -> str | None:
    """How the server ended; None if it answers."""
    limit = time.monotonic() + RECOVERY_SECONDS
    while time.monotonic() < limit and not target.died:
        if target.alive():
            return None
    return target.died or f"server stuck for {RECOVERY_SECONDS:g} s"


def _summed(tallies: Mapping[str, Mapping[str, object]]) -> tuple[int, dict[str, int], dict[str, float]]:
    requests = 0
    outcomes: dict[str, int] = {}
    notes: dict[str, float] = {}
    for tally in cast("Mapping[str, Mapping[str, Any]]", tallies).values():
        requests += tally["requests"]
        for outcome, number in tally["outcomes"].items():
            outcomes[outcome] = outcomes.get(outcome, 0) + number
        for what, value in tally["notes"].items():
            notes[what] = max(value, notes.get(what, 0))
    return requests, outcomes, notes


def failed(rounds: Sequence[AttackRound]) -> bool:
    """Whether a bound did not hold."""
    return any(done.faults for done in rounds)


def markdown(rounds: Sequence[AttackRound]) -> str:
    """The table."""
    return "\n".join([HEAD, *(_row(done) for done in rounds)])


def _row(done: AttackRound) -> str:
    common = sorted(done.outcomes.items(), key=lambda pair: -pair[1])[:COMMON_OUTCOMES]
    answers = ", ".join(f"{number:,} × {outcome}" for outcome, number in common)
    times = {what: value for what, value in done.notes.items() if what.endswith("seconds")}
    answers += "".join(f"; {what} {value:.2f}" for what, value in times.items())
    cells = (
        done.name.replace("|", "\\|"),
        f"{done.requests:,}",
        answers or "–",
        f"{_ms(done.before.healthz_ms)} → {_ms(done.during.healthz_ms)}",
        f"{_ms(done.before.answer_ms)} → {_ms(done.during.answer_ms)}",
        f"{_ms(done.before.control_ms)} → {_ms(done.during.control_ms)}",
        f"{_ms(done.before.model_ms)} → {_ms(done.during.model_ms)}",
        f"{done.memory_before_mb:,.0f} → {done.memory_peak_mb:,.0f}",
        done.verdict,
    )
    return "| " + " | ".join(cells) + " |"


def _ms(value: float) -> str:
    return "none" if math.isnan(value) else f"{value:,.0f}" if value >= 10 else f"{value:.1f}"
