"""What lasts: the store and the database that the commands look into."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any

import click
from rich.table import Table
from rich.text import Text

from antiphon.caller import DEFAULT_TENANT
from antiphon.cli.log import configure_logging
from antiphon.cli.options import CONFIG_OPTION, LOG_OPTION, STORE_OPTION, SettingsOptions, with_options
from antiphon.cli.terminal import harmless, output
from antiphon.errors import SettingsError
from antiphon.protocol.items import Item
from antiphon.settings import Settings
from antiphon.store.base import Page, StoredResponse
from antiphon.store.ports import ResponseStore

KEPT_OPTIONS = with_options(CONFIG_OPTION, STORE_OPTION, LOG_OPTION)
TENANT_OPTION = click.option(
    "--tenant", default=DEFAULT_TENANT, metavar="NAME", show_default=True, help="Whose responses."
)
JSON_OPTION = click.option("--json", "machine", is_flag=True, help="Print JSON.")

_PAGE = 100
_EVERYTHING = Page(limit=1_000_000, order="asc")
_PIPE_WIDTH = 200


def load_lasting(**options: Any) -> Settings:
    """The settings that `KEPT_OPTIONS` lead to; a store that keeps nothing is refused."""
    chosen = SettingsOptions(**options)
    configure_logging(chosen.log_level or "warning")
    return require_lasting(chosen.load_to_ask())


def require_lasting(settings: Settings) -> Settings:
    """Refuse a store in which nothing can be found later."""
    if not settings.lasting:
        raise SettingsError(
            f"The store '{settings.store.url}' keeps nothing that lasts. "
            "Name one that does: --store sqlite:PATH or --store postgresql://HOST/DATABASE."
        )
    return settings


async def all_responses(store: ResponseStore, tenant: str) -> AsyncGenerator[StoredResponse, None]:
    """Every response, newest first, without its input."""
    after: str | None = None
    while page := await store.list_responses(tenant, limit=_PAGE, after=after):
        for stored in page:
            yield stored
        after = page[-1].response.id


async def newest_responses(
    store: ResponseStore, tenant: str, limit: int | None = None
) -> list[StoredResponse]:
    """The newest ones, or all."""
    found: list[StoredResponse] = []
    async with aclosing(all_responses(store, tenant)) as responses:
        async for stored in responses:
            if len(found) == limit:
                break
            found.append(stored)
    return found


async def whole_input(store: ResponseStore, tenant: str, response_id: str) -> Sequence[Item]:
    """All that went into a response, oldest first: the history before it and its own input."""
    return (await store.input_items(tenant, response_id, _EVERYTHING)).items


def print_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Rows under headings; in a pipe, no line is folded because a terminal would be narrow."""
    console = output()
    if not console.is_terminal:
        console.width = _PIPE_WIDTH
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in headings:
        table.add_column(heading, no_wrap=heading == headings[0])
    for row in rows:
        table.add_row(*(Text(harmless(cell)) for cell in row))
    console.print(table)
