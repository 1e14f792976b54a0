"""`antiphon vector-stores`: the vector stores in the database."""

import asyncio
from typing import Any

import click
import msgspec

from antiphon.caller import Caller
from antiphon.cli.options import JSON_OPTION, TENANT_OPTION
from antiphon.cli.terminal import (
    format_date,
    format_duration,
    format_size,
    output,
    print_json,
    print_note,
    print_table,
    printable,
)
from antiphon.cli.vector_stores.adding import add_command, reindex_command
from antiphon.cli.vector_stores.chosen_store import (
    DATABASE_OPTIONS,
    STORE_ARGUMENT,
    all_files,
    all_stores,
    check_new_name,
    find_store,
    load_database,
)
from antiphon.cli.vector_stores.search import search_command
from antiphon.protocol.vector_stores import FileCounts, NewStore, StoreExpiry
from antiphon.service.vector_stores.local_files import PATH_ATTRIBUTE, LocalFiles
from antiphon.service.vector_stores.objects import store_file_object, store_object
from antiphon.store.vector_stores import VectorStore, VectorStoreFile
from antiphon.wiring import make_ids, open_vector_stores

HEADINGS = ("name", "id", "files", "size", "model", "last used")
FILE_HEADINGS = ("path", "id", "status", "size", "reason")
MAX_EXPIRY_DAYS = 365


@click.group("vector-stores")
def command() -> None:
    """Create, fill, search and delete vector stores.

    A vector store has the text of files in pieces that can be found by meaning. STORE is its name or id.

    \b
    Examples:
      antiphon vector-stores add docs/ --store handbook
      antiphon vector-stores search handbook "How many days off do I get?"
      antiphon vector-stores list
    """


@command.command("create", short_help="Create a vector store.")
@click.argument("name", metavar="NAME")
@click.option("--description", metavar="TEXT", help="What it is for.")
@click.option(
    "--expires-after", "days", type=click.IntRange(1, MAX_EXPIRY_DAYS), metavar="DAYS",
    help="Days after its last use when its content is deleted.  [default: never]",
)  # fmt: skip
@TENANT_OPTION
@JSON_OPTION
@DATABASE_OPTIONS
def create_store(
    name: str, description: str | None, days: int | None, tenant: str, machine: bool, **options: Any
) -> None:
    """Create the vector store NAME, and print its id. It uses the embedding model that is now the default.

    \b
    Examples:
      antiphon vector-stores create handbook
      antiphon vector-stores create news --expires-after 7
    """
    settings, caller = load_database(**options), Caller.of(tenant)
    expiry = None if days is None else StoreExpiry("last_active_at", days)
    new = msgspec.convert(
        NewStore(name=name, description=description, expires_after=expiry), NewStore, from_attributes=True
    )

    async def create() -> VectorStore:
        async with open_vector_stores(settings) as opened:
            await check_new_name(opened.stores, caller, name)
            return await opened.stores.create(caller, new)

    store = asyncio.run(create())
    if machine:
        print_json(_json(store))
    else:
        click.echo(store.id)


@command.command("list", short_help="List the vector stores.")
@TENANT_OPTION
@JSON_OPTION
@DATABASE_OPTIONS
def list_stores(tenant: str, machine: bool, **options: Any) -> None:
    """List all vector stores, newest first.

    \b
    Examples:
      antiphon vector-stores list
      antiphon vector-stores list --json
    """
    settings = load_database(**options)

    async def read() -> list[VectorStore]:
        async with open_vector_stores(settings) as opened:
            return await all_stores(opened.stores, Caller.of(tenant))

    found = asyncio.run(read())
    if machine:
        print_json([_json(store) for store in found])
    elif found:
        now = make_ids().clock()
        print_table(HEADINGS, [_row(store, now) for store in found])
    else:
        print_note(f"Tenant {tenant} has no vector stores.")


@command.command("show", short_help="Show a vector store and its files.")
@STORE_ARGUMENT
@TENANT_OPTION
@JSON_OPTION
@DATABASE_OPTIONS
def show_store(name: str, tenant: str, machine: bool, **options: Any) -> None:
    """Show STORE and its files, with the reasons of those that have failed.

    \b
    Examples:
      antiphon vector-stores show handbook
      antiphon vector-stores show vs_0194f3a6c1b8 --json
    """
    settings, caller = load_database(**options), Caller.of(tenant)

    async def read() -> tuple[VectorStore, list[VectorStoreFile]]:
        async with open_vector_stores(settings) as opened:
            store = await find_store(opened.stores, caller, name)
            return store, await all_files(opened.stores, caller, store.id)

    store, files = asyncio.run(read())
    if machine:
        print_json({**_json(store), "files": [store_file_object(file) for file in files]})
        return
    console = output()
    for heading, value in zip(HEADINGS, _row(store, make_ids().clock()), strict=True):
        console.print(printable(f"{heading:11} {value}"), markup=False, soft_wrap=True)
    console.print(f"{'created':11} {format_date(store.created_at)}", markup=False, soft_wrap=True)
    if files:
        console.print()
        print_table(FILE_HEADINGS, [_file_row(file) for file in files])


@command.command("delete", short_help="Delete a vector store.")
@STORE_ARGUMENT
@click.option("--files", "with_files", is_flag=True, help="Delete the files that were in it, too.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@TENANT_OPTION
@DATABASE_OPTIONS
def delete_store(name: str, with_files: bool, yes: bool, tenant: str, **options: Any) -> None:
    """Delete STORE. The files that were in it stay, unless --files is given.

    \b
    Examples:
      antiphon vector-stores delete handbook
      antiphon vector-stores delete handbook --files --yes
    """
    settings, caller = load_database(**options), Caller.of(tenant)

    async def check() -> VectorStore:
        async with open_vector_stores(settings) as opened:
            return await find_store(opened.stores, caller, name)

    async def delete(store_id: str) -> None:
        async with open_vector_stores(settings) as opened:
            files = await all_files(opened.stores, caller, store_id) if with_files else []
            local = LocalFiles(opened.files, opened.stores)
            await local.remove(caller, store_id, [file.id for file in files])
            await opened.stores.delete(caller, store_id)

    store = asyncio.run(check())
    what = f"the vector store '{store.name or store.id}'" + (" and its files" if with_files else "")
    if not yes:
        click.confirm(printable(f"Delete {what} permanently?"), abort=True, err=True)
    asyncio.run(delete(store.id))
    click.echo(printable(f"Deleted {what}."))


command.add_command(add_command)
command.add_command(search_command)
command.add_command(reindex_command)


def _json(store: VectorStore) -> dict[str, object]:
    """The object of the API, with the embedding model."""
    rendered: dict[str, object] = msgspec.to_builtins(store_object(store))
    return {**rendered, "model": store.model, "dimensions": store.dimensions}


def _row(store: VectorStore, now: float) -> tuple[str, ...]:
    files = "expired" if store.is_expired else _counts(store.file_counts)
    used = f"{format_duration(now - store.last_active_at)} ago"
    return store.name, store.id, files, format_size(store.usage_bytes), store.model, used


def _counts(counts: FileCounts) -> str:
    """The files by their status: `12 completed, 1 failed`."""
    amounts = {
        "completed": counts.completed,
        "in progress": counts.in_progress,
        "failed": counts.failed,
        "cancelled": counts.cancelled,
    }
    return ", ".join(f"{count} {status}" for status, count in amounts.items() if count) or "none"


def _file_row(file: VectorStoreFile) -> tuple[str, ...]:
    path = str(file.attributes.get(PATH_ATTRIBUTE, file.filename))
    reason = "" if file.error is None else file.error.message
    return path, file.id, file.status.replace("_", " "), format_size(file.usage_bytes), reason
