"""`antiphon db`: the database of the store."""

import asyncio
from typing import Any

import click
import msgspec

from antiphon.cli.options import JSON_OPTION, STORE_OPTIONS, load_with_store
from antiphon.cli.terminal import output, print_note, print_table, spinner
from antiphon.http.redact import redact
from antiphon.settings import Settings
from antiphon.wiring import open_database, open_stores, seal_fingerprint
from antiphon.wiring.folders import store_path


@click.group("db")
def command() -> None:
    """Migrate, inspect and vacuum the database.

    \b
    Examples:
      antiphon db status
      antiphon db migrate
      antiphon db vacuum
    """


@command.command("migrate", short_help="Apply the missing migrations.")
@click.option(
    "--print", "only_print", is_flag=True, help="Print the SQL of the missing migrations without running it."
)
@STORE_OPTIONS
def migrate(only_print: bool, **options: Any) -> None:
    """Apply the migrations that this version needs.

    Each migration is one transaction; several processes may run this at the same time. A server migrates its
    database when it starts.

    \b
    Examples:
      antiphon db migrate
      antiphon db migrate --print
      antiphon db migrate --store postgresql://localhost/antiphon
    """
    settings = load_with_store(**options)
    if only_print:
        click.echo(asyncio.run(_missing_sql(settings)), nl=False)
        return
    done = asyncio.run(_migrate(settings))
    for version, name in done:
        click.echo(f"{version:04} {name}")
    print_note("Up to date." if done else "Up to date; no migration was missing.")


@command.command("status", short_help="Show the version and the size of the database.")
@JSON_OPTION
@STORE_OPTIONS
def status(machine: bool, **options: Any) -> None:
    """Show the applied migrations and the size of the database.

    \b
    Examples:
      antiphon db status
      antiphon db status --json
    """
    settings = load_with_store(**options)
    size, migrations = asyncio.run(_status(settings))
    store = _place(settings)
    if machine:
        rows = [{"version": version, "name": name, "applied": done} for version, name, done in migrations]
        report = {"store": store, "size": size, "migrations": rows}
        click.echo(msgspec.json.format(msgspec.json.encode(report), indent=2))
        return
    print_table(
        ("version", "name", "applied"),
        [(f"{version:04}", name, "yes" if done else "no") for version, name, done in migrations],
    )
    print_note(f"\n{store}, {_megabytes(size)}")
    if not all(done for _, _, done in migrations):
        print_note("Some migrations are missing: antiphon db migrate")


@command.command("vacuum", short_help="Return unused space to the file system.")
@STORE_OPTIONS
def vacuum(**options: Any) -> None:
    """Return the space of deleted rows to the file system.

    This can take a while, and blocks writers meanwhile.

    \b
    Example:
      antiphon db vacuum
    """
    settings = load_with_store(**options)
    before, after = asyncio.run(_vacuum(settings))
    output().print(f"{_megabytes(before)} before, {_megabytes(after)} now.", soft_wrap=True)


@command.command("accept-seal-key", short_help="Make the present sealing key that of the database.")
@STORE_OPTIONS
def accept_seal_key(**options: Any) -> None:
    """Make the present sealing key that of the database.

    Run this after `seal.key` was changed on purpose, or the key file in the data folder was lost: servers
    then no longer warn. It changes nothing else: API keys and sealed reasoning of the previous key stay void.

    \b
    Example:
      antiphon db accept-seal-key
    """
    settings = load_with_store(**options)

    async def accept() -> None:
        async with open_stores(settings) as stores:
            await stores.keys.replace_seal_key(seal_fingerprint(settings))

    asyncio.run(accept())
    click.echo("The sealing key of this machine is now that of the database.")


async def _missing_sql(settings: Settings) -> str:
    async with open_database(settings) as database:
        missing = [migration for migration, done in await database.migration_status() if not done]
    return "".join(f"-- {row.version:04} {row.name}\n{row.sql.strip()}\n\n" for row in missing)


async def _migrate(settings: Settings) -> list[tuple[int, str]]:
    async with open_database(settings) as database:
        with spinner("migrating"):
            return [(row.version, row.name) for row in await database.migrate()]


async def _status(settings: Settings) -> tuple[int, list[tuple[int, str, bool]]]:
    async with open_database(settings) as database:
        rows = [(row.version, row.name, done) for row, done in await database.migration_status()]
        return await database.size(), rows


async def _vacuum(settings: Settings) -> tuple[int, int]:
    async with open_database(settings) as database:
        before = await database.size()
        with spinner(f"vacuuming {_megabytes(before)}"):
            await database.vacuum()
        return before, await database.size()


def _place(settings: Settings) -> str:
    """The address of the database, without its password."""
    url = settings.store.url
    return f"sqlite:{store_path(settings)}" if url.startswith("sqlite:") else redact(url)


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"
