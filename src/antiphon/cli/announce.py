"""The application as `antiphon serve` runs it: it logs, drains on signals, and says when it is ready."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Protocol

from antiphon.cli.banner import Banner
from antiphon.cli.log import configure_logging
from antiphon.cli.terminal import output
from antiphon.cli.upstreams import check_rows, offered_models
from antiphon.errors import AntiphonError, SettingsError
from antiphon.server.app import App
from antiphon.server.process import drain_on_signals, reload_on_signal, spare_collector
from antiphon.settings import Settings
from antiphon.wiring import build_app
from antiphon.wiring.live import LiveRoutes, reloaded

logger = logging.getLogger(__name__)

PATIENCE = 2.0
"""Seconds that an upstream gets to name a model for the banner."""


class Ticket(Protocol):
    """Can be taken once, by whichever process comes first."""

    def acquire(self, block: bool = True, /) -> bool:
        """Whether it was taken now."""
        ...


@dataclass(slots=True)
class AnnouncedApp:
    """Makes the application. It travels to the worker processes, so everything in it can be pickled."""

    settings: Settings
    banner: Banner
    ticket: Ticket
    read: Callable[[], Settings]
    """Reads the settings again, as they were read at the start."""
    _announcement: "asyncio.Task[None] | None" = field(default=None, init=False)

    def __call__(self) -> App:
        """The application of one worker; logging starts anew in each."""
        configure_logging(self.settings.server.log_level)
        live = LiveRoutes(self.settings)
        return build_app(self.settings, live=live, on_started=partial(self._started, live))

    def reread(self) -> bool:
        """Let workers to come start with the settings as they are now, if those are good."""
        try:
            settings = self.read()
            check_rows(settings)
        except SettingsError as error:
            logger.error("the settings were not reloaded, everything stays as it was: %s", error.message)
            return False
        self.settings = reloaded(self.settings, settings)
        return True

    def _started(self, live: LiveRoutes, app: App) -> None:
        server = self.settings.server
        drain_on_signals(server.drain, app)
        reload_on_signal(partial(live.reload, self.read), alone=server.workers == 1)
        spare_collector()
        if self.ticket.acquire(False):
            # Not awaited: an upstream that is slow to name its models must not hold up the start.
            self._announcement = asyncio.get_running_loop().create_task(
                announce(replace(self.banner, keys=app.guarded))
            )


async def announce(banner: Banner) -> None:
    """Print the banner, with a model in it that can be asked."""
    for upstream in banner.unnamed_upstreams:
        try:
            banner = replace(banner, offered=tuple(await offered_models(upstream, PATIENCE)))
        except AntiphonError as error:
            logger.warning("%s", error.message)
    with suppress(OSError):  # a server does not die because nobody reads its banner
        banner.print(output())
