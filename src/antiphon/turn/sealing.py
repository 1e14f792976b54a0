"""Sealing: authenticated encryption of reasoning and summaries in `encrypted_content`, and of credentials in
the store.

The caller passes the key and the random source. An envelope of another server, a damaged one, or one that was
sealed with another key does not open; an envelope with reasoning contains no summary. The caller decides what
follows: reasoning is then unknown, a missing summary is an error.

Envelopes are bound to their tenant: the name of the tenant is the associated data of the encryption, so the
envelope of one tenant is a damaged one for every other.
"""

import base64
import binascii
import hashlib
import hmac

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from msgspec import Struct

from antiphon.protocol.content import JsonObject
from antiphon.protocol.ids import Entropy
from antiphon.turn.provider_state import ProviderState

_PREFIX = "antiphon2."
_UNBOUND_PREFIX = "antiphon1."
"""Older envelopes, which are not bound to a tenant. Versions before 0.2.0 open them."""
_NONCE_BYTES = 12
PSEUDONYM_CHARACTERS = 32
MAX_REMEMBERED_SEALERS = 1000


class Sealed(Struct, frozen=True, omit_defaults=True):
    """The content of an envelope: reasoning with provider states, a summary, or private members."""

    reasoning: str | None = None
    summary: str | None = None
    marks: tuple[ProviderState, ...] = ()
    """The provider states. Stored envelopes contain this name."""
    private: JsonObject | None = None


class SealKey:
    """The key of this server. Entropy is read for `block` envelopes at once: most need no system call."""

    def __init__(self, secret: bytes, entropy: Entropy, block: int = 1) -> None:
        self.cipher = AESGCM(hashlib.sha256(b"antiphon.seal\0" + secret).digest())
        self._entropy = entropy
        self._block = block
        self._nonces: list[bytes] = []
        self.pseudonyms = hashlib.sha256(b"antiphon.pseudonym\0" + secret).digest()
        self._sealers: dict[str, Sealer] = {}

    def nonce(self) -> bytes:
        """A nonce that no other envelope has, from any thread."""
        try:
            return self._nonces.pop()
        except IndexError:
            read = self._entropy(_NONCE_BYTES * self._block)
            nonces = [read[at : at + _NONCE_BYTES] for at in range(0, len(read), _NONCE_BYTES)]
            first, self._nonces = nonces.pop(), nonces
            return first

    def sealer(self, tenant: str) -> "Sealer":
        """The sealer for what belongs to this tenant."""
        known = self._sealers.get(tenant)
        if known is None:
            if len(self._sealers) >= MAX_REMEMBERED_SEALERS:
                self._sealers.clear()
            known = self._sealers[tenant] = Sealer(self, tenant)
        return known


class Sealer:
    """Seals and opens the envelopes of one tenant."""

    __slots__ = ("_associated", "_key", "tenant")

    def __init__(self, key: SealKey, tenant: str) -> None:
        self.tenant = tenant
        self._key = key
        self._associated = tenant.encode()

    def seal(self, reasoning: str, states: tuple[ProviderState, ...] = ()) -> str | None:
        """An envelope with this reasoning; None if it would be empty."""
        return self._close(Sealed(reasoning=reasoning, marks=states)) if reasoning or states else None

    def seal_states(self, reasoning: str, states: tuple[ProviderState, ...]) -> str | None:
        """An envelope for a client that did not request one: an item has no other place for states."""
        return self.seal(reasoning, states) if states else None

    def seal_summary(self, summary: str) -> str:
        """An envelope with this summary of a conversation."""
        return self._close(Sealed(summary=summary))

    def open(self, envelope: str) -> Sealed | None:
        """The reasoning in an envelope; None if it does not open or contains no reasoning."""
        content = self._open(envelope)
        return None if content is None or content.reasoning is None else content

    def open_summary(self, envelope: str) -> str | None:
        """The summary in an envelope; None if it does not open or contains no summary."""
        content = self._open(envelope)
        return None if content is None else content.summary

    def seal_private(self, members: JsonObject) -> str:
        """An envelope with members that are stored and not sent to clients."""
        return self._close(Sealed(private=members))

    def open_private(self, envelope: str) -> JsonObject | None:
        """The private members in an envelope; None if it does not open or contains none."""
        content = self._open(envelope)
        return None if content is None else content.private

    def seal_bytes(self, data: bytes) -> bytes:
        """Seal bytes for the store."""
        nonce = self._key.nonce()
        return nonce + self._key.cipher.encrypt(nonce, data, self._associated)

    def open_bytes(self, sealed: bytes) -> bytes | None:
        """Bytes that were sealed; None if they do not open."""
        return self._decrypted(sealed, self._associated)

    def seal_request(self, body: bytes) -> bytes:
        """Seal a request for the store, because it may contain credentials."""
        return self.seal_private({"request": body.decode()}).encode()

    def open_request(self, envelope: bytes) -> bytes | None:
        """A stored request; None if it does not open."""
        members = self.open_private(envelope.decode())
        return None if members is None else str(members["request"]).encode()

    def pseudonym(self, name: str) -> str:
        """A name that stands for one that the tenant chose: always the same, and never that of another
        tenant."""
        text = b"%b\0%b" % (self._associated, name.encode("utf-8", "surrogatepass"))
        return hmac.digest(self._key.pseudonyms, text, "sha256").hex()[:PSEUDONYM_CHARACTERS]

    def _close(self, content: Sealed) -> str:
        return _PREFIX + base64.urlsafe_b64encode(self.seal_bytes(msgspec.json.encode(content))).decode()

    def _open(self, envelope: str) -> Sealed | None:
        if not envelope.startswith((_PREFIX, _UNBOUND_PREFIX)):
            return None
        try:
            sealed = base64.urlsafe_b64decode(envelope[len(_PREFIX) :])
        except (binascii.Error, ValueError):
            return None
        body = self._decrypted(sealed, self._associated if envelope.startswith(_PREFIX) else None)
        if body is None:
            return None
        try:
            return msgspec.json.decode(body, type=Sealed)
        except (ValueError, msgspec.DecodeError):
            return None

    def _decrypted(self, sealed: bytes, associated: bytes | None) -> bytes | None:
        try:
            return self._key.cipher.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], associated)
        except (ValueError, InvalidTag):
            return None
