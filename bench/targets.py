"""What Antiphon has to reach, and whether it did."""

from dataclasses import dataclass

from bench.contenders import OURS
from bench.runner import START
from bench.summary import ADDED, Summary


@dataclass(frozen=True)
class Target:
    """A bound on one number: at least, at most (exclusive), or at least so many times a peer's."""

    what: str
    scenario: str
    metric: str
    at_least: float | None = None
    below: float | None = None
    peer: str | None = None

    def measured(self, summary: Summary) -> float | None:
        """The number, or the ratio when a peer is named."""
        if self.peer is None:
            return summary.value(OURS, self.scenario, self.metric)
        return summary.ratio((OURS, self.peer), self.scenario, self.metric)

    def passes(self, value: float) -> bool:
        """Whether the bound holds."""
        return (self.at_least is None or value >= self.at_least) and (
            self.below is None or value < self.below
        )


TARGETS = (
    Target("at least 100,000 events/s", "s100:32", "events_per_s", at_least=100_000),
    Target("at least 5,000 JSON answers/s", "json:32", "answers_per_s", at_least=5_000),
    Target("at least 50 times LiteLLM's events/s", "s100:32", "events_per_s", at_least=50, peer="litellm"),
    Target("at least half of nginx's deltas/s", "s100:32", "deltas_per_s", at_least=0.5, peer="nginx"),
    Target("first delta less than 1 ms later than directly (p50)", "s100:1", ADDED, below=1),
    Target("less than 80 MB when idle", START, "idle_mb", below=80),
    Target("less than 150 MB with 256 open streams", "hold:256", "memory_mb", below=150),
    Target("cold start in less than 1.5 s", START, "cold_start_s", below=1.5),
)


@dataclass(frozen=True)
class Verdict:
    """A target and what came of it; `passed` is None when it was not measured."""

    target: Target
    value: float | None
    errors: int
    passed: bool | None


def judge(summary: Summary) -> list[Verdict]:
    """One verdict per target. Wrong answers fail it, however fast they came."""
    return [_judge(target, summary) for target in TARGETS]


def _judge(target: Target, summary: Summary) -> Verdict:
    value = target.measured(summary)
    errors = summary.errors(OURS, target.scenario)
    passed = None if value is None else target.passes(value) and not errors
    return Verdict(target, value, errors, passed)
