"""Compare two scenarios in alternating short slices, so that a small difference is visible.

The speed of the machine varies by more than the difference; two consecutive slices run at about the same
speed. Every other pair is reversed, because a slice may affect the next one.
"""

from statistics import median

from bench.gateway import Gateway
from bench.measure import LoadFailed, Metrics, measure
from bench.rig import Rig
from bench.scenarios import Scenario

SHARE = "share"
CPU_SHARE = "cpu_share"
RATE, CPU = "deltas_per_s", "cpu_us"
Result = tuple[Metrics, str]


def measure_in_turn(gateway: Gateway, scenario: Scenario, rig: Rig) -> Result:
    """The medians of the scenario's slices, and of its ratios to the other scenario in deltas/s and CPU."""
    other = scenario.beside()
    pairs = [_pair(gateway, (scenario, other), rig, number) for number in range(scenario.kind.pairs)]
    results = [result for pair in pairs for result in pair]
    fault = next((fault for _, fault in results if fault), "")
    if any(not numbers[RATE] for numbers, _ in results):
        raise LoadFailed(f"no deltas in {scenario.name} or in {other.name} beside it: {fault}")
    metrics = _medians([own for (own, _), _ in pairs])
    for name, metric in ((SHARE, RATE), (CPU_SHARE, CPU)):
        metrics[name] = median(own[metric] / others[metric] for (own, _), (others, _) in pairs)
    metrics["errors"] = sum(numbers["errors"] for numbers, _ in results)
    metrics["noise_cores"] = median(numbers["noise_cores"] for numbers, _ in results)
    return metrics, fault


def _pair(
    gateway: Gateway, scenarios: tuple[Scenario, Scenario], rig: Rig, number: int
) -> tuple[Result, Result]:
    own, other = scenarios
    if number % 2:
        others = measure(gateway, other, rig)
        return measure(gateway, own, rig), others
    return measure(gateway, own, rig), measure(gateway, other, rig)


def _medians(slices: list[Metrics]) -> Metrics:
    return {name: median(metrics[name] for metrics in slices) for name in slices[0]}
