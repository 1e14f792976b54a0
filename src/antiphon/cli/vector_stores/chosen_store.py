"""The vector store that a command is about, by its name or id, and the options of all these commands."""

from typing import Any

import click

from antiphon.caller import Caller
from antiphon.cli.failure import WrongUsage
from antiphon.cli.options import CONFIG_OPTION, LOG_OPTION, load_with_store, with_options
from antiphon.errors import NotFound
from antiphon.protocol.vector_stores import NewStore
from antiphon.service.vector_stores.stores import VectorStoreService
from antiphon.settings import Settings
from antiphon.store.base import Page
from antiphon.store.vector_stores import VectorStore, VectorStoreFile, store_expired

LIST_PAGE_STORES = 100
LIST_PAGE_FILES = 100

STORE_ARGUMENT = click.argument("name", metavar="STORE")
DATABASE_OPTIONS = with_options(
    CONFIG_OPTION,
    click.option(
        "--database",
        metavar="URL",
        help="The database: sqlite:PATH or postgresql://…  [default: the configured store]",
    ),
    LOG_OPTION,
)


def load_database(*, database: str | None, **options: Any) -> Settings:
    """The settings that `DATABASE_OPTIONS` lead to."""
    return load_with_store(store=database, **options)


async def find_store(stores: VectorStoreService, caller: Caller, name: str) -> VectorStore:
    """The store with this id, or the only one with this name. Raises `WrongUsage`."""
    found = await _find(stores, caller, name)
    if found is None:
        raise WrongUsage(
            f"There is no vector store '{name}'. `antiphon vector-stores list` shows those that exist, and "
            "`antiphon vector-stores create` makes one."
        )
    return found


async def find_or_create_store(
    stores: VectorStoreService, caller: Caller, name: str
) -> tuple[VectorStore, bool]:
    """The same, or a new store of this name; whether it is new."""
    found = await _find(stores, caller, name)
    if found is None:
        return await stores.create(caller, NewStore(name=name)), True
    if found.is_expired:
        raise store_expired(found.id)
    return found, False


async def check_new_name(stores: VectorStoreService, caller: Caller, name: str) -> None:
    """Raise `WrongUsage` if a store has this name or id."""
    found = await _find(stores, caller, name)
    if found is not None:
        raise WrongUsage(f"There is a vector store '{name}' already: {found.id}.")


async def _find(stores: VectorStoreService, caller: Caller, name: str) -> VectorStore | None:
    try:
        return await stores.retrieve(caller, name)
    except NotFound:
        named = [store for store in await all_stores(stores, caller) if store.name == name]
    if len(named) > 1:
        ids = ", ".join(store.id for store in named)
        raise WrongUsage(f"{len(named)} vector stores have the name '{name}'. Use an id: {ids}.")
    return named[0] if named else None


async def all_stores(stores: VectorStoreService, caller: Caller) -> list[VectorStore]:
    """All stores of a tenant, newest first."""
    found: list[VectorStore] = []
    has_more = True
    while has_more:
        page = Page(limit=LIST_PAGE_STORES, after=found[-1].id if found else None)
        listed, has_more = await stores.list(caller, page)
        found += listed
    return found


async def all_files(stores: VectorStoreService, caller: Caller, store_id: str) -> list[VectorStoreFile]:
    """All files of a store, oldest first."""
    found: list[VectorStoreFile] = []
    has_more = True
    while has_more:
        page = Page(limit=LIST_PAGE_FILES, after=found[-1].id if found else None, order="asc")
        listed, has_more = await stores.files.list(caller, store_id, page)
        found += listed
    return found
