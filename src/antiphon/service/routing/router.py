"""Which backends serve a model, in which order they are tried, and which models there are."""

import asyncio
import logging
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from msgspec import Struct

from antiphon.backends.base import Backend, ModelInfo
from antiphon.errors import BackendError, ModelNotFound
from antiphon.protocol.ids import Clock
from antiphon.service.routing.circuits import Circuit, Circuits, HealthPolicy, Key, Phase
from antiphon.service.routing.limits import ConcurrencyLimit, Limits
from antiphon.service.routing.names import (
    WILDCARD,
    Names,
    check_names,
    is_pattern,
    most_similar,
    offered_name,
    taken,
    upstream_name,
)
from antiphon.service.routing.turn_slot import RouteGuards, TurnCount, TurnDeadlines, TurnSlot
from antiphon.settings import TextCalls

logger = logging.getLogger(__name__)

MAX_REMEMBERED = 1000
"""Names of models are the clients' to choose: the routes of so many are kept at hand."""

_NO_LIMITS = Limits()
_NO_NAMES = Names()
_USUAL_HEALTH = HealthPolicy()


@dataclass(frozen=True, slots=True)
class Route:
    """A backend that serves `model` (every name that begins so, if it ends with `*`) as `upstream`."""

    model: str
    backend: Backend
    upstream: str = ""
    weight: float = 1.0
    priority: int = 0
    text_calls: TextCalls = "off"
    """How the model writes tool calls as text."""
    limits: Limits = _NO_LIMITS
    deadlines: TurnDeadlines | None = None
    """Where they are shorter than the backend's own."""
    dialect: str = "custom"
    """What the backend speaks; a backend of one's own need not tell."""
    context_window: int | None = None
    """Tokens that the model takes, where the settings know; else its server is asked: see `window`."""
    instead_of: str = ""
    """The model that was asked for and could not answer, if this one stands in for it."""
    gate: RouteGuards | None = None
    """What a turn passes; the router sets it."""

    def upstream_name(self, asked: str) -> str:
        """What the backend calls the model. Of a route from the router that is settled, whatever is asked."""
        return upstream_name(self.model, self.upstream, asked)

    async def window(self) -> int | None:
        """Tokens that the model takes; None if nobody knows. Only of a route from the router."""
        return self.context_window or await self.backend.context_window(self.upstream)

    def slot(self) -> TurnSlot:
        """One turn: ``async with route.slot() as slot``."""
        return TurnSlot(self.gate)


class RouteHealth(Struct, frozen=True):
    """How it is with one backend and model. `retry_in`: seconds until it may be tried."""

    model: str
    backend: str
    upstream: str
    circuit: Phase = "closed"
    failures: int = 0
    retry_in: float = 0.0
    running: int = 0
    waiting: int = 0


RowKey = tuple[str, str, int]


def _key(row: Route) -> RowKey:
    """What makes a row the same as one of earlier settings."""
    return row.model, row.upstream, id(row.backend)


class _Table:
    """The routes at one time: all of it is replaced when the settings are read again."""

    def __init__(self, routes: Sequence[Route], names: Names, circuits: Circuits, clock: Clock) -> None:
        check_names(names, {route.model for route in routes})
        self.names = names
        self.circuits = circuits
        self.clock = clock
        self.uses: dict[int, TurnCount] = {}
        self.lanes: dict[RowKey, ConcurrencyLimit] = {}
        self.rows: dict[str, list[Route]] = {}
        for route in sorted(routes, key=lambda route: route.priority):
            self.rows.setdefault(route.model, []).append(route)
            self.uses.setdefault(id(route.backend), TurnCount())
            if route.limits.any:
                self.lanes[_key(route)] = ConcurrencyLimit(route.limits, clock)
        self.patterns = sorted((row for row in self.rows if is_pattern(row)), key=len, reverse=True)
        self._groups: dict[str, list[list[Route]]] = {}

    def inherit(self, earlier: "_Table") -> None:
        """Turns that are under way go on to count."""
        self.uses |= {backend: use for backend, use in earlier.uses.items() if backend in self.uses}
        for row, lane in earlier.lanes.items():
            if row in self.lanes and self.lanes[row].limits == lane.limits:
                self.lanes[row] = lane

    def exact_names(self) -> list[str]:
        """Every name that is no pattern."""
        return [name for name in self.rows if not is_pattern(name)] + list(self.names.aliases)

    def groups(self, model: str) -> list[list[Route]]:
        """The routes of the model, and then those of each that stands in for it; none: it does not exist."""
        found = self._groups.get(model)
        if found is None:
            found = self._find(model)
            if len(self._groups) >= MAX_REMEMBERED:
                self._groups.clear()
            if found:
                self._groups[model] = found
        return found

    def _find(self, model: str) -> list[list[Route]]:
        meant = self.names.meant(model)
        own = self._bound(meant)
        others = [self._bound(name, model) for name in self.names.stand_ins(model)]
        return [own, *others] if own else []

    def _bound(self, name: str, instead_of: str = "") -> list[Route]:
        """The rows of a name, each with what the upstream calls it and what its turns pass."""
        rows = self.rows.get(name)
        if rows is None:
            pattern = next((row for row in self.patterns if taken(row, name)), "")
            rows = self.rows.get(pattern, [])
        return [self._bind(row, name, instead_of) for row in rows]

    def _bind(self, row: Route, name: str, instead_of: str) -> Route:
        upstream = row.upstream_name(name)
        gate = RouteGuards(
            key=Key(row.backend.name, upstream, id(row.backend)),
            circuits=self.circuits,
            use=self.uses[id(row.backend)],
            lane=self.lanes.get(_key(row)),
            deadlines=row.deadlines,
        )
        return replace(row, model=name, upstream=upstream, instead_of=instead_of, gate=gate)


class Router:
    """Finds the routes of a model; exact names win over patterns, long patterns over short ones."""

    def __init__(
        self,
        routes: Sequence[Route],
        *,
        chance: Callable[[], float],
        names: Names = _NO_NAMES,
        health: HealthPolicy = _USUAL_HEALTH,
        clock: Clock = time.monotonic,
    ) -> None:
        self._chance = chance
        self._clock = clock
        self._table = _Table(routes, names, Circuits(health, clock), clock)

    def change(self, routes: Sequence[Route], names: Names, health: HealthPolicy) -> None:
        """Serve these from now on; `SettingsError`: nothing has changed. Turns under way go on as they are;
        what was learnt about the health of upstreams is forgotten."""
        table = _Table(routes, names, Circuits(health, self._clock), self._clock)
        table.inherit(self._table)
        self._table = table

    def use_of(self, backend: Backend) -> TurnCount:
        """The turns that a backend has under way; ask before it is taken out of the routes."""
        return self._table.uses.get(id(backend)) or TurnCount()

    def routes(self, model: str, *, similar: bool = False) -> list[Route]:
        """The routes to try, best first: by priority, then at random by weight; then those of the models that
        stand in. `similar`: a model that does not exist may be served by one with a similar name."""
        table = self._table
        groups = table.groups(model)
        if not groups and similar:
            groups = table.groups(most_similar(model, table.exact_names()) or "")
        if not groups:
            known = ", ".join(f"'{name}'" for name in sorted(table.exact_names())[:20]) or "none"
            raise ModelNotFound(f"The model '{model}' does not exist here. Known models: {known}.")
        if len(groups) == 1 and len(groups[0]) == 1:
            return groups[0]
        return [route for group in groups for route in self._drawn(group)]

    def _drawn(self, group: list[Route]) -> list[Route]:
        if len(group) == 1:
            return group
        # Exponential keys: the smallest of E/weight is drawn with probability proportional to the weight.
        return sorted(group, key=lambda route: (route.priority, -_log(self._chance()) / route.weight))

    def health(self) -> list[RouteHealth]:
        """Every configured route, and every other name that failed lately."""
        table, now = self._table, self._clock()
        known: dict[Key, tuple[Route, ConcurrencyLimit | None]] = {}
        for row in (row for rows in table.rows.values() for row in rows):
            key = Key(row.backend.name, row.upstream_name(row.model), id(row.backend))
            known[key] = row, table.lanes.get(_key(row))
        told = [_health(row.model, table.circuits.find(key), now, lane) for key, (row, lane) in known.items()]
        others = [circuit for circuit in table.circuits.all() if circuit.key not in known]
        return told + [_health(circuit.key.model, circuit, now) for circuit in others]

    async def models(self) -> list[ModelInfo]:
        """Every model by name: the configured ones, their aliases, and what the backends of patterns offer
        right now."""
        table = self._table
        models = {name: ModelInfo(name) for name in table.exact_names()}
        rows = [row for pattern in table.patterns for row in table.rows[pattern]]
        for row, offer in zip(
            rows, await asyncio.gather(*(_offer(row.backend) for row in rows)), strict=True
        ):
            for info in offer:
                name = offered_name(row.model, row.upstream, info.id)
                if name is not None:
                    models.setdefault(name, ModelInfo(name, info.created, info.owned_by))
        return list(models.values())


def _health(model: str, circuit: Circuit, now: float, lane: ConcurrencyLimit | None = None) -> RouteHealth:
    return RouteHealth(
        model=model,
        backend=circuit.key.backend,
        upstream=circuit.key.model,
        circuit=circuit.phase,
        failures=circuit.failures,
        retry_in=max(0.0, circuit.until - now) if circuit.phase != "closed" else 0.0,
        running=lane.running if lane else 0,
        waiting=lane.waiting if lane else 0,
    )


async def _offer(backend: Backend) -> Sequence[ModelInfo]:
    try:
        return await backend.models()
    except BackendError as error:
        logger.warning("backend %s does not tell its models: %s", backend.name, error.message)
        return ()


def _log(value: float) -> float:
    return math.log(max(value, 1e-300))


__all__ = ["WILDCARD", "Route", "RouteHealth", "Router"]
