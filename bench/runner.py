"""The rounds: in each, every contender is started, measured in every scenario, and ended."""

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from bench.contenders import DIRECT, Contender
from bench.gateway import Gateway, NotServing, serving
from bench.measure import LoadFailed, Metrics, Row, measure
from bench.rig import Rig
from bench.scenarios import Scenario

START = "start"
NOISY = 0.1


@dataclass(frozen=True)
class Plan:
    """Who is measured in what, how often, and how many times more when the machine was busy."""

    contenders: Sequence[Contender]
    scenarios: Sequence[Scenario]
    rounds: int
    tries: int

    def minutes(self) -> float:
        """How long it takes on a quiet machine, roughly."""
        per_contender = 8 + sum(
            scenario.kind.seconds + scenario.kind.warm_up + 1 for scenario in self.scenarios
        )
        return self.rounds * len(self.contenders) * per_contender / 60


def say(text: str) -> None:
    """Tell the user how it goes."""
    print(text, file=sys.stderr, flush=True)


def run(plan: Plan, rig: Rig, keep: Callable[[Row], None]) -> list[str]:
    """Do all rounds, hand each row to `keep`, and return what went wrong.

    The order turns around every round, so that a machine that slows down is unfair to nobody.
    """
    troubles: list[str] = []
    for number in range(plan.rounds):
        for contender in plan.contenders[:: -1 if number % 2 else 1]:
            try:
                for row in _measured(contender, plan, rig, number):
                    keep(row)
            except (NotServing, LoadFailed) as error:
                troubles.append(f"{contender.name} did not get through round {number + 1}")
                say(f"! {troubles[-1]}: {error}")
    return troubles


def _measured(contender: Contender, plan: Plan, rig: Rig, number: int) -> Iterator[Row]:
    with serving(contender, rig) as gateway:
        if gateway.cold_start_s is not None and gateway.idle_mb is not None:
            metrics = {"cold_start_s": gateway.cold_start_s, "idle_mb": gateway.idle_mb}
            yield Row(contender.name, START, number, metrics)
        for scenario in plan.scenarios:
            if contender.name == DIRECT and scenario.kind_name == "hold":
                continue  # there is no gateway whose memory could be measured
            metrics, fault = _quietest(gateway, scenario, rig, plan.tries)
            say(_progress(contender, scenario, number, metrics) + (f"  ! {fault}" if fault else ""))
            yield Row(contender.name, scenario.name, number, metrics, fault)


def _quietest(gateway: Gateway, scenario: Scenario, rig: Rig, tries: int) -> tuple[Metrics, str]:
    """Measure until nobody else was busy, and take the least disturbed try."""
    found: list[tuple[Metrics, str]] = []
    for _ in range(tries):
        found.append(measure(gateway, scenario, rig))
        if found[-1][0]["noise_cores"] < NOISY:
            break
    return min(found, key=lambda result: result[0]["noise_cores"])


def _progress(contender: Contender, scenario: Scenario, number: int, metrics: Metrics) -> str:
    rate = (
        f"{metrics['deltas_per_s']:,.0f} deltas/s"
        if metrics["deltas"]
        else f"{metrics['answers_per_s']:,.0f} answers/s"
    )
    return (
        f"round {number + 1}  {contender.name:10} {scenario.name:10} {rate:>20}"
        f"  cpu {metrics['cpu_cores']:.2f}  noise {metrics['noise_cores']:.2f}"
    )
