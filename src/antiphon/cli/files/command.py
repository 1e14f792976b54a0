"""`antiphon files`: the files in the store."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from antiphon.caller import Caller
from antiphon.cli.files.adding import progress_bar
from antiphon.cli.keys import parse_duration
from antiphon.cli.options import JSON_OPTION, STORE_OPTIONS, TENANT_OPTION, load_with_store
from antiphon.cli.terminal import (
    format_date,
    format_duration,
    format_size,
    output,
    print_json,
    print_note,
    print_table,
)
from antiphon.protocol.files import PURPOSES, FileObject, check_lifetime
from antiphon.service.files.files import file_object
from antiphon.service.files.local_file import LocalFile
from antiphon.settings import Settings
from antiphon.store.files import FilePage
from antiphon.wiring import make_ids, open_files

HEADINGS = ("id", "filename", "purpose", "size", "age", "expires")
PURPOSE_TYPE = click.Choice(PURPOSES)
ID_ARGUMENT = click.argument("file_id", metavar="ID")


@click.group("files")
def command() -> None:
    """Add, list, show and delete stored files.

    \b
    Examples:
      antiphon files add handbook.pdf
      antiphon files list
      antiphon files show file-0194f3a6c1b8 --output handbook.pdf
      antiphon files delete file-0194f3a6c1b8
    """


@command.command("add", short_help="Store files.")
@click.argument(
    "paths",
    metavar="PATH...",
    nargs=-1,
    required=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
)
@click.option(
    "--purpose", type=PURPOSE_TYPE, metavar="PURPOSE", default="user_data", show_default=True,
    help=f"What they are for: {', '.join(PURPOSES)}.",
)  # fmt: skip
@click.option("--expires", metavar="SPAN", help="When they are deleted: 1h to 30d.  [default: never]")
@TENANT_OPTION
@JSON_OPTION
@STORE_OPTIONS
def add_files(
    paths: tuple[Path, ...], purpose: str, expires: str | None, tenant: str, machine: bool, **options: Any
) -> None:
    """Store the files PATH..., and print their ids.

    \b
    Examples:
      antiphon files add handbook.pdf
      antiphon files add --purpose assistants --expires 7d *.md
    """
    settings = load_with_store(**options)
    lifetime = None
    if expires is not None:
        lifetime = check_lifetime("created_at", str(parse_duration(expires)))

    async def add() -> list[FileObject]:
        added: list[FileObject] = []
        async with open_files(settings) as files:
            for path in paths:
                with progress_bar(path) as advance:
                    incoming = LocalFile(path, purpose, lifetime, advance)
                    added.append(file_object(await files.create(Caller.of(tenant), incoming)))
                if not machine:
                    click.echo(f"{added[-1].id}  {path}")
        return added

    added = asyncio.run(add())
    if machine:
        print_json(added)


@command.command("list", short_help="List the newest files.")
@click.option(
    "--limit", type=click.IntRange(min=1), default=20, show_default=True, metavar="N",
    help="How many, newest first.",
)  # fmt: skip
@click.option("--purpose", type=PURPOSE_TYPE, metavar="PURPOSE", help="Only files of this purpose.")
@TENANT_OPTION
@JSON_OPTION
@STORE_OPTIONS
def list_files(limit: int, purpose: str | None, tenant: str, machine: bool, **options: Any) -> None:
    """List the newest files.

    \b
    Examples:
      antiphon files list
      antiphon files list --purpose batch --limit 100 --json
    """
    found = asyncio.run(_newest(load_with_store(**options), tenant, FilePage(limit=limit, purpose=purpose)))
    if machine:
        print_json(found)
    elif found:
        now = make_ids().clock()
        print_table(HEADINGS, [_row(file, now) for file in found])
    else:
        print_note(f"Tenant {tenant} has no files.")


@command.command("show", short_help="Show a file, or save its content.")
@ID_ARGUMENT
@click.option(
    "--output", "target", type=click.File("wb", lazy=True), metavar="FILE",
    help="Write the content to this file; - is standard output.",
)  # fmt: skip
@TENANT_OPTION
@JSON_OPTION
@STORE_OPTIONS
def show_file(file_id: str, target: Any, tenant: str, machine: bool, **options: Any) -> None:
    """Show what is stored about the file ID, or write its content.

    \b
    Examples:
      antiphon files show file-0194f3a6c1b8
      antiphon files show file-0194f3a6c1b8 --output handbook.pdf
    """
    settings = load_with_store(**options)

    async def read() -> FileObject:
        async with open_files(settings) as files:
            file = await files.retrieve(Caller.of(tenant), file_id)
            if target is not None:
                async for piece in files.read(file):
                    target.write(piece)
            return file_object(file)

    file = asyncio.run(read())
    if target is not None:
        return
    if machine:
        print_json(file)
        return
    console = output()
    for name, value in zip(HEADINGS, _row(file, make_ids().clock()), strict=True):
        if value:
            console.print(f"{name:9} {value}", markup=False, soft_wrap=True)
    console.print(f"{'stored':9} {format_date(file.created_at)}", markup=False, soft_wrap=True)


@command.command("delete", short_help="Delete files.")
@click.argument("file_ids", metavar="ID...", nargs=-1, required=True)
@click.option("--yes", is_flag=True, help="Do not ask.")
@TENANT_OPTION
@STORE_OPTIONS
def delete_files(file_ids: tuple[str, ...], yes: bool, tenant: str, **options: Any) -> None:
    """Delete the files ID...

    If one of them does not exist, none is deleted.

    \b
    Examples:
      antiphon files delete file-0194f3a6c1b8
      antiphon files delete --yes file-0194f3a6c1b8 file-0194f3a6c1b9
    """
    settings, caller = load_with_store(**options), Caller.of(tenant)
    wanted = list(dict.fromkeys(file_ids))

    async def check() -> None:
        async with open_files(settings) as files:
            for file_id in wanted:
                await files.retrieve(caller, file_id)

    async def delete() -> None:
        async with open_files(settings) as files:
            for file_id in wanted:
                await files.delete(caller, file_id)

    asyncio.run(check())
    what = "1 file" if len(wanted) == 1 else f"{len(wanted)} files"
    if not yes:
        click.confirm(f"Delete {what} permanently?", abort=True, err=True)
    asyncio.run(delete())
    click.echo(f"Deleted {what}.")


async def _newest(settings: Settings, tenant: str, page: FilePage) -> Sequence[FileObject]:
    async with open_files(settings) as files:
        found, _ = await files.list(Caller.of(tenant), page)
        return [file_object(file) for file in found]


def _row(file: FileObject, now: float) -> tuple[str, ...]:
    expires = "" if file.expires_at is None else f"in {format_duration(file.expires_at - now)}"
    age = format_duration(now - file.created_at)
    return file.id, file.filename, file.purpose, format_size(file.bytes), age, expires
