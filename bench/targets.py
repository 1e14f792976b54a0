"""The targets of Antiphon, and their verdicts."""

from dataclasses import dataclass

from bench.chain import HISTORY, ON_DISK
from bench.contenders import OURS
from bench.in_turn import SHARE
from bench.runner import START
from bench.summary import ADDED, Summary


@dataclass(frozen=True)
class Target:
    """A bound on a number, or on its ratio to a peer's number or to Antiphon's in the scenario `base`."""

    what: str
    scenario: str
    metric: str
    at_least: float | None = None
    below: float | None = None
    peer: str | None = None
    base: str | None = None

    @property
    def relative(self) -> bool:
        """Whether the number is a ratio."""
        return self.peer is not None or self.base is not None or self.metric == SHARE

    def measured(self, summary: Summary) -> float | None:
        """The number, or the ratio."""
        if self.base is not None:
            return summary.share(OURS, (self.scenario, self.base), self.metric)
        if self.peer is not None:
            return summary.ratio((OURS, self.peer), self.scenario, self.metric)
        return summary.value(OURS, self.scenario, self.metric)

    def errors(self, summary: Summary) -> int:
        """The number of wrong answers in its scenario."""
        return sum(summary.errors(OURS, name) for name in (self.scenario, self.base) if name)

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
    Target(
        "stored: at least 50 % of the answers/s", "kept:32", "answers_per_s", at_least=0.5, base="json:32"
    ),
    Target("stored: at least 60 % of the events/s", "k100:32", "events_per_s", at_least=0.6, base="s100:32"),
    Target(
        "stored: ahead of agentic-api's answers/s", "kept:32", "answers_per_s", at_least=1, peer="agentic"
    ),
    Target("stored: ahead of agentic-api's deltas/s", "k100:32", "deltas_per_s", at_least=1, peer="agentic"),
    Target("profile maestro: at least 97 % of the default's deltas/s", "m100:32", SHARE, at_least=0.97),
    Target("profile proxy: at least 97 % of the default's deltas/s", "p100:32", SHARE, at_least=0.97),
    Target("calls looked for in text: at least 90 % of the deltas/s", "t100:32", SHARE, at_least=0.9),
    Target(
        "Anthropic's API upstream: at least 70 % of the deltas/s",
        "an100:32",
        SHARE,
        at_least=0.7,
    ),
    Target("Gemini's API upstream: at least 70 % of the deltas/s", "ge100:32", SHARE, at_least=0.7),
    Target("Responses upstream: at least 70 % of the deltas/s", "re100:32", SHARE, at_least=0.7),
    Target("door of chat completions: at least 70 % of the deltas/s", "cd100:32", SHARE, at_least=0.7),
    Target("door of messages: at least 70 % of the deltas/s", "md100:32", SHARE, at_least=0.7),
    Target("a Codex request of 40 kB: first delta within 3 ms (p50)", "cx100:1", "first_p50_ms", below=3),
    Target("retrieval in less than 2 ms (p50)", "retrieve:1", "total_p50_ms", below=2),
    Target("history of 1,000 turns × 4 items in less than 25 ms (p50)", "chain", HISTORY, below=25),
    Target("1,000 turns × 4 items in less than 10 MB on disk", "chain", ON_DISK, below=10),
)


@dataclass(frozen=True)
class Verdict:
    """A target and its verdict; `passed` is None if it was not measured."""

    target: Target
    value: float | None
    errors: int
    passed: bool | None


def judge(summary: Summary) -> list[Verdict]:
    """One verdict per target. Wrong answers fail a target, regardless of the speed."""
    return [_judge(target, summary) for target in TARGETS]


def _judge(target: Target, summary: Summary) -> Verdict:
    value = target.measured(summary)
    errors = target.errors(summary)
    passed = None if value is None else target.passes(value) and not errors
    return Verdict(target, value, errors, passed)
