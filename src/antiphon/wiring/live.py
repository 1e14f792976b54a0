"""The routes of a running server: read again when it is told to, without an end to what is under way."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack

from msgspec import Struct
from msgspec.structs import replace

from antiphon.backends.base import Backend
from antiphon.errors import SettingsError
from antiphon.service.routing.circuits import HealthPolicy
from antiphon.service.routing.names import Names
from antiphon.service.routing.router import Route, Router
from antiphon.service.routing.turn_slot import TurnCount
from antiphon.settings import Settings
from antiphon.wiring.backends import BackendSet

logger = logging.getLogger(__name__)

RELOADED = ("upstreams", "aliases", "fallbacks", "health", "codex", "local")
"""The sections that change without a restart."""
GRACE = 60.0
"""Seconds that a backend lives on at least: a response that has chosen it may not have asked it yet."""


class LiveRoutes:
    """Routes with their backends. One that no route needs any more is closed when its last turn has ended."""

    def __init__(self, settings: Settings, *, grace: float = GRACE) -> None:
        self._settings = settings
        self._grace = grace
        self._opening: BackendSet | None = None
        self._router: Router | None = None
        self._closing: dict[asyncio.Task[None], Backend] = {}

    def open(self) -> Sequence[Route]:
        """The routes to begin with."""
        self._opening = BackendSet(self._settings)
        return self._opening.routes

    def attach(self, router: Router) -> None:
        """The router that serves them."""
        self._router = router

    def reload(self, read: Callable[[], Settings]) -> None:
        """Serve what the settings say now; if they are wrong, nothing changes."""
        try:
            settings = read()
            self.change(settings)
        except SettingsError as error:
            logger.error("the settings were not reloaded, everything stays as it was: %s", error.message)
            return
        logger.info("the settings were reloaded")
        if waiting := needs_restart(self._settings, settings):
            logger.warning("these settings change with the next start only: %s", ", ".join(waiting))

    def change(self, settings: Settings) -> None:
        """Serve the routes of these settings from now on; `SettingsError`: nothing has changed."""
        if self._opening is None or self._router is None:
            raise SettingsError("Only routes that were made from settings can be changed.")
        wanted = reloaded(self._settings, settings)
        opening = BackendSet(wanted, self._opening.made)
        unneeded = [(made.backend, self._router.use_of(made.backend)) for made in opening.left]
        self._router.change(opening.routes, routed_names(wanted), health_policy(wanted))
        self._settings, self._opening = wanted, opening
        for backend, use in unneeded:
            task = asyncio.get_running_loop().create_task(self._close(backend, use))
            self._closing[task] = backend
            task.add_done_callback(lambda done: self._closing.pop(done, None))

    async def aclose(self) -> None:
        """Close everything, whatever is under way."""
        late = dict(self._closing)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)
        made = self._opening.made if self._opening else []
        async with AsyncExitStack() as stack:  # each of them, even if another one breaks
            for backend in (*late.values(), *(one.backend for one in made)):
                stack.push_async_callback(backend.aclose)

    async def _close(self, backend: Backend, use: TurnCount) -> None:
        await asyncio.sleep(self._grace)
        await use.ended()
        logger.info("backend %s is closed: no model needs it any more", backend.name)
        await backend.aclose()


def reloaded(settings: Settings, again: Settings) -> Settings:
    """These settings, with what may change from those that were read again."""
    return replace(settings, **{section: getattr(again, section) for section in RELOADED})


def needs_restart(settings: Settings, again: Settings) -> list[str]:
    """The settings that differ and cannot change now."""
    names: list[str] = []
    for section in Settings.__struct_fields__:
        ours, theirs = getattr(settings, section), getattr(again, section)
        if section in RELOADED or ours == theirs:
            continue
        if isinstance(ours, Struct):
            keys = ours.__struct_fields__
            names += [f"{section}.{key}" for key in keys if getattr(ours, key) != getattr(theirs, key)]
        else:
            names.append(section)
    return names


def routed_names(settings: Settings) -> Names:
    """Aliases and fallbacks."""
    return Names(settings.aliases, settings.fallbacks)


def health_policy(settings: Settings) -> HealthPolicy:
    """When an upstream is left alone."""
    return HealthPolicy(settings.health.failures, settings.health.pause)
