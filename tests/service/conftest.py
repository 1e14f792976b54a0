"""A service on a scripted backend, with a clock and ids that can be foretold."""

from collections.abc import AsyncGenerator, Callable
from itertools import count

import pytest

from antiphon.backends.scripted import ScriptedBackend
from antiphon.protocol.ids import IdSource
from antiphon.service.create import Creator
from antiphon.service.routing.router import Route, Router
from antiphon.store.ports import Stores
from antiphon.store.signals import LocalSignals
from antiphon.store.sql_stores import sql_stores
from antiphon.store.sqlite import SqliteDatabase
from antiphon.turn.sealing import Sealer

MakeCreator = Callable[..., Creator]


@pytest.fixture
async def store() -> AsyncGenerator[Stores, None]:
    """A store in memory."""
    kept = sql_stores(await SqliteDatabase.open(None), LocalSignals(), lambda: 1000.0)
    yield kept
    await kept.aclose()


@pytest.fixture
def make_creator(store: Stores) -> MakeCreator:
    """Creator over one backend for the model `m`, or over given routes; other fields as given."""

    def make(*backends: ScriptedBackend, **fields: object) -> Creator:
        numbers = count(1)
        routes = [Route("m", backend, priority=index) for index, backend in enumerate(backends)]
        defaults: dict[str, object] = {
            "router": Router(routes, chance=lambda: 0.5),
            "store": store,
            "ids": IdSource(lambda: 1000.0, lambda size: next(numbers).to_bytes(size, "big")),
            "clock": lambda: 1000.0,
            "sealer": Sealer(b"secret", bytes),
        }
        return Creator(**{**defaults, **fields})  # pyright: ignore[reportArgumentType] -- a test double's fields

    return make
