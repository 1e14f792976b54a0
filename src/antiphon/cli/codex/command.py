"""`antiphon codex`: Codex CLI on any model."""

import asyncio
import os
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from antiphon.cli.codex.program import LOG_FILE, CodexConfig, Program, child_environment, save_catalogue
from antiphon.cli.codex.server import (
    FetchedCatalogue,
    fetch_catalogue,
    fetch_own_catalogue,
    start_server,
)
from antiphon.cli.failure import WrongUsage
from antiphon.cli.options import (
    API_KEY_VARIABLE,
    CONFIG_OPTION,
    UPSTREAM_OPTIONS,
    SettingsOptions,
    with_options,
)
from antiphon.cli.running_server import find_running_server
from antiphon.cli.serve.banner import Banner
from antiphon.cli.terminal import errors
from antiphon.errors import AntiphonError, RequestError
from antiphon.settings import Settings
from antiphon.wiring import data_folder

HOME_FOLDER = "codex-home"
"""Codex's home, below the data folder."""
MIN_CONTEXT_TOKENS = 16_384
"""A smaller window has no room for a task: Codex's instructions and tools take some 4,000 tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CodexOptions(SettingsOptions):
    base_url: str | None = None
    websocket: bool = True
    share_home: bool = False
    print_config: bool = False
    arguments: tuple[str, ...] = ()

    @property
    def home(self) -> Path | None:
        """The folder in which Codex stores its sessions; None: its default."""
        return None if self.share_home else data_folder() / HOME_FOLDER

    @property
    def wants_own_server(self) -> bool:
        """Whether the command line names an upstream, so that a running server cannot be used."""
        return self._names_upstream

    def first_model(self, settings: Settings) -> str | None:
        """The model that the options or the settings name, if any."""
        return self.model or settings.agent.model or None


@click.command("codex", context_settings={"allow_interspersed_args": False})
@click.option(
    "--model",
    metavar="NAME",
    help="The model to start with; without an upstream, one of the embedded catalogue or a GGUF file.  "
    "[default: agent.model, or the first that the server lists]",
)
@click.option(
    "--base-url",
    metavar="URL",
    help="The Antiphon server to use. Its key: ANTIPHON_API_KEY.  [default: the configured one, if it is "
    "running; otherwise a server is started for as long as Codex runs]",
)
@with_options(*UPSTREAM_OPTIONS, CONFIG_OPTION)
@click.option(
    "--websocket/--http",
    default=True,
    help="How Codex connects to Antiphon: one WebSocket per session, or one HTTP request per turn.  "
    "[default: --websocket]",
)
@click.option(
    "--share-home",
    is_flag=True,
    help="Use your own ~/.codex, with its sessions, MCP servers and rules, instead of a separate home.",
)
@click.option(
    "--print-config", is_flag=True, help="Print the configuration for a Codex that you start yourself."
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[-- CODEX ARGUMENTS]")
@click.pass_context
def command(ctx: click.Context, **values: Any) -> None:
    """Run Codex on any model.

    Starts Codex with Antiphon as its provider and with a separate configuration: your ~/.codex is neither
    read nor changed. Arguments after -- are passed to Codex: a prompt, `exec`, `resume`, options. The exit
    code is that of Codex.

    \b
    Examples:
      antiphon codex --upstream http://localhost:11434/v1 --upstream-kind ollama --model qwen3-coder
      antiphon codex --base-url http://gateway:8080/v1 --model deepseek-chat
      antiphon codex -- exec "Explain this repository."
      antiphon codex -- resume --last
      antiphon codex --print-config
    """
    options = CodexOptions(**values)
    if options.base_url is not None and options.wants_own_server:
        raise WrongUsage("Use either --base-url or --upstream: a running server has its own upstreams.")
    settings = options.load_to_ask()
    if options.print_config:
        click.echo(asyncio.run(_configuration(options, settings)))
        return
    program = Program(os.path.expanduser(settings.codex.command), child_environment(os.environ, options.home))
    version = program.version()
    ctx.exit(asyncio.run(_run(options, settings, program, version)))


async def _run(options: CodexOptions, settings: Settings, program: Program, version: str) -> int:
    home = options.home or program.usual_home
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    async with AsyncExitStack() as stack:
        base_url = options.base_url
        if base_url is None and not options.wants_own_server:
            server = await find_running_server(settings)
            base_url = None if server is None else server.base_url
        model = options.first_model(settings)
        if base_url is None:
            base_url = await stack.enter_async_context(start_server(settings, home / LOG_FILE))
            catalogue = await fetch_own_catalogue(settings, base_url, version, model)
        else:
            catalogue = await fetch_catalogue(base_url, version, model)
        _warn(catalogue)
        config = CodexConfig(
            base_url=_with_path(base_url),
            model=catalogue.model,
            websocket=options.websocket,
            key=bool(program.environment.get(API_KEY_VARIABLE)),
            catalogue=save_catalogue(home, catalogue.body),
        )
        return await program.run([*config.arguments(), *options.arguments])


def _warn(catalogue: FetchedCatalogue) -> None:
    if catalogue.window is None:
        message = (
            f"The context window of '{catalogue.model}' is unknown, so Codex cannot compact in time. Set "
            "'context_window' in the model's row of antiphon.toml."
        )
    elif catalogue.window < MIN_CONTEXT_TOKENS:
        message = (
            f"The context window of '{catalogue.model}' is {catalogue.window} tokens, and Codex's own "
            f"instructions fill most of it. Use a model with {MIN_CONTEXT_TOKENS} tokens or more."
        )
    else:
        return
    errors().print(message, style="yellow", markup=False, soft_wrap=True)


async def _configuration(options: CodexOptions, settings: Settings) -> str:
    """The text of config.toml. No server is started; a running one is asked for its first model."""
    base_url = options.base_url or Banner(settings, port=settings.server.port).url
    model = options.first_model(settings)
    try:
        model = (await fetch_catalogue(base_url, "0.0.0", model)).model
        state = f"# The server at {base_url} is running."
    except RequestError as error:
        state = f"# The server at {base_url} is running, but: {error.message}"
    except AntiphonError as error:
        state = f"# {error.message} Start it with `antiphon serve`."
    config = CodexConfig(
        base_url=_with_path(base_url),
        model=model or "MODEL",
        websocket=options.websocket,
        key=bool(os.environ.get(API_KEY_VARIABLE)),
    )
    lines = [
        "# Put this into ~/.codex/config.toml, or into config.toml in the folder CODEX_HOME.",
        state,
        f"# If the server needs a key, set {API_KEY_VARIABLE} and print this again.",
        "",
        config.text(),
    ]
    return "\n".join(lines).rstrip()


def _with_path(base_url: str) -> str:
    """The address with `/v1`, if it has no path."""
    base = base_url.rstrip("/")
    return base if "/" in base.partition("://")[2] else f"{base}/v1"
