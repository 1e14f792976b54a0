"""The summary of all rounds: one median per contender, scenario and metric."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from bench.contenders import DIRECT
from bench.measure import Row
from bench.runner import NOISY

ADDED = "added_p50_ms"
SATURATED = 0.9


@dataclass(frozen=True)
class Summary:
    """Computes medians and ratios of the rows."""

    rows: Sequence[Row]

    def value(self, contender: str, scenario: str, metric: str) -> float | None:
        """The median over the rounds; None when it was not measured."""
        if metric == ADDED:
            return self._added(contender, scenario)
        values = [row.metrics[metric] for row in self._cell(contender, scenario) if metric in row.metrics]
        return median(values) if values else None

    def ratio(self, over: tuple[str, str], scenario: str, metric: str) -> float | None:
        """One contender's median over another's."""
        above, below = (self.value(name, scenario, metric) for name in over)
        return above / below if above is not None and below else None

    def share(self, contender: str, scenarios: tuple[str, str], metric: str) -> float | None:
        """A contender's median in one scenario over its median in another."""
        above, below = (self.value(contender, scenario, metric) for scenario in scenarios)
        return above / below if above is not None and below else None

    def errors(self, contender: str, scenario: str) -> int:
        """The number of wrong answers."""
        return sum(int(row.metrics.get("errors", 0)) for row in self._cell(contender, scenario))

    def notes(self) -> Iterator[str]:
        """Notes about single cells."""
        cells = list(dict.fromkeys((row.contender, row.scenario) for row in self.rows))
        for contender, scenario in cells:
            if wrong := self.errors(contender, scenario):
                fault = next(row.fault for row in self._cell(contender, scenario) if row.fault)
                yield f"{contender}, {scenario}: {wrong} answers were wrong; the first: {fault}"
            streams = self.value(contender, scenario, "open_streams")
            if streams is not None and streams < int(scenario.partition(":")[2]):
                yield f"{contender}, {scenario}: only {streams:.0f} streams were open at once"
        if noisy := [cell for cell in cells if self._noise(*cell) >= NOISY]:
            most = max(self._noise(*cell) for cell in noisy)
            yield f"up to {most:.2f} cores were busy with something else during {_listed(noisy)}"
        if idle := [cell for cell in cells if self._not_the_limit(*cell)]:
            yield f"not the gateway's core but the load side or the disk was the limit in {_listed(idle)}"

    def _cell(self, contender: str, scenario: str) -> list[Row]:
        return [row for row in self.rows if (row.contender, row.scenario) == (contender, scenario)]

    def _noise(self, contender: str, scenario: str) -> float:
        return max(row.metrics.get("noise_cores", 0) for row in self._cell(contender, scenario))

    def _added(self, contender: str, scenario: str) -> float | None:
        own = self.value(contender, scenario, "first_p50_ms")
        direct = self.value(DIRECT, scenario, "first_p50_ms")
        return None if own is None or direct is None or contender == DIRECT else own - direct

    def _not_the_limit(self, contender: str, scenario: str) -> bool:
        kind, _, connections = scenario.partition(":")
        used = self.value(contender, scenario, "cpu_cores")
        saturating = kind not in ("paced", "hold") and connections not in ("", "1")
        quiet = self._noise(contender, scenario) < NOISY
        return saturating and quiet and contender != DIRECT and used is not None and used < SATURATED


def _listed(cells: Sequence[tuple[str, str]]) -> str:
    return ", ".join(f"{contender} {scenario}" for contender, scenario in cells)
