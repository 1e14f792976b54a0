"""``/v1/session``: who the page acts for, signing in with a key, and signing out."""

from importlib.metadata import version as installed_version
from typing import ClassVar

import msgspec
from msgspec import Struct

from antiphon.caller import ADMIN, ALL_SCOPES, OPERATOR, Caller
from antiphon.protocol.parse import decode
from antiphon.server.auth import Keys
from antiphon.server.error_shapes import Header
from antiphon.server.exchange import BodyReader, Exchange
from antiphon.server.guard import check_origin
from antiphon.server.routing import Route
from antiphon.server.sessions import Session, Sessions, cookie_name, set_cookie
from antiphon.store.ports import KeyStore


class _SignIn(Struct):
    api_key: str


class SessionRoutes:
    """The session of the page. These routes need no key: they say whether one is needed."""

    def __init__(self, keys: Keys, sessions: Sessions, stored: KeyStore, bodies: BodyReader) -> None:
        self._keys = keys
        self._sessions = sessions
        self._stored = stored
        self._bodies = bodies

    async def retrieve(self, exchange: Exchange) -> None:
        """The caller of the session cookie."""
        check_origin(exchange.head)
        if not self._keys.needed:
            return await self._send(exchange, OPERATOR, None)
        found = self._sessions.find(exchange.header_values)
        session, caller = found or (None, None)
        await self._send(exchange, caller, session)

    async def create(self, exchange: Exchange) -> None:
        """Sign in with a key: the answer sets the cookie."""
        check_origin(exchange.head)
        signed = decode(await self._bodies.read(exchange), _SignIn)
        if not self._keys.needed:
            return await self._send(exchange, OPERATOR, None)
        value, session, caller = self._sessions.open(signed.api_key)
        await self._send(exchange, caller, session, ((b"set-cookie", _cookie(exchange, value)),))

    async def delete(self, exchange: Exchange) -> None:
        """Sign out: the answer clears the cookie. Another web page cannot do this."""
        check_origin(exchange.head)
        self._sessions.authenticate(exchange.header_values)
        caller = None if self._keys.needed else OPERATOR
        await self._send(exchange, caller, None, ((b"set-cookie", _cookie(exchange, "")),))

    async def _send(
        self,
        exchange: Exchange,
        caller: Caller | None,
        session: Session | None,
        headers: tuple[Header, ...] = (),
    ) -> None:
        name = None
        if caller is not None and caller.key_id is not None:
            name = next((key.name for key in await self._stored.list_keys() if key.id == caller.key_id), None)
        scopes = frozenset[str]() if caller is None else caller.scopes
        payload = {
            "object": "session",
            "signed_in": caller is not None,
            "needs_key": self._keys.needed,
            "tenant": None if caller is None else caller.tenant,
            "key_id": None if caller is None else caller.key_id,
            "key_name": name,
            "scopes": [scope for scope in ALL_SCOPES if scope in scopes],
            "admin": ADMIN in scopes,
            "csrf": None if session is None else session.csrf,
            "version": installed_version("antiphon"),
        }
        headers = (*headers, (b"cache-control", b"no-store"))
        await exchange.send_json(msgspec.json.encode(payload), headers=headers)

    ROUTES: ClassVar = (
        Route("GET /v1/session", retrieve, keyless=True),
        Route("POST /v1/session", create, keyless=True),
        Route("DELETE /v1/session", delete, keyless=True),
    )


def _cookie(exchange: Exchange, value: str) -> bytes:
    forwarded = exchange.header_values("x-forwarded-proto")
    secure = exchange.scheme == "https" or forwarded[:1] == ["https"]
    return set_cookie(cookie_name(exchange.header_values("host")), value, secure=secure)
