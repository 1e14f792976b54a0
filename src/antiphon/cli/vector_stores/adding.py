"""`antiphon vector-stores add` and `reindex`: files on their way into a vector store."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from antiphon.caller import Caller
from antiphon.cli.failure import FAILED, WrongUsage
from antiphon.cli.options import JSON_OPTION, TENANT_OPTION
from antiphon.cli.terminal import errors, output, print_json, printable
from antiphon.cli.vector_stores.attributes import parse_attributes
from antiphon.cli.vector_stores.chosen_store import (
    DATABASE_OPTIONS,
    STORE_ARGUMENT,
    all_files,
    find_or_create_store,
    find_store,
    load_database,
)
from antiphon.cli.vector_stores.found_files import FoundFiles, find_files
from antiphon.cli.vector_stores.progress import Display, open_display, wait_until_added
from antiphon.errors import RequestError
from antiphon.protocol.attribute_filters import Attribute
from antiphon.service.embeddings import AUTO
from antiphon.service.vector_stores.local_files import PATH_ATTRIBUTE, Kept, LocalFiles, LocalSource, Versions
from antiphon.service.vector_stores.models import model_of
from antiphon.service.vector_stores.stores import VectorStoreService
from antiphon.settings import Settings
from antiphon.store.vector_stores import VectorStore
from antiphon.wiring import open_vector_stores

MAX_SWEEPS = 100
"""Parts of what former versions have left that one command erases: about 20,000 chunks in a few seconds."""


@dataclass
class Outcome:
    """What became of the files: paths that were added, and reasons of those that failed."""

    store: VectorStore
    is_new: bool = False
    added: list[str] = field(default_factory=list[str])
    unchanged: int = 0
    failed: dict[str, str] = field(default_factory=dict[str, str])

    def announce(self, skipped: int) -> None:
        """Tell on standard error what is done before files are sent."""
        console = errors()
        if self.is_new:
            line = f"Created the vector store {self.store.name} for vectors of {self.store.model}."
            console.print(printable(line), markup=False, soft_wrap=True)
        if skipped:
            what = "1 file" if skipped == 1 else f"{skipped} files"
            console.print(f"Skipped {what}: empty, or of a type that is not read.", soft_wrap=True)

    def print(self, machine: bool) -> None:
        """Show it; exits with 1 if a file has failed."""
        if machine:
            print_json(
                {
                    "vector_store_id": self.store.id,
                    "added": self.added,
                    "unchanged": self.unchanged,
                    "failed": self.failed,
                }
            )
        else:
            counts = f"{len(self.added)} added, {self.unchanged} unchanged, {len(self.failed)} failed"
            line = f"{self.store.name or self.store.id} ({self.store.id}): {counts}."
            output().print(printable(line), markup=False, soft_wrap=True)
            for path, reason in self.failed.items():
                errors().print(printable(f"{path}: {reason}"), style="red", markup=False, soft_wrap=True)
        if self.failed:
            click.get_current_context().exit(FAILED)


@click.command("add", short_help="Add files and folders to a vector store.")
@click.argument(
    "paths", metavar="PATH...", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path)
)
@click.option("--store", "name", metavar="STORE", required=True, help="The name or id of the vector store.")
@click.option(
    "--attribute", "attributes", metavar="KEY=VALUE", multiple=True,
    help="An attribute of these files, which searches can filter by; may be repeated.",
)  # fmt: skip
@TENANT_OPTION
@JSON_OPTION
@DATABASE_OPTIONS
def add_command(
    paths: tuple[Path, ...],
    name: str,
    attributes: tuple[str, ...],
    tenant: str,
    machine: bool,
    **options: Any,
) -> None:
    """Add the files PATH..., and those in the folders PATH..., to a vector store.

    The store is created if it does not exist. Files that it has already with the same content are not sent
    again: after Ctrl-C, the same command continues where it stopped. A changed file replaces the one with the
    same path. Of folders, hidden files, files of types that are not read, and those that .gitignore names are
    left out.

    \b
    Examples:
      antiphon vector-stores add docs/ --store handbook
      antiphon vector-stores add report.pdf --store reports --attribute year=2026
    """
    settings, shared = load_database(**options), parse_attributes(attributes)
    found = find_files(paths, Path.cwd())
    if not found.files:
        raise WrongUsage("There is no file to add: folders are empty, or have no files that can be read.")
    try:
        outcome = asyncio.run(_add(settings, Caller.of(tenant), name, found, shared))
    except KeyboardInterrupt:
        click.echo("\nStopped. The same command continues from here.", err=True)
        raise
    outcome.print(machine)


@click.command("reindex", short_help="Move a vector store to another embedding model.")
@STORE_ARGUMENT
@click.option(
    "--model", default=AUTO, metavar="NAME", show_default=True, help="The embedding model to move it to."
)
@TENANT_OPTION
@JSON_OPTION
@DATABASE_OPTIONS
def reindex_command(name: str, model: str, tenant: str, machine: bool, **options: Any) -> None:
    """Read and embed all files of STORE again, with another embedding model.

    A file is found again when it is completed. After Ctrl-C, a server or `add` continues.

    \b
    Examples:
      antiphon vector-stores reindex handbook
      antiphon vector-stores reindex handbook --model text-embedding-3-small
    """
    settings = load_database(**options)
    asyncio.run(_reindex(settings, Caller.of(tenant), name, model)).print(machine)


async def _add(
    settings: Settings, caller: Caller, name: str, found: FoundFiles, attributes: Mapping[str, Attribute]
) -> Outcome:
    async with open_vector_stores(settings) as opened:
        store, is_new = await find_or_create_store(opened.stores, caller, name)
        model_of(opened.stores.embeddings, store.model, store.id)  # raises before anything is sent
        outcome = Outcome(store, is_new)
        outcome.announce(found.skipped)
        opened.jobs.adopt()
        with open_display(len(found.files)) as display:
            addition = _Addition(LocalFiles(opened.files, opened.stores), caller, outcome, display)
            await addition.run(found.files, attributes)
        await _erase_replaced(opened.stores)
        return outcome


async def _erase_replaced(stores: VectorStoreService) -> None:
    """Erase the chunks of former versions. A server's upkeep would, but there may be none."""
    for _ in range(MAX_SWEEPS):
        if not await stores.store.sweep_stores():
            return


@dataclass
class _Addition:
    """The files of one command on their way into a store."""

    local: LocalFiles
    caller: Caller
    outcome: Outcome
    display: Display

    async def run(self, files: Sequence[LocalSource], attributes: Mapping[str, Attribute]) -> None:
        store_id = self.outcome.store.id
        known = await self.local.versions(self.caller, store_id)
        kept: dict[str, Kept] = {}
        for file in files:
            one = await self._keep(file, known, attributes)
            if one is not None:
                kept[file.path] = one
        pending = {one.file_id: path for path, one in kept.items() if one.change != "unchanged"}
        failed = await wait_until_added(self.local.stores, self.caller, store_id, pending, self.display)
        self.outcome.failed |= failed
        self.outcome.added = [path for path in pending.values() if path not in failed]
        self.outcome.unchanged = len(kept) - len(pending)
        for path, one in kept.items():
            if path not in failed:
                await self.local.remove(self.caller, store_id, one.outdated)

    async def _keep(
        self, file: LocalSource, known: Versions, attributes: Mapping[str, Attribute]
    ) -> Kept | None:
        """None: it has failed."""
        try:
            kept = await self.local.keep(
                self.caller,
                self.outcome.store.id,
                file,
                known.get(file.path, ()),
                attributes=attributes or None,
                advance=self.display.send(file.path, file.place.stat().st_size),
            )
        except RequestError as error:
            reason = error.message
        except OSError as error:
            reason = f"{error.strerror or error}."
        else:
            if kept.change == "unchanged":
                self.display.skip()
            return kept
        self.outcome.failed[file.path] = reason
        self.display.end(file.path, reason)
        return None


async def _reindex(settings: Settings, caller: Caller, name: str, model: str) -> Outcome:
    async with open_vector_stores(settings) as opened:
        store = await find_store(opened.stores, caller, name)
        opened.jobs.adopt()
        outcome = Outcome(await opened.stores.reindex(caller, store.id, model))
        files = await all_files(opened.stores, caller, store.id)
        names = {file.id: str(file.attributes.get(PATH_ATTRIBUTE, file.filename)) for file in files}
        with open_display(len(names)) as display:
            outcome.failed = await wait_until_added(opened.stores, caller, store.id, names, display)
        outcome.added = [path for path in names.values() if path not in outcome.failed]
        await _erase_replaced(opened.stores)
        return outcome
