"""`antiphon model capabilities`: what can be asked of a model, as a table."""

import asyncio
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import click
import msgspec
from msgspec.structs import replace
from rich.table import Table
from rich.text import Text

from antiphon.cli.options import (
    BASE_URL_OPTION,
    CONFIG_OPTION,
    UPSTREAM_OPTIONS,
    SettingsOptions,
    with_options,
)
from antiphon.cli.remote import open_remote
from antiphon.cli.terminal import harmless, output
from antiphon.protocol.content import JsonObject
from antiphon.service.routing.capabilities import ServerFeatures, describe
from antiphon.settings import Settings
from antiphon.wiring import open_services

_STYLES = {"native": "green", "emulated": "yellow", "unsupported": "red"}
_SECTIONS = ("features", "tools", "service")


@dataclass(frozen=True, slots=True, kw_only=True)
class CapabilitiesOptions(SettingsOptions):
    """What was said on the command line."""

    base_url: str | None = None


@click.command("capabilities")
@click.argument("name")
@with_options(*UPSTREAM_OPTIONS, CONFIG_OPTION, BASE_URL_OPTION)
@click.option("--json", "as_json", is_flag=True, help="Print the whole manifest as JSON.")
def command(name: str, as_json: bool, **values: Any) -> None:
    """Tell what can be asked of the model NAME, and how it is served: natively, by emulation, or not at all.

    \b
    Examples:
      antiphon model capabilities local
      antiphon model capabilities qwen3 --upstream-kind ollama
      antiphon model capabilities gpt-5 --base-url http://gateway:8080/v1 --json
    """
    options = CapabilitiesOptions(**values)
    told = asyncio.run(_ask(options, name))
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(told)).decode())
    else:
        _print(told)


async def _ask(options: CapabilitiesOptions, name: str) -> JsonObject:
    if options.base_url is not None:
        async with open_remote(options.base_url) as remote:
            return await remote.get(f"models/{quote(name, safe='')}/capabilities")
    return await _look(options.load_to_ask(), name)


async def _look(settings: Settings, name: str) -> JsonObject:
    around = ServerFeatures(
        keeps=settings.store.url != "none",
        websocket=settings.server.websocket,
        ignored_tools=frozenset(settings.tools.ignore),
    )
    without_store = replace(settings, store=replace(settings.store, url="none"))
    async with open_services(without_store) as services:
        told = await describe(name, services.router.routes(name), around)
    return msgspec.to_builtins(told)


def _print(told: JsonObject) -> None:
    console = output()
    window = told.get("context_window")
    head = f"{told['model']}, served by {told['backend']} ({told['dialect']}), "
    head += f"{window:,} tokens" if isinstance(window, int) else "context window not known"
    console.print(harmless(head), markup=False, soft_wrap=True)
    for section in _SECTIONS:
        table = Table(box=None, pad_edge=False, header_style="bold")
        for heading in (section, "level", "why"):
            table.add_column(heading, no_wrap=heading != "why")
        for name, support in told[section].items():
            level = str(support["level"])
            why = harmless(str(support.get("why", "")))
            table.add_row(name, Text(level, style=_STYLES.get(level, "dim")), Text(why))
        console.print()
        console.print(table)
