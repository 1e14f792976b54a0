"""`antiphon codex`: Codex on any model."""

import asyncio
import os
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from antiphon.cli.banner import Banner
from antiphon.cli.codex_config import LOG, CodexConfig, codex_environment, keep_catalogue
from antiphon.cli.codex_process import Program
from antiphon.cli.codex_server import (
    Told,
    ask_catalogue,
    ask_own_catalogue,
    fresh_server,
    running_server,
)
from antiphon.cli.failure import WrongUsage
from antiphon.cli.options import (
    CONFIG_OPTION,
    UPSTREAM_OPTIONS,
    SettingsOptions,
    with_options,
)
from antiphon.cli.remote import API_KEY
from antiphon.cli.terminal import errors
from antiphon.errors import AntiphonError, RequestError
from antiphon.settings import Settings
from antiphon.wiring import data_folder

HOME = "codex-home"
"""Codex's home in the data folder."""
ROOM = 16_384
"""Tokens below which there is no room for a task: instructions and tools take some 4,000 of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CodexOptions(SettingsOptions):
    """What was said on the command line."""

    base_url: str | None = None
    websocket: bool = True
    share_home: bool = False
    print_config: bool = False
    arguments: tuple[str, ...] = ()

    @property
    def home(self) -> Path | None:
        """Where Codex keeps its sessions; None: where it always does."""
        return None if self.share_home else data_folder() / HOME

    @property
    def wants_own_server(self) -> bool:
        """Whether a server that runs will not do: another upstream was named."""
        return self._names_upstream

    def first_model(self, settings: Settings) -> str | None:
        """The model to ask for, if anybody named one."""
        return self.model or settings.agent.model or None


@click.command("codex", context_settings={"allow_interspersed_args": False})
@click.option(
    "--model",
    metavar="NAME",
    help="The model to begin with; without an upstream, one of the embedded catalogue or a GGUF file.  "
    "[default: agent.model, or the first that the server lists]",
)
@click.option(
    "--base-url",
    metavar="URL",
    help="The Antiphon to use. Its key: ANTIPHON_API_KEY.  [default: the configured one, if it runs; else "
    "one is started for as long as Codex runs]",
)
@with_options(*UPSTREAM_OPTIONS, CONFIG_OPTION)
@click.option(
    "--websocket/--http",
    default=True,
    help="How Codex talks to Antiphon: one socket for a whole session, or a request for each turn.  "
    "[default: --websocket]",
)
@click.option(
    "--share-home",
    is_flag=True,
    help="Use your own ~/.codex, with its sessions, MCP servers and rules, instead of a home of its own.",
)
@click.option(
    "--print-config", is_flag=True, help="Print what to put where for a Codex that you start yourself."
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[-- CODEX ARGUMENTS]")
@click.pass_context
def command(ctx: click.Context, **values: Any) -> None:
    """Run Codex on any model.

    Starts Codex with Antiphon as its provider and a configuration of its own: your ~/.codex is neither read
    nor changed. What stands after -- is Codex's: a prompt, `exec`, `resume`, options. Its exit code is the
    exit code.

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
        raise WrongUsage("Either --base-url or --upstream: a server that runs has upstreams of its own.")
    settings = options.load_to_ask()
    if options.print_config:
        click.echo(asyncio.run(_configuration(options, settings)))
        return
    program = Program(os.path.expanduser(settings.codex.command), codex_environment(os.environ, options.home))
    version = program.version()
    ctx.exit(asyncio.run(_run(options, settings, program, version)))


async def _run(options: CodexOptions, settings: Settings, program: Program, version: str) -> int:
    home = options.home or program.usual_home
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    async with AsyncExitStack() as stack:
        base_url = options.base_url
        if base_url is None and not options.wants_own_server:
            base_url = await running_server(settings)
        model = options.first_model(settings)
        if base_url is None:
            base_url = await stack.enter_async_context(fresh_server(settings, home / LOG))
            told = await ask_own_catalogue(settings, base_url, version, model)
        else:
            told = await ask_catalogue(base_url, version, model)
        _warn(told)
        config = CodexConfig(
            base_url=_with_path(base_url),
            model=told.model,
            websocket=options.websocket,
            key=bool(program.environment.get(API_KEY)),
            catalogue=keep_catalogue(home, told.body),
        )
        return await program.run([*config.overrides(), *options.arguments])


def _warn(told: Told) -> None:
    if told.window is None:
        said = (
            f"The context window of '{told.model}' is not known, so Codex cannot compact in time: set "
            "'context_window' in its row of antiphon.toml."
        )
    elif told.window < ROOM:
        said = (
            f"'{told.model}' takes {told.window} tokens. What Codex tells every model fills most of them, so "
            f"it will not get done with a task: use a model that takes {ROOM} or more."
        )
    else:
        return
    errors().print(said, style="yellow", markup=False, soft_wrap=True)


async def _configuration(options: CodexOptions, settings: Settings) -> str:
    """What to put where. Nothing is started; a server that runs is asked for its first model."""
    base_url = options.base_url or Banner(settings, port=settings.server.port).url
    model = options.first_model(settings)
    try:
        model = (await ask_catalogue(base_url, "0.0.0", model)).model
        state = f"# The server at {base_url} runs."
    except RequestError as error:
        state = f"# The server at {base_url} runs, but: {error.message}"
    except AntiphonError as error:
        state = f"# {error.message} Start it with `antiphon serve`."
    config = CodexConfig(
        base_url=_with_path(base_url),
        model=model or "MODEL",
        websocket=options.websocket,
        key=bool(os.environ.get(API_KEY)),
    )
    lines = [
        "# Put this into ~/.codex/config.toml, or into config.toml of the folder that CODEX_HOME names.",
        state,
        f"# If the server wants a key, set {API_KEY} and print this again: it is taken from there.",
        "",
        config.text(),
    ]
    return "\n".join(lines).rstrip()


def _with_path(base_url: str) -> str:
    """The root of the API; `/v1` is added to an address without a path."""
    base = base_url.rstrip("/")
    return base if "/" in base.partition("://")[2] else f"{base}/v1"
