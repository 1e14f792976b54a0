"""The rounds: in each, every contender is started, measured in every scenario, and ended."""

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from bench.chain import RESUMED, measure_chain
from bench.contenders import DIRECT, OURS, Contender
from bench.gateway import Gateway, NotServing, serving
from bench.in_turn import SHARE, measure_in_turn
from bench.measure import LoadFailed, Metrics, Row, measure
from bench.rig import Rig
from bench.scenarios import Scenario

START = "start"
NOISY = 0.1


@dataclass(frozen=True)
class Plan:
    """The contenders, the scenarios, the rounds, and the number of retries on a busy machine."""

    contenders: Sequence[Contender]
    scenarios: Sequence[Scenario]
    rounds: int
    tries: int

    def minutes(self) -> float:
        """The approximate duration on an idle machine."""
        once = sum(
            8 + sum(scenario.kind.takes for scenario in self.suiting(contender))
            for contender in self.contenders
        )
        return self.rounds * once / 60

    def suiting(self, contender: Contender) -> Iterator[Scenario]:
        """The scenarios that apply to a contender."""
        return (scenario for scenario in self.scenarios if _suits(contender, scenario))


def say(text: str) -> None:
    """Print the progress."""
    print(text, file=sys.stderr, flush=True)


def run(plan: Plan, rig: Rig, keep: Callable[[Row], None]) -> list[str]:
    """Run all rounds, pass each row to `keep`, and return the errors.

    The order is reversed every round, so that a machine that slows down affects all contenders.
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
        for scenario in plan.suiting(contender):
            metrics, fault = _quietest(gateway, scenario, rig, plan.tries)
            say(_progress(contender, scenario, number, metrics) + (f"  ! {fault}" if fault else ""))
            yield Row(contender.name, scenario.name, number, metrics, fault)


def _suits(contender: Contender, scenario: Scenario) -> bool:
    if scenario.kind.asked == "ours":
        return contender.name == OURS
    if scenario.kind.asked == "stateful":
        return bool(contender.state)
    return contender.name != DIRECT or scenario.kind_name != "hold"  # it is the gateway that takes memory


def _quietest(gateway: Gateway, scenario: Scenario, rig: Rig, tries: int) -> tuple[Metrics, str]:
    """Repeat a measurement while the machine is busy, and return the least disturbed one."""
    once = _way_to_measure(scenario)
    found: list[tuple[Metrics, str]] = []
    for _ in range(tries):
        found.append(once(gateway, scenario, rig))
        if found[-1][0]["noise_cores"] < NOISY:
            break
    return min(found, key=lambda result: result[0]["noise_cores"])


def _way_to_measure(scenario: Scenario) -> Callable[[Gateway, Scenario, Rig], tuple[Metrics, str]]:
    if scenario.kind.work == "resume":
        return measure_chain
    return measure_in_turn if scenario.kind.beside else measure


def _progress(contender: Contender, scenario: Scenario, number: int, metrics: Metrics) -> str:
    return (
        f"round {number + 1}  {contender.name:10} {scenario.name:10} {_headline(scenario, metrics):>30}"
        f"  noise {metrics['noise_cores']:.2f}"
    )


def _headline(scenario: Scenario, metrics: Metrics) -> str:
    if scenario.kind.work == "resume":
        return f"{metrics[RESUMED]:.1f} ms"
    rate = (
        f"{metrics['deltas_per_s']:,.0f} deltas/s"
        if metrics["deltas"]
        else f"{metrics['answers_per_s']:,.0f} answers/s"
    )
    return f"{rate}  {_second(scenario, metrics)}"


def _second(scenario: Scenario, metrics: Metrics) -> str:
    if scenario.kind.beside:
        return f"{metrics[SHARE]:.3f} of {scenario.kind.beside}"
    return f"cpu {metrics['cpu_cores']:.2f}"
