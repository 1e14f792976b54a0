"""`antiphon open`: opens the page of the server that is running, or starts a server and opens its page."""

import asyncio
from typing import Any

import click

from antiphon.cli.browser import open_page
from antiphon.cli.failure import WrongUsage
from antiphon.cli.options import CONFIG_OPTION, LOG_OPTION, STORE_OPTION, UPSTREAM_OPTIONS, with_options
from antiphon.cli.running_server import find_running_server
from antiphon.cli.serve.command import ServeOptions, start


@click.command("open")
@click.option(
    "--port", type=click.IntRange(1, 65535), metavar="PORT", help="Port of the server.  [default: 8080]"
)
@click.option(
    "--model",
    metavar="NAME",
    help="If a server is started: with an upstream, the only model; without, the embedded model.",
)
@with_options(*UPSTREAM_OPTIONS, STORE_OPTION, CONFIG_OPTION, LOG_OPTION)
def command(**values: Any) -> None:
    """Open the page in the browser.

    If the server that the settings describe is running, its page is opened. Otherwise a server is started
    here, as `antiphon serve` does, and its page is opened when it is ready; Ctrl-C stops it.

    \b
    Examples:
      antiphon open
      antiphon open --port 9000
    """
    options = ServeOptions(**values)
    settings = options.load_to_serve()
    if not settings.server.page:
        raise WrongUsage("The page is off: server.page is false in the settings.")
    server = asyncio.run(find_running_server(settings))
    if server is None:
        start(options, opens_page=True)
        return
    open_page(server.base_url)
