"""`antiphon serve`: the server process."""

import asyncio
import multiprocessing
import os
import socket
import threading
from dataclasses import dataclass
from typing import Any

import click

from antiphon.cli.chosen_model import offer_better_model, with_chosen_model
from antiphon.cli.failure import Failure
from antiphon.cli.log import configure_logging
from antiphon.cli.models import ensure_weights, require_engine
from antiphon.cli.options import (
    CONFIG_OPTION,
    DISCOVERY_OPTION,
    LOG_OPTION,
    STORE_OPTION,
    UPSTREAM_OPTIONS,
    Overrides,
    SettingsOptions,
    given,
    with_options,
)
from antiphon.cli.serve.application import ServedApp, Ticket
from antiphon.cli.serve.banner import Banner
from antiphon.cli.serve.port import bind_port, listen
from antiphon.cli.startup.checks import require_startup, startup_checks
from antiphon.protocol.profile import HEADER, PROFILES
from antiphon.server.process import serve
from antiphon.server.websocket_protocol import ReceiveLimits
from antiphon.settings import Settings
from antiphon.wiring import open_stores, seal_fingerprint


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeOptions(SettingsOptions):
    host: str | None = None
    port: int | None = None
    workers: int | None = None
    profile: str | None = None
    drain: float | None = None
    no_discovery: bool = False
    yes: bool = False

    def load_to_serve(self) -> Settings:
        """The settings, with the embedded model that the user has chosen."""
        settings = SettingsOptions.load_to_serve(self)
        return settings if self.model else with_chosen_model(settings)

    def overrides_to_serve(self) -> Overrides:
        """The shared options, and those of the server."""
        overrides = SettingsOptions.overrides_to_serve(self)
        server = given(
            host=self.host, port=self.port, workers=self.workers, profile=self.profile, drain=self.drain
        )
        overrides = {**overrides, "server": {**overrides.get("server", {}), **server}}
        return {**overrides, "discovery": {"enabled": False}} if self.no_discovery else overrides


@click.command("serve")
@click.option(
    "--host",
    metavar="HOST",
    help="Address to listen on; other than loopback needs keys.  [default: 127.0.0.1]",
)
@click.option(
    "--port", type=click.IntRange(0, 65535), metavar="PORT", help="Port; 0 picks a free one.  [default: 8080]"
)
@click.option(
    "--model",
    metavar="NAME",
    help="With an upstream: serve this model only. Without: the embedded model, by its name in the "
    "catalogue or as the path of a GGUF file.",
)
@with_options(*UPSTREAM_OPTIONS, STORE_OPTION, CONFIG_OPTION)
@click.option("--workers", type=click.IntRange(1, 64), metavar="N", help="Server processes.  [default: 1]")
@click.option(
    "--profile",
    type=click.Choice(list(PROFILES)),
    metavar="NAME",
    help=f"The set of wire choices: {', '.join(PROFILES)}. A request can select another one with the "
    f"header {HEADER}.  [default: openai]",
)
@click.option(
    "--drain",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    help="How long open responses may continue after a signal to stop.  [default: 10]",
)
@DISCOVERY_OPTION
@click.option(
    "--yes",
    is_flag=True,
    help="Download the better embedded model without asking, if it fits on this machine. Without this option "
    "it is offered at the first start on a terminal.",
)
@with_options(LOG_OPTION)
def command(**values: Any) -> None:
    """Serve the Responses API over HTTP.

    Without options, it listens on http://127.0.0.1:8080 and serves every model that it finds: of Ollama,
    LM Studio, llama.cpp, vLLM and other servers on their usual ports of this machine, of providers whose key
    is in the environment (used only by requests that name their models), and the embedded model. The model
    'auto' is the best one on this machine; docs/reference/discovery.md has the details.

    SIGTERM and Ctrl-C stop the server after open responses have finished. SIGHUP reloads the models without
    interrupting responses. Create keys for clients with `antiphon keys create`, or set them in antiphon.toml
    or ANTIPHON_SERVER__API_KEYS.

    \b
    Examples:
      antiphon serve
      antiphon serve --port 9000 --model qwen2.5-coder-1.5b
      antiphon serve --upstream http://localhost:8000/v1 --upstream-kind vllm
      antiphon serve --config antiphon.toml --log-level debug
    """
    start(ServeOptions(**values))


def start(options: ServeOptions, *, opens_page: bool = False) -> None:
    """Run the server until it is stopped. `opens_page`: its page is opened when it is ready."""
    settings = options.load_to_serve()
    configure_logging(settings.server.log_level)
    _check(settings)
    with bind_port(settings) as listener:
        if not options.model:
            settings = offer_better_model(settings, yes=options.yes, environment=os.environ)
        weights = _prepare_local(settings)
        listen(listener, settings)
        banner = Banner(settings, port=listener.getsockname()[1], weights=weights)
        app = ServedApp(
            settings, banner, _ticket(settings), options.load_to_serve, options.config, opens_page
        )
        _serve(app, listener)


def _check(settings: Settings) -> None:
    """Report in one line what would make the application fail, as `antiphon doctor` does."""
    require_startup(startup_checks(settings))
    asyncio.run(_prepare_store(settings))


async def _prepare_store(settings: Settings) -> None:
    """Open the store once, which migrates it; a new one is given the fingerprint of the sealing key."""
    async with open_stores(settings) as stores:
        await stores.keys.record_seal_key(seal_fingerprint(settings))


def _prepare_local(settings: Settings) -> str:
    """Download the embedded model if it is missing; returns its path."""
    if not settings.serves_local_model:
        return ""
    require_engine()
    return str(ensure_weights(settings.local.model))


def _ticket(settings: Settings) -> Ticket:
    if settings.server.workers > 1:
        return multiprocessing.get_context("spawn").Semaphore(1)
    return threading.Semaphore(1)


def _serve(app: ServedApp, listener: socket.socket) -> None:
    server = app.settings.server
    try:
        serve(
            app,
            listener,
            workers=server.workers,
            drain=server.drain,
            log_level=server.log_level,
            max_message=server.max_body,
            receive_limits=ReceiveLimits(server.websocket_budget, server.body_timeout),
            reread=app.reread,
        )
    except SystemExit:  # uvicorn exits so if the application did not start; it has logged why
        raise Failure("The server could not start; see the log above.") from None
    if app.ticket.acquire(False):
        raise Failure("The server stopped before it was ready; see the log above.")
