"""`antiphon responses`: the responses in the store."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from antiphon.cli.options import JSON_OPTION, STORE_OPTIONS, TENANT_OPTION, load_with_store
from antiphon.cli.stored.export import export_to, full_input, newest_responses, to_raw
from antiphon.cli.stored.views import Forest, brief, print_forest, print_summary, print_transcript
from antiphon.cli.terminal import errors, output, print_json, print_table, spinner
from antiphon.protocol.items import Item
from antiphon.protocol.response import Response
from antiphon.settings import Settings
from antiphon.store.base import StoredResponse
from antiphon.wiring import make_ids, open_stores

HEADINGS = ("id", "status", "model", "tokens", "age", "continues")
LIMIT_OPTION = click.option(
    "--limit",
    type=click.IntRange(min=1),
    default=20,
    show_default=True,
    metavar="N",
    help="How many, newest first.",
)
ID_ARGUMENT = click.argument("response_id", metavar="ID")


@click.group("responses")
def command() -> None:
    """List, show, delete and export stored responses.

    \b
    Examples:
      antiphon responses list
      antiphon responses tree
      antiphon responses show resp_0194f3a6c1b8
      antiphon responses export --output responses.jsonl
    """


@command.command("list", short_help="List the newest responses.")
@LIMIT_OPTION
@TENANT_OPTION
@JSON_OPTION
@STORE_OPTIONS
def list_responses(limit: int, tenant: str, machine: bool, **options: Any) -> None:
    """List the newest responses.

    \b
    Examples:
      antiphon responses list
      antiphon responses list --limit 100 --tenant acme --json
    """
    found = asyncio.run(_newest(load_with_store(**options), tenant, limit))
    if machine:
        print_json([stored.response for stored in found])
    elif found:
        now = make_ids().clock()
        rows = [
            (stored.response.id, *brief(stored.response, now), stored.parent or stored.conversation or "")
            for stored in found
        ]
        print_table(HEADINGS, rows)
    else:
        _print_no_responses(tenant)


@command.command("show", short_help="Show a response with its history.")
@ID_ARGUMENT
@TENANT_OPTION
@JSON_OPTION
@STORE_OPTIONS
def show_response(response_id: str, tenant: str, machine: bool, **options: Any) -> None:
    """Show the response ID as a transcript: its history, its output, its usage.

    \b
    Examples:
      antiphon responses show resp_0194f3a6c1b8
      antiphon responses show resp_0194f3a6c1b8 --json
    """
    settings = load_with_store(**options)

    async def read() -> tuple[Response, Sequence[Item]]:
        async with open_stores(settings) as stores:
            response = await stores.responses.response(tenant, response_id)
            return response, await full_input(stores.responses, tenant, response_id)

    response, items = asyncio.run(read())
    if machine:
        print_json({"response": response, "input": to_raw(items)})
        return
    console = output()
    print_transcript([*items, *response.output], console)
    print_summary(response, make_ids().clock(), console)


@command.command("tree", short_help="Draw how responses continue each other.")
@click.argument("response_id", metavar="[ID]", required=False)
@LIMIT_OPTION
@TENANT_OPTION
@STORE_OPTIONS
def draw_tree(response_id: str | None, limit: int, tenant: str, **options: Any) -> None:
    """Draw how responses continue each other.

    With ID the whole tree that it belongs to, else the trees of the newest responses.

    \b
    Examples:
      antiphon responses tree
      antiphon responses tree resp_0194f3a6c1b8
    """
    found = asyncio.run(_newest(load_with_store(**options), tenant, None if response_id else limit))
    forest = Forest(found)
    roots = forest.roots if response_id is None else [forest.root_of(response_id)]
    if roots:
        print_forest(forest, roots, response_id, make_ids().clock())
    else:
        _print_no_responses(tenant)


@command.command("delete", short_help="Delete responses.")
@click.argument("response_ids", metavar="ID...", nargs=-1, required=True)
@click.option("--yes", is_flag=True, help="Do not ask.")
@TENANT_OPTION
@STORE_OPTIONS
def delete_responses(response_ids: tuple[str, ...], yes: bool, tenant: str, **options: Any) -> None:
    """Delete the responses ID...

    Responses that continue them stay usable. If one of them does not exist, none is deleted.

    \b
    Examples:
      antiphon responses delete resp_0194f3a6c1b8
      antiphon responses delete --yes resp_0194f3a6c1b8 resp_0194f3a6c1b9
    """
    settings = load_with_store(**options)
    wanted = list(dict.fromkeys(response_ids))

    async def check() -> None:
        async with open_stores(settings) as stores:
            for response_id in wanted:
                await stores.responses.response(tenant, response_id)

    async def delete() -> None:
        async with open_stores(settings) as stores:
            for response_id in wanted:
                await stores.responses.delete(tenant, response_id)

    asyncio.run(check())
    what = "1 response" if len(wanted) == 1 else f"{len(wanted)} responses"
    if not yes:
        click.confirm(f"Delete {what} permanently?", abort=True, err=True)
    asyncio.run(delete())
    click.echo(f"Deleted {what}.")


@command.command("export", short_help="Write all responses as JSON Lines.")
@click.option(
    "--output",
    "target",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="The file to write.  [default: standard output]",
)
@TENANT_OPTION
@STORE_OPTIONS
def export_responses(target: Path | None, tenant: str, **options: Any) -> None:
    """Write all responses as JSON Lines, oldest first, each with its own input. Every item is written once.

    \b
    Examples:
      antiphon responses export --output responses.jsonl
      antiphon responses export --tenant acme | gzip > acme.jsonl.gz
    """
    settings = load_with_store(**options)

    async def export() -> int:
        async with open_stores(settings) as stores:
            return await export_to(target, stores.responses, tenant)

    written = asyncio.run(export())
    errors().print(f"Exported {written:,} responses.", style="dim", soft_wrap=True)


async def _newest(settings: Settings, tenant: str, limit: int | None) -> list[StoredResponse]:
    async with open_stores(settings) as stores:
        with spinner("reading"):
            return await newest_responses(stores.responses, tenant, limit)


def _print_no_responses(tenant: str) -> None:
    output().print(f"Tenant {tenant} has no responses.", style="dim", markup=False)
