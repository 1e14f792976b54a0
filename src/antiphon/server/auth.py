"""Who is asking: `Authorization: Bearer KEY` against the configured keys."""

import hashlib
import hmac
from collections.abc import Iterable

from antiphon.errors import Unauthorized


class Keys:
    """The configured keys. Without any, everybody is welcome (and the server listens on loopback only)."""

    def __init__(self, keys: Iterable[str]) -> None:
        self._digests = [_digest(key.encode()) for key in keys]

    def check(self, authorization: bytes) -> None:
        """Refuse a request without a known key. Compares digests in constant time."""
        if not self._digests:
            return
        scheme, _, key = authorization.partition(b" ")
        given = _digest(key.strip())
        known = [hmac.compare_digest(given, digest) for digest in self._digests]
        if scheme.lower() != b"bearer" or not any(known):
            raise Unauthorized


def _digest(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()
