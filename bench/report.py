"""The table: one line per number, one column per contender, and how Antiphon compares."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bench.chain import HISTORY, ON_DISK, RESUMED
from bench.contenders import DIRECT, OURS
from bench.in_turn import CPU_SHARE, SHARE
from bench.runner import START
from bench.scenarios import Scenario
from bench.summary import ADDED, Summary
from bench.targets import Target, Verdict, judge

COMPARED = ("nginx", "litellm", "agentic")
MISSING = "–"
Line = tuple[str, str]  # metric, unit

RATES: tuple[Line, ...] = (
    ("deltas_per_s", "deltas/s"),
    ("events_per_s", "events/s"),
    ("total_p99_ms", "whole answer p99, ms"),
    ("cpu_us", "CPU per delta, µs"),
)
ONE: tuple[Line, ...] = (
    ("first_p50_ms", "first delta p50, ms"),
    (ADDED, "first delta p50, ms more than direct"),
    ("total_p50_ms", "whole answer p50, ms"),
)
ANSWERS: tuple[Line, ...] = (
    ("answers_per_s", "answers/s"),
    ("total_p99_ms", "whole answer p99, ms"),
    ("cpu_us", "CPU per answer, µs"),
)
LINES: dict[str, tuple[Line, ...]] = {
    "json": ANSWERS,
    "kept": ANSWERS,
    "paced": (
        ("transit_p50_ms", "token's way p50, ms"),
        ("transit_p99_ms", "token's way p99, ms"),
        ("cpu_us", "CPU per delta, µs"),
    ),
    "hold": (("memory_mb", "memory, MB"),),
    "retrieve": (("total_p50_ms", "retrieval p50, ms"), ("total_p99_ms", "retrieval p99, ms")),
    "chain": (
        (HISTORY, "history read from the store p50, ms"),
        (RESUMED, "whole answer p50, ms more than without history"),
        (ON_DISK, "on disk, MB"),
    ),
    START: (("idle_mb", "idle memory, MB"), ("cold_start_s", "cold start, s")),
}


@dataclass(frozen=True)
class Report:
    """The report of a run."""

    summary: Summary
    scenarios: Sequence[Scenario]
    contenders: Sequence[str]
    machine: str
    how: str
    troubles: Sequence[str]

    def verdicts(self) -> list[Verdict]:
        """The verdicts of the targets."""
        return judge(self.summary)

    def markdown(self) -> str:
        """The table, the targets and the notes."""
        parts = [
            f"{self.machine} {self.how}",
            "\n".join(self._table()),
            "\n".join(map(_verdict, self.verdicts())),
        ]
        if notes := [*self.troubles, *self.summary.notes()]:
            parts.append("Notes:\n\n" + "\n".join(f"- {note}" for note in notes))
        return "\n\n".join(parts) + "\n"

    def _table(self) -> Iterator[str]:
        ratios = [f"{OURS} / {peer}" for peer in self._compared()]
        yield _cells("scenario", "number", *self.contenders, *ratios)
        yield _cells("---", "---", *["---:"] * (len(self.contenders) + len(ratios)))
        for scenario in self.scenarios:
            for metric, unit in _lines(scenario):
                yield self._row(scenario.name, metric, unit)
        for metric, unit in LINES[START]:
            yield self._row(START, metric, unit)

    def _row(self, scenario: str, metric: str, unit: str) -> str:
        values = [number(self.summary.value(name, scenario, metric)) for name in self.contenders]
        ratios = [times(self.summary.ratio((OURS, peer), scenario, metric)) for peer in self._compared()]
        return _cells(scenario, unit, *values, *ratios)

    def _compared(self) -> list[str]:
        return [peer for peer in COMPARED if peer in self.contenders]


def _lines(scenario: Scenario) -> tuple[Line, ...]:
    if scenario.kind_name in LINES:
        return LINES[scenario.kind_name]
    if scenario.kind.beside:
        return _in_turn_with(scenario.beside().name)
    return ONE if scenario.connections == 1 else RATES


def _in_turn_with(other: str) -> tuple[Line, ...]:
    return (
        ("deltas_per_s", "deltas/s"),
        ("events_per_s", "events/s"),
        ("cpu_us", "CPU per delta, µs"),
        (SHARE, f"deltas/s over those of {other} in turn"),
        (CPU_SHARE, f"CPU per delta over that of {other} in turn"),
    )


def _cells(*texts: str) -> str:
    return f"| {' | '.join(texts)} |"


def number(value: float | None) -> str:
    """Three significant digits, or all integer digits of a large number."""
    if value is None:
        return MISSING
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}" if abs(value) >= 1 else f"{value:.3f}"


def times(value: float | None) -> str:
    """A ratio."""
    return MISSING if value is None else f"{number(value)}×"


def _verdict(verdict: Verdict) -> str:
    target = verdict.target
    mark = {True: "PASS", False: "FAIL", None: "not measured"}[verdict.passed]
    wrong = f", with {verdict.errors} wrong answers" if verdict.errors else ""
    value = f": {_measured(target, verdict.value)}{wrong}" if verdict.value is not None else ""
    return f"- **{mark}** {target.what} ({target.scenario}){value}"


def _measured(target: Target, value: float) -> str:
    return times(value) if target.relative else number(value)


def columns(present: Sequence[str]) -> list[str]:
    """The contenders in the order of the table: Antiphon, the compared ones, others, the mock."""
    order = [OURS, *COMPARED]
    return sorted(
        present, key=lambda name: (name == DIRECT, order.index(name) if name in order else len(order))
    )
