"""Sealing: reasoning that leaves in `encrypted_content` and can be opened only here, and not be altered.

The key and the random source are handed in. An envelope that is not ours, is damaged or was sealed with
another key does not open; that is no error, the reasoning is just not known.
"""

import base64
import binascii
import hashlib

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from msgspec import Struct

from antiphon.protocol.ids import Entropy

_PREFIX = "antiphon1."
_NONCE_BYTES = 12


class Sealed(Struct, frozen=True, omit_defaults=True):
    """What an envelope holds."""

    reasoning: str


class Sealer:
    """Seals and opens envelopes with one key."""

    def __init__(self, secret: bytes, entropy: Entropy) -> None:
        self._cipher = AESGCM(hashlib.sha256(b"antiphon.seal\0" + secret).digest())
        self._entropy = entropy

    def seal(self, reasoning: str) -> str:
        """An envelope with this reasoning."""
        nonce = self._entropy(_NONCE_BYTES)
        body = self._cipher.encrypt(nonce, msgspec.json.encode(Sealed(reasoning)), None)
        return _PREFIX + base64.urlsafe_b64encode(nonce + body).decode()

    def open(self, envelope: str) -> str | None:
        """The reasoning in an envelope, or None if it cannot be opened."""
        if not envelope.startswith(_PREFIX):
            return None
        try:
            raw = base64.urlsafe_b64decode(envelope.removeprefix(_PREFIX))
            body = self._cipher.decrypt(raw[:_NONCE_BYTES], raw[_NONCE_BYTES:], None)
            return msgspec.json.decode(body, type=Sealed).reasoning
        except (binascii.Error, ValueError, InvalidTag, msgspec.DecodeError):
            return None
