"""Authentication: `Authorization: Bearer KEY`, against the configured keys and a copy of the stored ones.

A request costs one lookup and one comparison, and never waits for the database: `Keys.watch` renews the copy.
"""

import hashlib
import hmac
import logging
from collections.abc import Iterable, Mapping

from msgspec import Struct

from antiphon.caller import ANONYMOUS, OPERATOR, Caller
from antiphon.errors import AntiphonError, MissingKey, Unauthorized
from antiphon.protocol.ids import Clock
from antiphon.service.keys import CHANGED, PREFIX, secret_digest
from antiphon.store.base import ApiKey
from antiphon.store.ports import KeyStore
from antiphon.store.signals import Signals

logger = logging.getLogger(__name__)

REFRESH_SECONDS = 0.5
"""The copy is renewed this often even without a signal, so that a change takes effect within a second."""


class StoredKey(Struct, frozen=True):
    """The parts of a key that a check needs. It is valid until `ends`; a revoked key ended in the past."""

    digest: bytes
    caller: Caller
    ends: float | None


_REVOKED = float("-inf")
_CONFIGURED = "settings:"
"""How references to keys of the settings begin."""
_UNKNOWN = StoredKey(bytes(32), ANONYMOUS, _REVOKED)


_NOT_BEARER = (
    "The header `Authorization` holds no API key: it must be the word Bearer, a space and the key. "
    "Send `Authorization: Bearer KEY` or `x-api-key: KEY`."
)


def _no_clock() -> float:
    raise AssertionError("keys that expire need a clock")


class Keys:
    """The keys in force. On loopback every caller is accepted as long as there is no key; beyond it
    (`required`) none is.

    A revoked or expired key still counts as a key: when the last one ends, no caller is accepted. When the
    last one is deleted, a server on loopback accepts every caller again.
    """

    def __init__(
        self,
        api_keys: Iterable[str],
        *,
        pepper: bytes = b"",
        clock: Clock = _no_clock,
        required: bool = False,
    ) -> None:
        # Looking up a digest in a set leaks nothing: a guess does not control its digest.
        self._configured = frozenset(_digest(key.encode()) for key in api_keys)
        self.pepper = pepper
        self.clock = clock
        self._required = required
        self._stored: Mapping[str, StoredKey] = {}
        self.needed = required or bool(self._configured)
        """Whether requests need a key."""

    @property
    def empty(self) -> bool:
        """Whether there is no key at all."""
        return not self._configured and not self._stored

    def check(self, authorization: bytes) -> Caller:
        """The caller with this header. The errors for unknown, malformed, revoked and expired keys are the
        same; a missing key has its own."""
        if not self.needed:
            return OPERATOR
        scheme, _, key = authorization.partition(b" ")
        key = key.strip()
        if not authorization or (scheme.lower() == b"bearer" and not key):
            raise MissingKey
        if scheme.lower() != b"bearer":
            raise MissingKey(_NOT_BEARER)
        if self._configured and _digest(key) in self._configured:
            return OPERATOR
        return self._check_stored(key)

    def _check_stored(self, key: bytes) -> Caller:
        prefix, _, rest = key.decode("latin-1").partition("_")
        key_id, _, secret = rest.partition("_")
        found = self._stored.get(key_id, _UNKNOWN)
        # Compared even for an unknown id, so that the time does not reveal which ids exist.
        same = hmac.compare_digest(secret_digest(self.pepper, secret.encode("latin-1")), found.digest)
        if not same or prefix != PREFIX or (found.ends is not None and found.ends <= self.clock()):
            raise Unauthorized
        return found.caller

    def reference(self, key: str) -> str:
        """What stands for a valid key in a session: nothing from which the key could be found."""
        digest = _digest(key.encode("utf-8", "replace"))
        if digest in self._configured:
            return f"{_CONFIGURED}{self._reference(digest)}"
        return key.split("_")[1]

    def check_reference(self, reference: str) -> Caller:
        """The caller with the key of this reference, as long as the key is valid. Raises `Unauthorized`."""
        if reference.startswith(_CONFIGURED):
            sent = reference.removeprefix(_CONFIGURED).encode()
            if any(hmac.compare_digest(sent, self._reference(key).encode()) for key in self._configured):
                return OPERATOR
            raise Unauthorized
        found = self._stored.get(reference, _UNKNOWN)
        if found.ends is not None and found.ends <= self.clock():
            raise Unauthorized
        return found.caller

    def _reference(self, digest: bytes) -> str:
        return hmac.digest(self.pepper, digest, "sha256").hex()

    async def refresh(self, store: KeyStore) -> None:
        """Copy the stored keys. Call it before the first request is served."""
        was_needed = self.needed
        self._stored = {key.id: _stored(key) for key in await store.list_keys()}
        self.needed = self._required or not self.empty
        if was_needed and not self.needed:
            logger.warning("the last key was deleted: requests need no key from now on")

    async def watch(self, store: KeyStore, signals: Signals) -> None:
        """Renew the copy for as long as the server runs. While that fails, the last copy stays in force."""
        failing = False
        with signals.subscribe(CHANGED) as changed:
            while True:
                await changed.wait(REFRESH_SECONDS)
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
    tools = None if key.tools is None else frozenset(key.tools)
    caller = Caller(key.tenant, frozenset(key.scopes), key.id, tools)
    return StoredKey(bytes.fromhex(key.digest), caller, ends)


def _digest(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()
