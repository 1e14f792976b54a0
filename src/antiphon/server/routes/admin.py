"""``/v1/admin``: API keys of all tenants, the settings in force, and runs of the conformance checker."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from typing import Annotated, Any, ClassVar

import msgspec
from msgspec import Meta, Struct

from antiphon.caller import ADMIN, DEFAULT_TENANT, SCOPES, Caller
from antiphon.errors import AntiphonError, Conflict, InvalidRequest
from antiphon.protocol.parse import decode
from antiphon.server.auth import Keys
from antiphon.server.exchange import BodyReader, Exchange
from antiphon.server.lifetime import Lifetimes
from antiphon.server.routing import Route
from antiphon.service.keys import MAX_EXPIRY, Keyring
from antiphon.settings import EffectiveSetting
from antiphon.store.base import ApiKey
from antiphon.store.ports import KeyStore

CHECK_KEY_SECONDS = 1800
"""How long the key of a run of the checker would be valid if the process died."""
KEY_DELAY_SECONDS = 1.0
"""After this time all processes know a new key."""
HEARTBEAT_SECONDS = 10.0

ReadSettings = Callable[[], Sequence[EffectiveSetting]]
CheckEvents = AsyncGenerator[dict[str, Any], None]
RunChecks = Callable[[str, str, str | None], CheckEvents]
"""Checks a server, given by its base URL, with a model and a key. Yields one object per check, then the
summary."""


class _NewKey(Struct, forbid_unknown_fields=True):
    name: str
    tenant: str = DEFAULT_TENANT
    scopes: tuple[str, ...] = SCOPES
    tools: tuple[str, ...] | None = None
    expires_at: Annotated[int, Meta(le=MAX_EXPIRY)] | None = None


class _Checked(Struct, forbid_unknown_fields=True):
    model: str


class AdminRoutes:
    """Manages keys and shows the settings, for keys with the scope `admin`."""

    def __init__(
        self,
        keyring: Keyring,
        keys: Keys,
        store: KeyStore,
        read_settings: ReadSettings,
        bodies: BodyReader,
    ) -> None:
        self._keyring = keyring
        self._keys = keys
        self._store = store
        self._read_settings = read_settings
        self._bodies = bodies

    async def list_keys(self, exchange: Exchange) -> None:
        """All keys, the oldest first. No secret is stored, so none is shown."""
        data = [_key_to_wire(key, self._keys.clock()) for key in await self._keyring.list()]
        await _send_list(exchange, data)

    async def create_key(self, exchange: Exchange) -> None:
        """A new key; its text is in this answer only."""
        new = decode(await self._bodies.read(exchange) or b"{}", _NewKey)
        now = self._keys.clock()
        text, key = await self._keyring.create(
            name=new.name,
            tenant=new.tenant,
            scopes=new.scopes,
            lifetime=None if new.expires_at is None else new.expires_at - now,
            tools=new.tools,
        )
        await self._keys.refresh(self._store)
        payload = {**_key_to_wire(key, now), "key": text}
        await exchange.send_json(msgspec.json.encode(payload), headers=((b"cache-control", b"no-store"),))

    async def revoke_key(self, exchange: Exchange, key_id: str) -> None:
        """Refuse a key from now on."""
        await self._keyring.revoke(key_id)
        await self._keys.refresh(self._store)
        found = next(key for key in await self._keyring.list() if key.id == key_id)
        await exchange.send_json(msgspec.json.encode(_key_to_wire(found, self._keys.clock())))

    async def delete_key(self, exchange: Exchange, key_id: str) -> None:
        """Remove a key."""
        await self._keyring.delete([key_id])
        await self._keys.refresh(self._store)
        deleted = {"id": key_id, "object": "api_key.deleted", "deleted": True}
        await exchange.send_json(msgspec.json.encode(deleted))

    async def settings(self, exchange: Exchange) -> None:
        """The settings in force, each with its source."""
        settings = await asyncio.to_thread(self._read_settings)
        data = [{**msgspec.structs.asdict(each), "doc": None} for each in settings]
        await _send_list(exchange, data)

    ROUTES: ClassVar = (
        Route("GET /v1/admin/keys", list_keys, ADMIN),
        Route("POST /v1/admin/keys", create_key, ADMIN),
        Route("POST /v1/admin/keys/{id}/revoke", revoke_key, ADMIN),
        Route("DELETE /v1/admin/keys/{id}", delete_key, ADMIN),
        Route("GET /v1/admin/settings", settings, ADMIN),
    )


class ConformanceRoutes:
    """Runs the conformance checker against this server, one run at a time."""

    def __init__(
        self,
        keyring: Keyring,
        keys: Keys,
        store: KeyStore,
        run: RunChecks,
        *,
        lifetimes: Lifetimes,
        bodies: BodyReader,
    ) -> None:
        self._store = store
        self._keyring = keyring
        self._keys = keys
        self._run = run
        self._lifetimes = lifetimes
        self._bodies = bodies
        self._running = False

    async def run(self, exchange: Exchange) -> None:
        """A stream with one event per check, then the summary."""
        with self._lifetimes.lease(exchange.receive) as lease:
            wanted = decode(await self._bodies.read_within(exchange, lease) or b"{}", _Checked)
            lease.expect_disconnect()
            if exchange.address is None:
                raise InvalidRequest(
                    "The checks need a TCP address, and this server has none.", code="no_address"
                )
            if self._running:
                message = "A run of the checks is under way. Wait until it has ended."
                raise Conflict(message, code="conformance_running")
            self._running = True
            try:
                await self._stream(exchange, exchange.address, wanted.model)
            finally:
                self._running = False

    async def _stream(self, exchange: Exchange, address: tuple[str, int], model: str) -> None:
        host, port = address
        base_url = f"http://{f'[{host}]' if ':' in host else host}:{port}/v1"
        async with self._key(exchange.caller) as key, aclosing(self._run(base_url, model, key)) as events:
            await exchange.start_stream()
            async for event in _with_heartbeats(events):
                await exchange.send_events(b": still here\n\n" if event is None else _rendered(event))
            await exchange.end_stream(b"data: [DONE]\n\n")

    def _key(self, caller: Caller) -> AbstractAsyncContextManager[str | None]:
        """A key of the caller's tenant for the run; None if this server needs none."""
        return _no_key() if not self._keys.needed else self._temporary_key(caller)

    @asynccontextmanager
    async def _temporary_key(self, caller: Caller) -> AsyncGenerator[str, None]:
        text, key = await self._keyring.create(
            name="conformance run", tenant=caller.tenant, scopes=SCOPES, lifetime=CHECK_KEY_SECONDS
        )
        try:
            await self._keys.refresh(self._store)
            await asyncio.sleep(KEY_DELAY_SECONDS)
            yield text
        finally:
            await self._keyring.delete([key.id])
            await self._keys.refresh(self._store)

    ROUTES: ClassVar = (Route("POST /v1/conformance", run, ADMIN),)


@asynccontextmanager
async def _no_key() -> AsyncGenerator[None, None]:
    yield None


async def _with_heartbeats(events: CheckEvents) -> AsyncGenerator[dict[str, Any] | None, None]:
    """These events; None after some time without one."""
    pending: asyncio.Task[dict[str, Any] | None] | None = None
    try:
        while True:
            if pending is None:
                pending = asyncio.ensure_future(_next(events))
            done, _ = await asyncio.wait({pending}, timeout=HEARTBEAT_SECONDS)
            if not done:
                yield None
                continue
            event, pending = pending.result(), None
            if event is None:
                return
            yield event
    finally:
        if pending is not None:
            pending.cancel()
            await asyncio.gather(pending, return_exceptions=True)


async def _next(events: CheckEvents) -> dict[str, Any] | None:
    """The next event; None after the last, and an error as an event."""
    try:
        return await anext(events, None)
    except AntiphonError as error:
        return {"object": "conformance.error", "error": error.to_wire()}


def _rendered(event: dict[str, Any]) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (str(event["object"]).encode(), msgspec.json.encode(event))


def _key_to_wire(key: ApiKey, now: float) -> dict[str, Any]:
    """A key without its digest."""
    fields = msgspec.structs.asdict(key)
    del fields["digest"]
    state = "valid"
    if key.revoked_at is not None:
        state = "revoked"
    elif key.expires_at is not None and key.expires_at <= now:
        state = "expired"
    return {"object": "api_key", **fields, "state": state}


async def _send_list(exchange: Exchange, data: Sequence[dict[str, Any]]) -> None:
    names = [each["id"] for each in data if "id" in each]
    payload = {
        "object": "list",
        "data": data,
        "first_id": names[0] if names else None,
        "last_id": names[-1] if names else None,
        "has_more": False,
    }
    await exchange.send_json(msgspec.json.encode(payload), headers=((b"cache-control", b"no-store"),))
