"""A store that lasts, filled and read by a test beside the commands."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from antiphon.settings import Settings, StoreSettings
from antiphon.store.base import StoredResponse
from antiphon.store.ports import Stores
from antiphon.wiring import open_stores

T = TypeVar("T")


def in_store(url: str, do: Callable[[Stores], Awaitable[T]]) -> T:
    """Do something with the store at this URL."""

    async def run() -> T:
        async with open_stores(Settings(store=StoreSettings(url=url))) as store:
            return await do(store)

    return asyncio.run(run())


def keep(url: str, *turns: StoredResponse, tenant: str = "default") -> None:
    """Save these, the oldest first."""

    async def save(store: Stores) -> None:
        for stored in turns:
            await store.responses.save(tenant, stored)

    in_store(url, save)
