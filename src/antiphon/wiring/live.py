"""The routes of a running server. A reload replaces them without interrupting running turns."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack

from msgspec import Struct
from msgspec.structs import replace

from antiphon.backends.base import Backend
from antiphon.discovery.found import NOTHING_FOUND, Found, with_found
from antiphon.discovery.watch import Discovery
from antiphon.errors import SettingsError
from antiphon.service.routing.circuits import HealthPolicy
from antiphon.service.routing.names import Names
from antiphon.service.routing.router import Route, Router
from antiphon.service.routing.turn_slot import TurnCount
from antiphon.settings import Settings
from antiphon.wiring.backends import BackendSet
from antiphon.wiring.embeddings import EmbedderSet

logger = logging.getLogger(__name__)

RELOADED = ("upstreams", "discovery", "aliases", "fallbacks", "health", "codex", "local", "embeddings")
"""The sections that change without a restart."""
CLOSE_DELAY_SECONDS = 60.0
"""A removed backend stays open for at least this long: a response may have chosen it without using it yet."""


class LiveRoutes:
    """Routes of the settings and of what was found, with their backends. A backend without routes is closed
    when its last turn has ended."""

    def __init__(
        self, settings: Settings, *, discovery: Discovery | None = None, grace: float = CLOSE_DELAY_SECONDS
    ) -> None:
        self.settings = settings
        self.found = NOTHING_FOUND
        self._discovery = discovery
        self._grace = grace
        self._opening: BackendSet | None = None
        self._router: Router | None = None
        self._embedders: EmbedderSet | None = None
        self._closing: dict[asyncio.Task[None], Backend] = {}

    def open(self) -> tuple[Sequence[Route], Names]:
        """Build the first routes and names."""
        settings = self._merge(self.settings, self.found)
        self._opening = BackendSet(settings)
        return self._opening.routes, routed_names(settings)

    def _merge(self, settings: Settings, found: Found) -> Settings:
        if self._discovery is None:
            settings = replace(settings, discovery=replace(settings.discovery, enabled=False))
        merged = with_found(settings, found)
        if unserved := sorted(settings.aliases.keys() - merged.aliases.keys()):
            logger.warning("nothing serves the models of these aliases now: %s", ", ".join(unserved))
        return merged

    def attach(self, router: Router, embedders: EmbedderSet | None = None) -> None:
        """Set the router that uses the routes, and the embedding models that change with the settings."""
        self._router = router
        self._embedders = embedders

    def reload(self, read: Callable[[], Settings]) -> None:
        """Apply the current settings; if they are invalid, log it and keep the old ones."""
        try:
            settings = read()
            self.change(settings)
        except SettingsError as error:
            logger.error("settings not reloaded, the previous ones stay in use: %s", error.message)
            return
        logger.info("settings reloaded")
        if waiting := needs_restart(self.settings, settings):
            logger.warning("these settings change at the next start only: %s", ", ".join(waiting))

    def change(self, settings: Settings) -> None:
        """Replace the routes with those of these settings; after a `SettingsError` the old ones stay."""
        self._apply(reloaded(self.settings, settings), self.found)

    async def discover(self) -> None:
        """Look for models once. A failure is logged: the configured models are served in any case."""
        if self._discovery is None:
            return
        try:
            self._discovered(await self._discovery.look(self.settings))
        except Exception:
            logger.exception("the look for models failed")

    async def watch(self) -> None:
        """Look for models again and again; ends at once without discovery."""
        if self._discovery is not None:
            await self._discovery.watch(lambda: self.settings, self._discovered)

    def _discovered(self, found: Found) -> None:
        """Serve what was found. If nothing changed, the routes stay as they are."""
        if self._router is None:
            self.found = found  # `open` uses it
            return
        if found == self.found:
            return
        try:
            self._apply(self.settings, found)
        except SettingsError as error:
            logger.error("the models that were found are not used: %s", error.message)

    def _apply(self, settings: Settings, found: Found) -> None:
        if self._opening is None or self._router is None:
            raise SettingsError("Only routes that were made from settings can be changed.")
        wanted = self._merge(settings, found)
        opening = BackendSet(wanted, self._opening.made)
        if self._embedders is not None:
            self._embedders.change(wanted)
        removed = [(made.backend, self._router.turn_count(made.backend)) for made in opening.left]
        self._router.change(opening.routes, routed_names(wanted), health_policy(wanted))
        self.settings, self.found, self._opening = settings, found, opening
        for backend, turns in removed:
            task = asyncio.get_running_loop().create_task(self._close(backend, turns))
            self._closing[task] = backend
            task.add_done_callback(lambda done: self._closing.pop(done, None))

    async def aclose(self) -> None:
        """Close all backends, even with running turns."""
        late = dict(self._closing)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)
        made = self._opening.made if self._opening else []
        async with AsyncExitStack() as stack:  # all are closed, even if one raises
            for backend in (*late.values(), *(one.backend for one in made)):
                stack.push_async_callback(backend.aclose)

    async def _close(self, backend: Backend, turns: TurnCount) -> None:
        await asyncio.sleep(self._grace)
        await turns.ended()
        logger.info("closing backend %s: no route uses it", backend.name)
        await backend.aclose()


def reloaded(settings: Settings, again: Settings) -> Settings:
    """The settings, with the sections of `again` that can change at run time."""
    return replace(settings, **{section: getattr(again, section) for section in RELOADED})


def needs_restart(settings: Settings, again: Settings) -> list[str]:
    """The names of settings that differ and need a restart."""
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
    """The aliases and fallbacks of the settings."""
    return Names(settings.aliases, settings.fallbacks)


def health_policy(settings: Settings) -> HealthPolicy:
    return HealthPolicy(settings.health.failures, settings.health.pause)
