"""Sealing: authenticated encryption of reasoning and summaries in `encrypted_content`, and of credentials in
the store.

The caller passes the key and the random source. An envelope of another server, a damaged one, or one that was
sealed with another key does not open; an envelope with reasoning contains no summary. The caller decides what
follows: reasoning is then unknown, a missing summary is an error.
"""

import base64
import binascii
import hashlib

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from msgspec import Struct

from antiphon.protocol.content import JsonObject
from antiphon.protocol.ids import Entropy
from antiphon.turn.provider_state import ProviderState

_PREFIX = "antiphon1."
_NONCE_BYTES = 12


class Sealed(Struct, frozen=True, omit_defaults=True):
    """The content of an envelope: reasoning with provider states, a summary, or private members."""

    reasoning: str | None = None
    summary: str | None = None
    marks: tuple[ProviderState, ...] = ()
    """The provider states. Stored envelopes contain this name."""
    private: JsonObject | None = None


class Sealer:
    """Seals and opens envelopes with one key."""

    def __init__(self, secret: bytes, entropy: Entropy) -> None:
        self._cipher = AESGCM(hashlib.sha256(b"antiphon.seal\0" + secret).digest())
        self._entropy = entropy

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

    def seal_request(self, body: bytes) -> bytes:
        """Seal a request for the store, because it may contain credentials."""
        return self.seal_private({"request": body.decode()}).encode()

    def open_request(self, envelope: bytes) -> bytes | None:
        """A stored request; None if it does not open."""
        members = self.open_private(envelope.decode())
        return None if members is None else str(members["request"]).encode()

    def _close(self, content: Sealed) -> str:
        nonce = self._entropy(_NONCE_BYTES)
        body = self._cipher.encrypt(nonce, msgspec.json.encode(content), None)
        return _PREFIX + base64.urlsafe_b64encode(nonce + body).decode()

    def _open(self, envelope: str) -> Sealed | None:
        if not envelope.startswith(_PREFIX):
            return None
        try:
            raw = base64.urlsafe_b64decode(envelope.removeprefix(_PREFIX))
            body = self._cipher.decrypt(raw[:_NONCE_BYTES], raw[_NONCE_BYTES:], None)
            return msgspec.json.decode(body, type=Sealed)
        except (binascii.Error, ValueError, InvalidTag, msgspec.DecodeError):
            return None
