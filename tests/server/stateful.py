"""The application in memory with a real store, and any number of tenants."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import httpx2

from antiphon.backends.scripted import ScriptedBackend
from antiphon.caller import SCOPES, Caller
from antiphon.protocol.response import Response
from antiphon.server.app import App
from antiphon.server.auth import Keys
from antiphon.server.memory import memory_client
from antiphon.service.keys import Keyring
from antiphon.service.services import Services
from antiphon.service.stored import BackgroundRuns, StoredResponses
from tests.server.conftest import never_opened, options, services_of
from tests.service.conftest import MakeCreator

JsonObject = dict[str, Any]
NOW = 1000.0


@dataclass(frozen=True)
class ServerUnderTest:
    """A client of the application, with its services."""

    client: httpx2.AsyncClient
    app: App
    services: Services
    new_key: Callable[..., Awaitable[httpx2.Headers]]

    async def created(self, **params: Any) -> JsonObject:
        """Create a response."""
        answer = await self.client.post("/v1/responses", json={"model": "m", "input": "hi", **params})
        assert answer.status_code == 200, answer.text
        return answer.json()


@asynccontextmanager
async def open_server(
    make_creator: MakeCreator,
    backend: ScriptedBackend | None = None,
    background: BackgroundRuns | None = None,
) -> AsyncGenerator[ServerUnderTest, None]:
    """An application with the store of the test."""
    services = services_of(make_creator(backend or ScriptedBackend.saying("Hel", "lo")))
    store = services.store
    if background is not None:
        services = replace(services, stored=StoredResponses(store.responses, background))
    keys = Keys((), pepper=b"pepper", clock=lambda: NOW)
    numbers = iter(range(1, 1000))
    ring = Keyring(
        store.keys,
        store.signals,
        pepper=b"pepper",
        clock=lambda: NOW,
        entropy=lambda size: next(numbers).to_bytes(size, "big"),
    )

    async def new_key(tenant: str, *scopes: str) -> httpx2.Headers:
        """The header of a new key; once a key exists, every request needs one."""
        key, _ = await ring.create(tenant=tenant, scopes=scopes or SCOPES)
        await keys.refresh(store.keys)
        return httpx2.Headers({"authorization": f"Bearer {key}"})

    app = App(never_opened, lambda: "req_1", options(keys=keys))
    app.mount(services)
    async with memory_client(app) as client:
        yield ServerUnderTest(client, app, services, new_key)
    await services.background.jobs.aclose()


class Log:
    """A fake of background runs: a log of rendered events, and the cancelled runs.

    The stream waits for each asyncio event among the pieces.
    """

    def __init__(self, *pieces: bytes | Exception | asyncio.Event) -> None:
        self.pieces = pieces
        self.follows: list[tuple[str, str, int]] = []
        self.cancelled: list[tuple[str, str]] = []
        self.response: Response | None = None

    async def follow(self, caller: Caller, response_id: str, after: int = -1) -> AsyncGenerator[bytes, None]:
        self.follows.append((caller.tenant, response_id, after))
        for piece in self.pieces:
            if isinstance(piece, Exception):
                raise piece
            if isinstance(piece, asyncio.Event):
                await piece.wait()
            else:
                yield piece

    def unfinished(self, caller: Caller, response_id: str) -> Response | None:
        del caller, response_id
        return None

    async def cancel(self, caller: Caller, response_id: str) -> Response:
        self.cancelled.append((caller.tenant, response_id))
        assert self.response is not None
        return self.response
