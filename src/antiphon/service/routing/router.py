"""Finds the backends that serve a model, in the order in which they are tried, and lists the models."""

import asyncio
import logging
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from msgspec import Struct

from antiphon.backends.base import Backend, ImageInformant, ModelInfo
from antiphon.backends.features import Support
from antiphon.backends.image_support import NO_IMAGES, REFUSED_IMAGES, UNKNOWN_IMAGES
from antiphon.errors import BackendError, ModelNotFound
from antiphon.protocol.ids import Clock
from antiphon.service.routing.circuits import Circuit, Circuits, HealthPolicy, Key, Phase
from antiphon.service.routing.limits import ConcurrencyLimit, Limits
from antiphon.service.routing.names import (
    WILDCARD,
    Names,
    check_names,
    is_pattern,
    matched,
    most_similar,
    offered_name,
    upstream_name,
)
from antiphon.service.routing.refused_images import RefusedImages
from antiphon.service.routing.turn_slot import RouteGuards, TurnCount, TurnDeadlines, TurnSlot
from antiphon.service.routing.upstreams import UpstreamRow, UpstreamState, upstream_state
from antiphon.settings import Listing, StrictSchemas, TextCalls

logger = logging.getLogger(__name__)

MAX_CACHED_NAMES = 1000
"""Clients choose the names of models, so the cache of their routes is bounded."""

_NO_LIMITS = Limits()
_NO_NAMES = Names()
_DEFAULT_HEALTH = HealthPolicy()


@dataclass(frozen=True, slots=True)
class Route:
    """A backend that serves `model` as `upstream`. A `model` that ends with `*` is a pattern for a prefix."""

    model: str
    backend: Backend
    upstream: str = ""
    weight: float = 1.0
    priority: int = 0
    text_calls: TextCalls = "off"
    """How the model writes tool calls as text."""
    strict_schemas: StrictSchemas = "checked"
    """Whether the backend is trusted to keep to strict schemas, so that such an answer is streamed."""
    limits: Limits = _NO_LIMITS
    deadlines: TurnDeadlines | None = None
    """Set where they are shorter than the backend's own."""
    total_seconds: float = math.inf
    """The time of a complete answer, whoever is slow: the backend or the client."""
    dialect: str = "custom"
    """The wire format of the backend, for display."""
    context_window: int | None = None
    """Tokens, if the settings define it; otherwise `window` asks the backend."""
    listed: Listing = "models"
    """How the list of models shows it."""
    instead_of: str = ""
    """The model that was requested, if this route is a fallback for it."""
    guards: RouteGuards | None = None
    """Circuit, limits and deadlines of the route; set by the router."""

    def upstream_name(self, requested: str) -> str:
        """The backend's name of a requested model. A route from the router has only one."""
        return upstream_name(self.model, self.upstream, requested)

    async def image_support(self) -> Support:
        """How the model takes images: as its server says; else as it has shown by a refusal. Only for routes
        from the router."""
        backend, served = self.backend, self.backend.features(self.upstream)["images"]
        if served.level == "unsupported" or not isinstance(backend, ImageInformant):
            return served
        takes = await backend.takes_images(self.upstream)
        if takes is not None:
            return served if takes else NO_IMAGES
        if self.guards is not None and self.guards.key in self.guards.refused_images:
            return REFUSED_IMAGES
        return served if backend.images_assumed else UNKNOWN_IMAGES

    async def window(self) -> int | None:
        """The context window in tokens; None if unknown. Only for routes from the router."""
        return self.context_window or await self.backend.context_window(self.upstream)

    def free_slot(self, tenant: str) -> TurnSlot | None:
        """A slot for one turn of this tenant; None if it may have to wait for one."""
        slot = TurnSlot(self.guards, tenant, self.total_seconds)
        return slot if slot.free else None

    async def slot(self, tenant: str) -> TurnSlot:
        """Wait for a slot, which must be entered next. Raises `BackendBusy` or `BackendPaused`."""
        slot = TurnSlot(self.guards, tenant, self.total_seconds)
        await slot.wait()
        return slot


class RouteHealth(Struct, frozen=True):
    """The state of one backend and model. `retry_in`: seconds until the next attempt."""

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
    """Identifies a row across reloads of the settings."""
    return row.model, row.upstream, id(row.backend)


class _Table:
    """All routes. A reload of the settings replaces the table."""

    def __init__(self, routes: Sequence[Route], names: Names, circuits: Circuits, clock: Clock) -> None:
        check_names(names, {route.model for route in routes})
        self.names = names
        self.circuits = circuits
        self.refused_images = RefusedImages(clock)
        self.clock = clock
        self.turn_counts: dict[int, TurnCount] = {}
        self.concurrency: dict[RowKey, ConcurrencyLimit] = {}
        self.rows: dict[str, list[Route]] = {}
        for route in sorted(routes, key=lambda route: route.priority):
            self.rows.setdefault(route.model, []).append(route)
            self.turn_counts.setdefault(id(route.backend), TurnCount())
            if route.limits.any:
                self.concurrency[_key(route)] = ConcurrencyLimit(route.limits, clock)
        self.patterns = sorted((row for row in self.rows if is_pattern(row)), key=len, reverse=True)
        self._groups: dict[str, list[list[Route]]] = {}

    def inherit(self, earlier: "_Table") -> None:
        """Take over the counters of running turns from the table before."""
        self.turn_counts |= {
            backend: count for backend, count in earlier.turn_counts.items() if backend in self.turn_counts
        }
        for row, limit in earlier.concurrency.items():
            if row in self.concurrency and self.concurrency[row].limits == limit.limits:
                self.concurrency[row] = limit

    def exact_names(self) -> list[str]:
        """Every listed model name and alias that is not a pattern."""
        named = [name for name in self.rows if not is_pattern(name) and self.listing(name) != "hidden"]
        return named + list(self.names.aliases)

    def listing(self, name: str) -> Listing:
        """How the rows of this name are listed."""
        return self.rows[name][0].listed

    def groups(self, model: str) -> list[list[Route]]:
        """The routes of the model, then those of each fallback; empty if the model does not exist."""
        found = self._groups.get(model)
        if found is None:
            found = self._find(model)
            if len(self._groups) >= MAX_CACHED_NAMES:
                self._groups.clear()
            if found:
                self._groups[model] = found
        return found

    def _find(self, model: str) -> list[list[Route]]:
        own = self._bound(self.names.resolve(model))
        others = [self._bound(name, model) for name in self.names.fallbacks_of(model)]
        return [own, *others] if own else []

    def _bound(self, name: str, instead_of: str = "") -> list[Route]:
        """The routes of a name, with their upstream names and guards."""
        if is_pattern(name):
            return []  # it stands for models, and is none itself
        rows = self.rows.get(name)
        if rows is None:
            pattern = next((row for row in self.patterns if matched(row, name)), "")
            rows = self.rows.get(pattern, [])
        return [self._bind(row, name, instead_of) for row in rows]

    def _bind(self, row: Route, name: str, instead_of: str) -> Route:
        upstream = row.upstream_name(name)
        guards = RouteGuards(
            key=Key(row.backend.name, upstream, id(row.backend)),
            circuits=self.circuits,
            turns=self.turn_counts[id(row.backend)],
            refused_images=self.refused_images,
            concurrency=self.concurrency.get(_key(row)),
            deadlines=row.deadlines,
        )
        return replace(row, model=name, upstream=upstream, instead_of=instead_of, guards=guards)


class Router:
    """Finds the routes of a model. An exact name wins over a pattern, a longer pattern over a shorter one."""

    def __init__(
        self,
        routes: Sequence[Route],
        *,
        chance: Callable[[], float],
        names: Names = _NO_NAMES,
        health: HealthPolicy = _DEFAULT_HEALTH,
        clock: Clock = time.monotonic,
    ) -> None:
        self._chance = chance
        self._clock = clock
        self._table = _Table(routes, names, Circuits(health, clock), clock)

    def change(self, routes: Sequence[Route], names: Names, health: HealthPolicy) -> None:
        """Replace all routes; after a `SettingsError` the old ones stay. Running turns are not affected; the
        state of the circuits is reset."""
        table = _Table(routes, names, Circuits(health, self._clock), self._clock)
        table.inherit(self._table)
        self._table = table

    def turn_count(self, backend: Backend) -> TurnCount:
        """The running turns of a backend. Call it before the backend is removed from the routes."""
        return self._table.turn_counts.get(id(backend)) or TurnCount()

    def routes(self, model: str, *, similar: bool = False) -> list[Route]:
        """The routes to try, best first: by priority, then randomly by weight; then those of the fallbacks.
        `similar`: an unknown model may be served by the model with the most similar name."""
        table = self._table
        groups = table.groups(model)
        if not groups and similar:
            groups = table.groups(most_similar(model, table.exact_names()) or "")
        if not groups:
            raise ModelNotFound(_not_found(model, table.exact_names()))
        if len(groups) == 1 and len(groups[0]) == 1:
            return groups[0]
        return [route for group in groups for route in self._ordered(group)]

    def _ordered(self, group: list[Route]) -> list[Route]:
        if len(group) == 1:
            return group
        # Exponential keys: the smallest of E/weight is chosen with probability proportional to the weight.
        return sorted(group, key=lambda route: (route.priority, -_log(self._chance()) / route.weight))

    def health(self) -> list[RouteHealth]:
        """The state of every configured route, and of every other name that failed recently."""
        table, now = self._table, self._clock()
        known: dict[Key, tuple[Route, ConcurrencyLimit | None]] = {}
        for row in (row for rows in table.rows.values() for row in rows):
            key = Key(row.backend.name, row.upstream_name(row.model), id(row.backend))
            known[key] = row, table.concurrency.get(_key(row))
        configured = [
            _health(row.model, table.circuits.find(key), now, limit) for key, (row, limit) in known.items()
        ]
        others = [circuit for circuit in table.circuits.all() if circuit.key not in known]
        return configured + [_health(circuit.key.model, circuit, now) for circuit in others]

    def upstreams(self) -> list[UpstreamState]:
        """The state of every backend, by name."""
        table, now = self._table, self._clock()
        rows: dict[int, list[UpstreamRow]] = {}
        for row in (row for rows in table.rows.values() for row in rows):
            circuit = table.circuits.find(
                Key(row.backend.name, row.upstream_name(row.model), id(row.backend))
            )
            rows.setdefault(id(row.backend), []).append(
                UpstreamRow(
                    row.model,
                    row.dialect,
                    row.backend,
                    table.turn_counts[id(row.backend)],
                    table.concurrency.get(_key(row)),
                    circuit.phase,
                    max(0.0, circuit.until - now),
                    circuit.last_error,
                )
            )
        return sorted(map(upstream_state, rows.values()), key=lambda state: state.name)

    async def models(self) -> list[ModelInfo]:
        """All models: the configured ones, their aliases, the models that backends of patterns list, and
        patterns whose backend is not asked."""
        table = self._table
        models = {name: ModelInfo(name) for name in table.exact_names()}
        patterns = [row for pattern in table.patterns for row in table.rows[pattern]]
        rows = [row for row in patterns if row.listed == "models"]
        for row, listed in zip(
            rows, await asyncio.gather(*(_list_models(row.backend) for row in rows)), strict=True
        ):
            for info in listed:
                name = offered_name(row.model, row.upstream, info.id)
                if name is not None:
                    models.setdefault(name, ModelInfo(name, info.created, info.owned_by))
        shown = [row for row in patterns if row.listed == "pattern"]
        models |= {row.model: ModelInfo(row.model, owned_by=row.backend.name) for row in shown}
        return list(models.values())

    async def model(self, name: str) -> ModelInfo | None:
        """One model: a listed one, or one that is served without being listed; None for any other."""
        for info in await self.models():
            if info.id == name:
                return info
        own = self._table.groups(name)[:1]
        unlisted = any(route.listed != "models" for group in own for route in group)
        return ModelInfo(name, owned_by=own[0][0].backend.name) if unlisted else None


def _health(model: str, circuit: Circuit, now: float, limit: ConcurrencyLimit | None = None) -> RouteHealth:
    return RouteHealth(
        model=model,
        backend=circuit.key.backend,
        upstream=circuit.key.model,
        circuit=circuit.phase,
        failures=circuit.failures,
        retry_in=max(0.0, circuit.until - now) if circuit.phase != "closed" else 0.0,
        running=limit.running if limit else 0,
        waiting=limit.waiting if limit else 0,
    )


async def _list_models(backend: Backend) -> Sequence[ModelInfo]:
    try:
        return await backend.models()
    except BackendError as error:
        logger.warning("backend %s cannot list its models: %s", backend.name, error.message)
        return ()


def _not_found(model: str, known: Sequence[str]) -> str:
    if is_pattern(model):
        return f"'{model}' stands for every model with that prefix. Name one, without the '*'."
    names = ", ".join(f"'{name}'" for name in sorted(known)[:20]) or "none"
    return f"The model '{model}' does not exist here. Known models: {names}."


def _log(value: float) -> float:
    return math.log(max(value, 1e-300))


__all__ = ["WILDCARD", "Route", "RouteHealth", "Router"]
