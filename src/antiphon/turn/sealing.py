"""Sealing: reasoning and summaries that leave in `encrypted_content`, and credentials in the store, to be
opened only here, unaltered.

The key and the random source are handed in. An envelope that is not ours, is damaged or was sealed with
another key does not open, and one that holds reasoning holds no summary. Whether that matters is for the
caller to say: reasoning is then just not known, a missing summary is an error.
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
    """What an envelope holds: reasoning with the marks of its maker, a summary, or what no client sees."""

    reasoning: str | None = None
    summary: str | None = None
    marks: tuple[ProviderState, ...] = ()
    private: JsonObject | None = None


class Sealer:
    """Seals and opens envelopes with one key."""

    def __init__(self, secret: bytes, entropy: Entropy) -> None:
        self._cipher = AESGCM(hashlib.sha256(b"antiphon.seal\0" + secret).digest())
        self._entropy = entropy

    def seal(self, reasoning: str, marks: tuple[ProviderState, ...] = ()) -> str | None:
        """An envelope with this reasoning; None if there is nothing in it."""
        return self._close(Sealed(reasoning=reasoning, marks=marks)) if reasoning or marks else None

    def seal_states(self, reasoning: str, marks: tuple[ProviderState, ...]) -> str | None:
        """An envelope where one is needed though nobody asked for it: only its maker can read a mark, and
        an item has no other place for it."""
        return self.seal(reasoning, marks) if marks else None

    def seal_summary(self, summary: str) -> str:
        """An envelope with this summary of a conversation."""
        return self._close(Sealed(summary=summary))

    def open(self, envelope: str) -> Sealed | None:
        """The reasoning in an envelope; None if it does not open or holds none."""
        content = self._open(envelope)
        return None if content is None or content.reasoning is None else content

    def open_summary(self, envelope: str) -> str | None:
        """The summary in an envelope; None if it does not open or holds none."""
        content = self._open(envelope)
        return None if content is None else content.summary

    def seal_private(self, members: JsonObject) -> str:
        """An envelope with what is stored and not shown to clients."""
        return self._close(Sealed(private=members))

    def open_private(self, envelope: str) -> JsonObject | None:
        """What an envelope hides from clients; None if it does not open or holds nothing of the kind."""
        content = self._open(envelope)
        return None if content is None else content.private

    def seal_request(self, body: bytes) -> bytes:
        """A request for the store: it may hold credentials."""
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
