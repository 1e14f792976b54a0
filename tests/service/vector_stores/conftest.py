"""Vector stores on every database."""

import time
from collections.abc import AsyncGenerator

import pytest

from antiphon.store.ports import Stores
from antiphon.store.signals import LocalSignals
from antiphon.store.sql_stores import sql_stores
from tests.service.vector_stores.world import World, open_world
from tests.store.conftest import Opened, clock, connections, opened, postgres_url

__all__ = ["clock", "connections", "opened", "postgres_url"]


@pytest.fixture
def stores(opened: Opened) -> Stores:
    return sql_stores(opened.database, LocalSignals(), time.time)


@pytest.fixture
async def world(stores: Stores) -> AsyncGenerator[World, None]:
    async with open_world(stores, pauses_seconds=(0.01, 0.02)) as world:
        yield world
