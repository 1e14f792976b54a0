"""Who is asking: `Authorization: Bearer KEY` against the configured keys and a copy of the stored ones.

A request costs one lookup and one comparison, and never waits for the database: `Keys.watch` renews the copy.
"""

import hashlib
import hmac
import logging
from collections.abc import Iterable, Mapping

from msgspec import Struct

from antiphon.caller import OPERATOR, Caller
from antiphon.errors import AntiphonError, Unauthorized
from antiphon.protocol.ids import Clock
from antiphon.service.keys import CHANGED, PREFIX, secret_digest
from antiphon.store.base import ApiKey
from antiphon.store.ports import KeyStore
from antiphon.store.signals import Signals

logger = logging.getLogger(__name__)

INTERVAL = 0.5
"""Seconds after which the copy is renewed, signal or not: a change bites within a second."""


class StoredKey(Struct, frozen=True):
    """What a check needs to know of a key. It is valid until `ends`; a revoked one is over since ever."""

    digest: bytes
    caller: Caller
    ends: float | None


_REVOKED = float("-inf")
_NOBODY = StoredKey(bytes(32), Caller("", frozenset()), _REVOKED)


def _no_clock() -> float:
    raise AssertionError("keys that expire need a clock")


class Keys:
    """Knows who may ask. Without any key everybody is welcome; the server then listens on loopback only.

    A revoked or expired key is still a key: when the last one ends, nobody gets in, not everybody.
    """

    def __init__(self, api_keys: Iterable[str], *, pepper: bytes = b"", clock: Clock = _no_clock) -> None:
        # Looking up a digest in a set is no leak: nobody can choose the digest of a guess.
        self._configured = frozenset(_digest(key.encode()) for key in api_keys)
        self._pepper = pepper
        self._clock = clock
        self._stored: Mapping[str, StoredKey] = {}

    @property
    def empty(self) -> bool:
        """Whether there is no key at all, so that everybody may ask."""
        return not self._configured and not self._stored

    def check(self, authorization: bytes) -> Caller:
        """Who sends this header. Unknown, malformed, revoked and expired keys are refused alike."""
        if self.empty:
            return OPERATOR
        scheme, _, key = authorization.partition(b" ")
        key = key.strip()
        if scheme.lower() != b"bearer":
            raise Unauthorized
        if self._configured and _digest(key) in self._configured:
            return OPERATOR
        return self._check_stored(key)

    def _check_stored(self, key: bytes) -> Caller:
        prefix, _, rest = key.decode("latin-1").partition("_")
        key_id, _, secret = rest.partition("_")
        found = self._stored.get(key_id, _NOBODY)
        # Compared even if nobody has this id, so that the time does not tell.
        same = hmac.compare_digest(secret_digest(self._pepper, secret.encode("latin-1")), found.digest)
        if not same or prefix != PREFIX or (found.ends is not None and found.ends <= self._clock()):
            raise Unauthorized
        return found.caller

    async def refresh(self, store: KeyStore) -> None:
        """Copy the stored keys. Call it before the first request is let in."""
        self._stored = {key.id: _stored(key) for key in await store.list_keys()}

    async def watch(self, store: KeyStore, signals: Signals) -> None:
        """Renew the copy for as long as the server runs. While that fails, the last copy stays in force."""
        failing = False
        with signals.subscribe(CHANGED) as changed:
            while True:
                await changed.wait(INTERVAL)
                try:
                    await self.refresh(store)
                except AntiphonError as error:
                    if not failing:
                        logger.warning(
                            "the keys cannot be read, the last known stay valid: %s", error.message
                        )
                    failing = True
                else:
                    if failing:
                        logger.info("the keys can be read again")
                    failing = False


def _stored(key: ApiKey) -> StoredKey:
    ends = key.expires_at if key.revoked_at is None else _REVOKED
    return StoredKey(bytes.fromhex(key.digest), Caller(key.tenant, frozenset(key.scopes), key.id), ends)


def _digest(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()
