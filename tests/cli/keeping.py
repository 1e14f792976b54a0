"""A store that lasts, filled and read by a test beside the commands."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from antiphon.settings import Settings, StoreSettings
from antiphon.store.base import Store, StoredResponse
from antiphon.wiring import open_store

T = TypeVar("T")


def in_store(url: str, do: Callable[[Store], Awaitable[T]]) -> T:
    """Do something with the store at this URL."""

    async def run() -> T:
        async with open_store(Settings(store=StoreSettings(url=url))) as store:
            return await do(store)

    return asyncio.run(run())


def keep(url: str, *turns: StoredResponse, tenant: str = "default") -> None:
    """Save these, the oldest first."""

    async def save(store: Store) -> None:
        for stored in turns:
            await store.save(tenant, stored)

    in_store(url, save)
