"""Which backends serve a model, in which order they are tried, and which models there are."""

import asyncio
import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from antiphon.backends.base import Backend, ModelInfo
from antiphon.errors import BackendError, ModelNotFound
from antiphon.service.similar_names import most_similar
from antiphon.settings import TextCalls

logger = logging.getLogger(__name__)

WILDCARD = "*"


@dataclass(frozen=True, slots=True)
class Route:
    """A backend that serves `model` (or every model: `*`) under the name `upstream`."""

    model: str
    backend: Backend
    upstream: str = ""
    weight: float = 1.0
    priority: int = 0
    text_calls: TextCalls = "off"
    """How the model writes tool calls as text."""

    def upstream_name(self, asked: str) -> str:
        """What the backend calls the model that was asked for."""
        return self.upstream or (asked if self.model == WILDCARD else self.model)


class Router:
    """Finds the routes of a model; exact names win over the wildcard."""

    def __init__(self, routes: Sequence[Route], *, chance: Callable[[], float]) -> None:
        self._exact: dict[str, list[Route]] = {}
        self._wildcard: list[Route] = []
        self._chance = chance
        for route in sorted(routes, key=lambda route: route.priority):
            if route.model == WILDCARD:
                self._wildcard.append(route)
            else:
                self._exact.setdefault(route.model, []).append(route)

    def routes(self, model: str, *, similar: bool = False) -> list[Route]:
        """The routes to try, best first: by priority, then at random by weight. `similar`: a model that does
        not exist may be served by one with a similar name."""
        found = self._exact.get(model) or self._wildcard
        if not found and similar:
            found = self._exact.get(most_similar(model, self._exact) or "")
        if not found:
            known = ", ".join(f"'{name}'" for name in sorted(self._exact)[:20]) or "none"
            raise ModelNotFound(f"The model '{model}' does not exist here. Known models: {known}.")
        if len(found) == 1:
            return found
        # Exponential keys: the smallest of E/weight is drawn with probability proportional to the weight.
        return sorted(found, key=lambda route: (route.priority, -_log(self._chance()) / route.weight))

    async def models(self) -> list[ModelInfo]:
        """Every model by name: the configured ones, and what wildcard backends offer right now."""
        models = {name: ModelInfo(name) for name in self._exact}
        offers = await asyncio.gather(*(_offer(route.backend) for route in self._wildcard))
        for offer in offers:
            for info in offer:
                models.setdefault(info.id, info)
        return list(models.values())


async def _offer(backend: Backend) -> Sequence[ModelInfo]:
    try:
        return await backend.models()
    except BackendError as error:
        logger.warning("backend %s does not tell its models: %s", backend.name, error.message)
        return ()


def _log(value: float) -> float:
    return math.log(max(value, 1e-300))
