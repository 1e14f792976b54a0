"""The application as `antiphon serve` runs it: it logs, drains on signals, and prints a banner when ready."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Protocol

from antiphon.cli.browser import open_page
from antiphon.cli.log import configure_logging
from antiphon.cli.models import check_upstreams
from antiphon.cli.serve.banner import Banner
from antiphon.cli.startup.upstreams import UpstreamAnswer, ask_upstream
from antiphon.cli.terminal import output
from antiphon.discovery.watch import Discovery
from antiphon.errors import SettingsError
from antiphon.server.app import App
from antiphon.server.process import (
    drain_on_signals,
    prefer_event_loop,
    reload_on_signal,
    return_large_blocks,
    spare_collector,
    stop_tracking_generators,
)
from antiphon.server.watchdog import Watchdog
from antiphon.settings import Settings
from antiphon.wiring import build_app
from antiphon.wiring.live import LiveRoutes, reloaded

logger = logging.getLogger(__name__)

MODEL_LIST_TIMEOUT_SECONDS = 2.0
"""For the name of a model in the banner; an upstream that takes longer is reported after it."""


class Ticket(Protocol):
    """A semaphore of one: the first process that acquires it prints the banner."""

    def acquire(self, block: bool = True, /) -> bool: ...


@dataclass(slots=True)
class ServedApp:
    """Builds the application of a worker. It is pickled for worker processes."""

    settings: Settings
    banner: Banner
    ticket: Ticket
    read: Callable[[], Settings]
    """Reads the settings again, from the same sources as at the start."""
    config: Path | None = None
    """The file of the settings, if it was named."""
    opens_page: bool = False
    """Whether the page is opened in the browser when the server is ready."""
    _announcement: "asyncio.Task[None] | None" = field(default=None, init=False)
    _watchdog: "asyncio.Task[None] | None" = field(default=None, init=False)

    def __call__(self) -> App:
        """Build the application, and configure the logging of this worker."""
        configure_logging(self.settings.server.log_level)
        live = LiveRoutes(self.settings, discovery=Discovery(own_port=self.banner.port))
        started = partial(self._started, live)
        return build_app(self.settings, live=live, on_started=started, config=self.config)

    def reread(self) -> bool:
        """Read the settings for future workers; returns False and keeps the old ones if they are invalid."""
        try:
            settings = self.read()
            check_upstreams(settings)
        except SettingsError as error:
            logger.error("settings not reloaded, the previous ones stay in use: %s", error.message)
            return False
        self.settings = reloaded(self.settings, settings)
        return True

    def _started(self, live: LiveRoutes, app: App) -> None:
        server = self.settings.server
        drain_on_signals(server.drain, app)
        reload_on_signal(partial(live.reload, self.read), alone=server.workers == 1)
        spare_collector()
        return_large_blocks()
        prefer_event_loop()
        stop_tracking_generators()
        self._watchdog = asyncio.get_running_loop().create_task(Watchdog(app.admission).run())
        if self.ticket.acquire(False):
            # Not awaited: an upstream that is slow to list its models must not delay the start.
            self._announcement = asyncio.get_running_loop().create_task(
                self._announce(replace(self.banner, keys=app.guarded, found=live.found))
            )

    async def _announce(self, banner: Banner) -> None:
        if self.opens_page:
            await asyncio.to_thread(open_page, banner.url)
        await announce(banner)


async def announce(banner: Banner) -> None:
    """Print the banner with an example that names a served model, and log upstreams that cannot be used."""
    asked = [asyncio.ensure_future(ask_upstream(upstream)) for upstream in banner.settings.upstreams]
    if asked:
        await asyncio.wait(asked, timeout=MODEL_LIST_TIMEOUT_SECONDS)
    answers = [task.result() for task in asked if task.done()]
    late = [task for task in asked if not task.done()]
    _log_problems(answers)
    if banner.unnamed_upstreams:
        banner = replace(banner, offered=tuple(name for answer in answers for name in answer.models))
    with suppress(OSError):  # a closed standard output must not end the server
        banner.print(output())
    _log_problems(await asyncio.gather(*late))


def _log_problems(answers: Sequence[UpstreamAnswer]) -> None:
    for answer in answers:
        if answer.check.status != "ok":
            logger.warning("%s", answer.check.problem)
