"""The application in memory, on a scripted backend; connections on transports that record."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from typing import Any

import httpx2
import pytest

from antiphon.backends.scripted import ScriptedBackend
from antiphon.server.app import App, AppOptions, Served
from antiphon.server.auth import Keys
from antiphon.server.guard import HostGuard
from antiphon.server.memory import memory_client
from antiphon.server.types import ASGIApp
from tests.server.http_connection import Connect, Connection
from tests.service.conftest import MakeCreator, make_creator, services_of, store

__all__ = ["make_creator", "services_of", "store"]

OpenClient = Callable[..., AbstractAsyncContextManager[httpx2.AsyncClient]]


def options(**fields: Any) -> AppOptions:
    return replace(AppOptions(keys=Keys((), clock=lambda: 1000.0), hosts=HostGuard(None)), **fields)


@asynccontextmanager
async def never_opened() -> AsyncGenerator[Served, None]:
    raise AssertionError("the test mounts its own service")
    yield


@pytest.fixture
def open_client(make_creator: MakeCreator) -> OpenClient:
    """A client of an application with these backends."""

    @asynccontextmanager
    async def open_client(
        *backends: ScriptedBackend, app_options: AppOptions | None = None
    ) -> AsyncGenerator[httpx2.AsyncClient, None]:
        app = App(never_opened, lambda: "req_1", app_options or options())
        app.mount(services_of(make_creator(*backends)))
        async with memory_client(app) as client:
            yield client

    return open_client


@pytest.fixture
async def connect() -> AsyncIterator[Connect]:
    opened: list[Connection] = []

    def connect(app: ASGIApp) -> Connection:
        opened.append(Connection(app))
        return opened[-1]

    yield connect
    for connection in opened:
        connection.protocol.connection_lost(None)
